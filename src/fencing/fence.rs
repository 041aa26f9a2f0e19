//! A fence, and how it is merged with the caller's filter and update. Pure.

use mongodb::bson::{Bson, Document, doc};
use mongodb::options::UpdateModifications;

use crate::error::{Error, Result};
use crate::token::Token;

/// The operators whose keys are the paths that they change; `$rename` changes those in its values too.
const OPERATORS: [&str; 15] = [
    "$addToSet",
    "$bit",
    "$currentDate",
    "$inc",
    "$max",
    "$min",
    "$mul",
    "$pop",
    "$pull",
    "$pullAll",
    "$push",
    "$rename",
    "$set",
    "$setOnInsert",
    "$unset",
];

/// The token of the newest holder that has written, of either kind.
const SEEN: &str = "seen";
/// The token of the newest exclusive holder that has written.
const EXCLUSIVE: &str = "exclusive";

/// The kind of a fence, and who passes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FenceKind {
    /// One token, in the field itself.
    One,
    /// Two tokens, in a document in the field; the write is of an exclusive holder.
    OfExclusive,
    /// The same; the write is of a holder that others hold beside.
    OfShare,
}

/// A token, and the field of a document that keeps it.
#[derive(Clone, Debug)]
pub(super) struct Fence {
    pub(super) kind: FenceKind,
    pub(super) token: Token,
    pub(super) field: String,
}

impl Fence {
    /// The path of the token that refuses the write, where it is newer.
    pub(super) fn bound(&self) -> String {
        match self.kind {
            FenceKind::One => self.field.clone(),
            FenceKind::OfExclusive => self.part(SEEN),
            FenceKind::OfShare => self.part(EXCLUSIVE),
        }
    }

    fn part(&self, part: &str) -> String {
        format!("{}.{part}", self.field)
    }

    /// The conditions under which the token may be written. All must hold.
    ///
    /// An array would match by any of its elements, and a dotted path by the elements of any array on its way. So
    /// arrays refuse the token, as do other values that are no tokens.
    fn accepting(&self) -> Vec<Document> {
        let (field, bound) = (self.field.as_str(), self.bound());
        let not_newer = |path: &str| doc! { path: { "$lte": Bson::from(self.token) } };
        let is_none = |path: &str| doc! { path: Bson::Null };
        let mut conditions = vec![doc! { "$or": [not_newer(&bound), is_none(&bound)] }];
        let mut paths = vec![bound];
        match self.kind {
            FenceKind::One => {}
            FenceKind::OfExclusive => {
                let other = self.part(EXCLUSIVE);
                conditions.push(doc! { "$or": [not_newer(&other), is_none(&other)] });
                paths.push(other);
            }
            FenceKind::OfShare => {
                let other = self.part(SEEN);
                let is_token = doc! { &other: { "$type": "timestamp" } };
                conditions.push(doc! { "$or": [is_token, is_none(&other)] });
                paths.push(other);
            }
        }
        if self.kind != FenceKind::One {
            // The token of the other kind of fence refuses.
            let is_new = doc! { field: { "$exists": false } };
            conditions.push(doc! { "$or": [is_new, { field: { "$type": "object" } }] });
        }
        let parents = field.match_indices('.').map(|(end, _)| field[..end].to_owned());
        let mut without_array: Vec<String> = parents.chain([field.to_owned()]).collect();
        without_array.extend(paths.into_iter().filter(|path| path != field));
        let is_no_array = |path: String| doc! { path: { "$not": { "$type": "array" } } };
        conditions.extend(without_array.into_iter().map(is_no_array));
        conditions
    }

    /// The caller's filter, plus the conditions under which the document accepts this token.
    pub(super) fn filter(&self, filter: Document) -> Document {
        let mut conditions = vec![filter];
        conditions.extend(self.accepting());
        doc! { "$and": conditions }
    }

    /// The caller's filter, plus the condition that the document refuses this token.
    pub(super) fn refusing(&self, filter: Document) -> Document {
        doc! { "$and": [filter, { "$nor": [{ "$and": self.accepting() }] }] }
    }

    /// The caller's update, plus the change that stores the token.
    pub(super) fn update(&self, update: UpdateModifications) -> Result<UpdateModifications> {
        match update {
            UpdateModifications::Document(update) => self.operators(update).map(Into::into),
            UpdateModifications::Pipeline(stages) => self.pipeline(stages).map(Into::into),
            // The driver may add new kinds.
            other => refuse(format!("cannot merge an update of this kind: {other:?}")),
        }
    }

    fn operators(&self, mut update: Document) -> Result<Document> {
        let field = &self.field;
        if update.is_empty() {
            return refuse("it is empty");
        }
        for (operator, changes) in &update {
            if !operator.starts_with('$') {
                return refuse(format!(
                    "`{operator}` is not an update operator: a replacement document cannot store \
                     the token"
                ));
            }
            if !OPERATORS.contains(&operator.as_str()) {
                return refuse(format!("`{operator}` is not supported: it could change `{field}`"));
            }
            let Bson::Document(changes) = changes else {
                return refuse(format!("the value of `{operator}` is not a document"));
            };
            for (path, change) in changes {
                self.spare(operator, path)?;
                if operator == "$rename" {
                    let Bson::String(target) = change else {
                        return refuse("a target of `$rename` is not a string");
                    };
                    self.spare(operator, target)?;
                }
            }
        }
        let (operator, stored) = match self.kind {
            FenceKind::One => ("$set", doc! { field: self.token }),
            FenceKind::OfExclusive => ("$set", doc! { field: both(self.token) }),
            FenceKind::OfShare => ("$max", doc! { self.part(SEEN): self.token }),
        };
        match update.get_mut(operator) {
            Some(Bson::Document(changes)) => changes.extend(stored),
            Some(_) | None => {
                update.insert(operator, stored);
            }
        }
        Ok(update)
    }

    fn pipeline(&self, mut stages: Vec<Document>) -> Result<Vec<Document>> {
        if stages.is_empty() {
            return refuse("it is empty");
        }
        for stage in &stages {
            let mut entries = stage.iter();
            let (Some((name, value)), None) = (entries.next(), entries.next()) else {
                return refuse("a stage must have exactly one field");
            };
            self.check_stage(name, value)?;
        }
        let field = &self.field;
        stages.push(match self.kind {
            FenceKind::One => doc! { "$set": { field: self.token } },
            // An object would be merged with what is there.
            FenceKind::OfExclusive => doc! { "$set": { field: { "$literal": both(self.token) } } },
            FenceKind::OfShare => {
                let seen = self.part(SEEN);
                let greatest = doc! { "$max": [format!("${seen}"), self.token] };
                doc! { "$set": { seen: greatest } }
            }
        });
        Ok(stages)
    }

    /// Refuses a stage that could prevent the token from being stored.
    ///
    /// The last stage stores the token whatever the stages before it do, with one exception: if the parent in a dotted
    /// path has become an array, it would store the token in each element, or nowhere. So no stage may create an array
    /// there. A stage that names the field would store another value than the token. Of a shared holder, the last stage
    /// stores one of the two tokens, so no stage may remove the other.
    fn check_stage(&self, name: &str, value: &Bson) -> Result<()> {
        let field = &self.field;
        match (name, value) {
            ("$project" | "$replaceWith" | "$replaceRoot", _)
                if self.kind == FenceKind::OfShare =>
            {
                refuse(format!(
                    "`{name}` could remove `{field}`, which a shared holder's write must keep: use \
                     `$set` and `$unset`"
                ))
            }
            ("$set" | "$addFields" | "$project", Bson::Document(fields)) => {
                fields.keys().try_for_each(|path| self.spare(name, path))
            }
            ("$unset", Bson::String(path)) => self.spare(name, path),
            ("$unset", Bson::Array(paths)) => {
                paths.iter().try_for_each(|path| match path.as_str() {
                    Some(path) => self.spare(name, path),
                    None => refuse("a path of `$unset` is not a string"),
                })
            }
            ("$replaceWith" | "$replaceRoot", _) if field.contains('.') => refuse(format!(
                "`{name}` could put an array into the path `{field}`: use a top-level field"
            )),
            ("$replaceWith" | "$replaceRoot", _) => Ok(()),
            ("$set" | "$addFields" | "$project" | "$unset", _) => {
                refuse(format!("the value of `{name}` is of the wrong type"))
            }
            _ => refuse(format!("the stage `{name}` is not supported: it could change `{field}`")),
        }
    }

    /// Refuses a change of the field, of its parents, or of its parts.
    fn spare(&self, operator: &str, path: &str) -> Result<()> {
        let field = &self.field;
        if touches(path, field) {
            return refuse(format!(
                "`{operator}` changes `{path}`, but `{field}` stores the token"
            ));
        }
        Ok(())
    }
}

fn both(token: Token) -> Document {
    doc! { SEEN: token, EXCLUSIVE: token }
}

pub(super) fn check_field(field: &str) -> Result<()> {
    let refuse = |reason: &str| Err(Error::invalid_option("field", reason));
    if field.is_empty() {
        return refuse("it is empty");
    }
    if field.contains('\0') {
        return refuse("it contains a NUL character");
    }
    if field.split('.').any(str::is_empty) {
        return refuse("a part of its path is empty");
    }
    if field.split('.').any(|part| part.starts_with('$')) {
        return refuse("a part of its path begins with `$`");
    }
    if touches("_id", field) {
        return refuse("`_id` cannot be changed by a write");
    }
    Ok(())
}

/// Checks the conditions of an upsert: the insert must collide if the document exists and did not match.
pub(super) fn check_upsert(field: &str, filter: &Document) -> Result<()> {
    let refuse = |reason: String| Err(Error::invalid_option("upsert", reason));
    if !has_equality_on_id(filter) {
        return refuse(
            "the filter has no equality on `_id`: if the fence refused the write, the upsert would \
             insert a second document"
                .to_owned(),
        );
    }
    if names(field, filter) {
        return refuse(format!(
            "the filter has a condition on `{field}`: an upsert would insert its value"
        ));
    }
    Ok(())
}

fn has_equality_on_id(filter: &Document) -> bool {
    filter.iter().any(|(key, value)| match (key.as_str(), value) {
        ("_id", Bson::Document(condition)) => {
            condition.contains_key("$eq") || !condition.keys().any(|key| key.starts_with('$'))
        }
        ("_id", Bson::RegularExpression(_)) => false,
        ("_id", _) => true,
        ("$and", Bson::Array(all)) => {
            all.iter().filter_map(Bson::as_document).any(has_equality_on_id)
        }
        _ => false,
    })
}

/// Whether a condition of this filter is on the field, its parents, or its parts.
fn names(field: &str, filter: &Document) -> bool {
    filter.iter().any(|(key, value)| match (key.as_str(), value) {
        ("$and" | "$or" | "$nor", Bson::Array(parts)) => {
            parts.iter().filter_map(Bson::as_document).any(|part| names(field, part))
        }
        (key, _) => !key.starts_with('$') && touches(key, field),
    })
}

/// Whether one of two dotted paths equals or contains the other. A positional part matches any.
fn touches(path: &str, field: &str) -> bool {
    path.split('.').zip(field.split('.')).all(|(a, b)| a == b || a.starts_with('$'))
}

fn refuse<T>(reason: impl ToString) -> Result<T> {
    Err(Error::invalid_option("update", reason))
}
