//! Which grants a release ends, as the filters of its commands name them.

use super::admission::is_of;
use super::*;

impl GrantMatch {
    /// The bounds of the ids: operators of filters, and of expressions too.
    fn bounds(&self) -> Vec<(&'static str, String)> {
        match self {
            GrantMatch::Any => Vec::new(),
            GrantMatch::Grant(id) => vec![("$eq", id.as_str().to_owned())],
            GrantMatch::Call { call_id, except } => {
                let grants = call_id.grants();
                let except = except.as_ref().map(|id| ("$ne", id.as_str().to_owned()));
                [("$gte", grants.start), ("$lt", grants.end)].into_iter().chain(except).collect()
            }
        }
    }

    /// A filter on the text of an id. `None` where every id fits.
    fn filter(&self) -> Option<Bson> {
        let bound = |(is, id): (&str, String)| (is.to_owned(), Bson::from(id));
        match self {
            GrantMatch::Any => None,
            GrantMatch::Grant(id) => Some(id.as_str().into()),
            GrantMatch::Call { .. } => {
                Some(self.bounds().into_iter().map(bound).collect::<Document>().into())
            }
        }
    }

    /// A condition: this one holds, and the id at the path fits.
    fn and_fits(&self, condition: Document, id: &str) -> Document {
        let fits = |(is, bound): (&str, String)| doc! { is: [id, literal(bound)] };
        all([condition].into_iter().chain(self.bounds().into_iter().map(fits)))
    }
}

impl ReleaseTarget {
    /// A filter: these fields show this grant.
    fn shown_in(&self, value: &str, id: String) -> Document {
        let mut filter = doc! { value: &self.value };
        filter.extend(self.grant.filter().map(|grant| (id, grant)));
        filter
    }

    /// A filter: the plain fields show this grant.
    pub(super) fn in_plain_fields(&self) -> Document {
        self.shown_in(format::VALUE, grant_field(grant::ID))
    }

    /// A filter on an element of the list: it shows this grant.
    pub(super) fn in_list(&self) -> Document {
        self.shown_in(holder::VALUE, holder::ID.to_owned())
    }

    /// A filter: the document is held by several, and its list fits.
    pub(super) fn shared(list: Document) -> Document {
        doc! { format::VALUE: format::SHARED_VALUE, format::HOLDERS: list }
    }

    /// A filter for this name: one of these conditions holds, and the document is not damaged.
    pub(super) fn named(&self, mut any: Vec<Document>) -> Document {
        let mut filter = doc! { format::NAME: &self.name };
        match any.len() {
            1 => filter.extend(any.remove(0)),
            _ => filter.extend(doc! { "$or": any }),
        }
        with(filter, "$expr", has_sound_expiry())
    }

    /// Selects the document where this target has the exclusive lease.
    pub(super) fn filter(&self) -> Document {
        self.named(vec![self.in_plain_fields()])
    }

    /// Selects the document where this target is the only holder and the queue has no entry, live or expired.
    pub(super) fn filter_alone(&self) -> Document {
        let in_first = |field| format!("{}.0.{field}", format::HOLDERS);
        let mut only = ReleaseTarget::shared(doc! { "$size": 1 });
        only.extend(self.shown_in(&in_first(holder::VALUE), in_first(holder::ID)));
        let filter = self.named(self.in_form(self.in_plain_fields(), only));
        with(filter, format!("{}.0", format::QUEUE), doc! { "$exists": false })
    }

    /// The filters for the forms in which the document may show this target.
    pub(super) fn in_form(&self, plain: Document, list: Document) -> Vec<Document> {
        match self.form {
            Form::Plain => vec![plain],
            Form::List => vec![list],
            Form::Either => vec![plain, list],
        }
    }

    /// Whether a document shows that this target has the exclusive lease.
    pub fn is(&self, seen: &LeaseSnapshot) -> bool {
        seen.info.name == self.name
            && seen.info.value.as_ref() == Some(&self.value)
            && self.grant.has(seen.info.grant_id.as_ref())
    }

    /// A condition: this target has the exclusive lease.
    pub(super) fn has_lease(&self) -> Document {
        let is_value = eq(path(format::VALUE), literal(&self.value));
        self.grant.and_fits(is_value, &grant_path(grant::ID))
    }

    /// A condition on one holder: it is this target.
    pub(super) fn is_holder(&self, each: Variable) -> Document {
        self.grant.and_fits(is_of(each, &self.value), &each.field(holder::ID))
    }
}
