//! Which grant a release ends, and how filters and pipelines name it.

use super::admission::is_of;
use super::snapshot::LeaseSnapshot;
use super::variables::Variable;
use super::{grant_field, has_sound_expiry, literal, path, queue};
use crate::bson::{Bson, Document, doc};
use crate::format::{self, grant, holder};
use crate::rules::permits::Permits;
use crate::texts::GrantMatch;

/// Which grant to end: one name, one value, and which of its grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseTarget {
    /// The lease's name.
    pub name: String,
    /// The holder's value.
    pub value: String,
    /// Which of its grants.
    pub grant: GrantMatch,
    /// The form in which the document shows it.
    pub form: Form,
}

/// The form in which a document shows a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// In the plain fields: a grant under limit 1.
    Plain,
    /// In the list of holders.
    List,
    /// Nobody knows: an operator names it by its value.
    Either,
}

impl Form {
    /// The form of a grant of these permits.
    pub fn of(permits: Permits) -> Form {
        if permits.is_exclusive() { Form::Plain } else { Form::List }
    }
}

impl GrantMatch {
    /// A filter on the text of an id. `None` where every id fits.
    pub(super) fn filter(&self) -> Option<Bson> {
        match self {
            GrantMatch::Any => None,
            GrantMatch::Grant(id) => Some(id.as_str().into()),
            GrantMatch::Call { call_id, except } => {
                let grants = call_id.grants();
                let mut of_call = doc! { "$gte": grants.start, "$lt": grants.end };
                if let Some(taken) = except {
                    of_call.insert("$ne", taken.as_str());
                }
                Some(of_call.into())
            }
        }
    }

    /// Conditions on the id at this path.
    fn conditions(&self, id: &str) -> Vec<Document> {
        match self {
            GrantMatch::Any => Vec::new(),
            GrantMatch::Grant(meant) => vec![doc! { "$eq": [id, literal(meant.as_str())] }],
            GrantMatch::Call { call_id, except } => {
                let grants = call_id.grants();
                let taken = except.as_ref();
                let from = doc! { "$gte": [id, literal(grants.start)] };
                let to = doc! { "$lt": [id, literal(grants.end)] };
                let not = taken.map(|taken| doc! { "$ne": [id, literal(taken.as_str())] });
                [from, to].into_iter().chain(not).collect()
            }
        }
    }
}

impl ReleaseTarget {
    /// A filter: the plain fields show this grant.
    pub(super) fn in_plain_fields(&self) -> Document {
        let mut filter = doc! { format::VALUE: &self.value };
        filter.extend(self.grant.filter().map(|id| (grant_field(grant::ID), id)));
        filter
    }

    /// A filter on an element of the list: it shows this grant.
    pub(super) fn in_list(&self) -> Document {
        let mut element = doc! { holder::VALUE: &self.value };
        element.extend(self.grant.filter().map(|id| (holder::ID.to_owned(), id)));
        element
    }

    /// A filter: the document is in shared use, and its list fits.
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
        filter.insert("$expr", has_sound_expiry());
        filter
    }

    /// Selects the document where this target has the exclusive lease.
    pub(super) fn filter(&self) -> Document {
        self.named(vec![self.in_plain_fields()])
    }

    /// Selects the document where this target is the only holder and the queue has no entry, live or expired.
    pub(super) fn filter_alone(&self) -> Document {
        let only = || {
            let element = self.in_list();
            let first = element
                .into_iter()
                .map(|(field, value)| (format!("{}.0.{field}", format::HOLDERS), value));
            let mut filter = ReleaseTarget::shared(doc! { "$size": 1 });
            filter.extend(first);
            filter
        };
        queue::without_queue(self.named(self.in_form(|| self.in_plain_fields(), only)))
    }

    /// The conditions for the forms in which the document may show this target.
    pub(super) fn in_form(
        &self,
        plain: impl FnOnce() -> Document,
        list: impl FnOnce() -> Document,
    ) -> Vec<Document> {
        match self.form {
            Form::Plain => vec![plain()],
            Form::List => vec![list()],
            Form::Either => vec![plain(), list()],
        }
    }

    /// Whether a document shows that this target has the exclusive lease.
    pub fn is(&self, seen: &LeaseSnapshot) -> bool {
        seen.info.name == self.name
            && seen.info.value.as_ref() == Some(&self.value)
            && self.grant.has(seen.grant_id.as_ref())
    }

    /// A condition: this target has the exclusive lease.
    pub(super) fn has_lease(&self) -> Document {
        let value = doc! { "$eq": [path(format::VALUE), literal(&self.value)] };
        let mut all = vec![value];
        all.extend(self.grant.conditions(&path(&grant_field(grant::ID))));
        doc! { "$and": all }
    }

    /// A condition on one holder: it is this target.
    pub(super) fn is_holder(&self, each: Variable) -> Document {
        let mut all = vec![is_of(each, &self.value)];
        all.extend(self.grant.conditions(&each.field(holder::ID)));
        doc! { "$and": all }
    }
}
