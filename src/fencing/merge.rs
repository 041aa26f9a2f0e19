//! Merges the caller's filter and update with the fence. Pure.

use mongodb::bson::{Bson, Document, doc};
use mongodb::options::UpdateModifications;

use super::kind::FenceKind;
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

/// The caller's filter, plus the conditions under which the document accepts this token.
pub(super) fn filter(kind: FenceKind, token: Token, field: &str, filter: Document) -> Document {
    let mut conditions = vec![filter];
    conditions.extend(kind.accepting(token, field));
    doc! { "$and": conditions }
}

/// The caller's filter, plus the condition that the document refuses this token.
pub(super) fn refusing(kind: FenceKind, token: Token, field: &str, filter: Document) -> Document {
    doc! { "$and": [filter, { "$nor": [{ "$and": kind.accepting(token, field) }] }] }
}

/// The caller's update, plus the change that stores the token.
pub(super) fn update(
    kind: FenceKind,
    token: Token,
    field: &str,
    update: UpdateModifications,
) -> Result<UpdateModifications> {
    match update {
        UpdateModifications::Document(update) => {
            Ok(UpdateModifications::Document(operators(kind, token, field, update)?))
        }
        UpdateModifications::Pipeline(stages) => {
            Ok(UpdateModifications::Pipeline(pipeline(kind, token, field, stages)?))
        }
        // The driver may add new kinds.
        other => refuse(format!("cannot merge an update of this kind: {other:?}")),
    }
}

fn operators(kind: FenceKind, token: Token, field: &str, mut update: Document) -> Result<Document> {
    if update.is_empty() {
        return refuse("it is empty");
    }
    for (operator, changes) in &update {
        if !operator.starts_with('$') {
            return refuse(format!(
                "`{operator}` is not an update operator: a replacement document cannot store the \
                 token"
            ));
        }
        if !OPERATORS.contains(&operator.as_str()) {
            return refuse(format!("`{operator}` is not supported: it could change `{field}`"));
        }
        let Bson::Document(changes) = changes else {
            return refuse(format!("the value of `{operator}` is not a document"));
        };
        for (path, change) in changes {
            spare(field, operator, path)?;
            if operator == "$rename" {
                let Bson::String(target) = change else {
                    return refuse("a target of `$rename` is not a string");
                };
                spare(field, operator, target)?;
            }
        }
    }
    let (operator, stored) = kind.operator(token, field);
    match update.get_mut(operator) {
        Some(Bson::Document(changes)) => changes.extend(stored),
        Some(_) | None => {
            update.insert(operator, stored);
        }
    }
    Ok(update)
}

fn pipeline(
    kind: FenceKind,
    token: Token,
    field: &str,
    mut stages: Vec<Document>,
) -> Result<Vec<Document>> {
    if stages.is_empty() {
        return refuse("it is empty");
    }
    for stage in &stages {
        let mut entries = stage.iter();
        let (Some((name, value)), None) = (entries.next(), entries.next()) else {
            return refuse("a stage must have exactly one field");
        };
        check_stage(kind, field, name, value)?;
    }
    stages.push(kind.stage(token, field));
    Ok(stages)
}

/// Refuses a stage that could prevent the token from being stored.
///
/// The last stage stores the token whatever the stages before it do, with one exception: if the parent in a dotted path
/// has become an array, it would store the token in each element, or nowhere. So no stage may create an array there. A
/// stage that names the field would store another value than the token, and is refused too. Where the last stage does
/// not store all that the fence keeps, no stage may remove it.
fn check_stage(kind: FenceKind, field: &str, name: &str, value: &Bson) -> Result<()> {
    match (name, value) {
        ("$project" | "$replaceWith" | "$replaceRoot", _) if !kind.stores_all() => refuse(format!(
            "`{name}` could remove `{field}`, which a shared holder's write must keep: use `$set` \
             and `$unset`"
        )),
        ("$set" | "$addFields" | "$project", Bson::Document(fields)) => {
            fields.keys().try_for_each(|path| spare(field, name, path))
        }
        ("$unset", Bson::String(path)) => spare(field, name, path),
        ("$unset", Bson::Array(paths)) => paths.iter().try_for_each(|path| match path.as_str() {
            Some(path) => spare(field, name, path),
            None => refuse("a path of `$unset` is not a string"),
        }),
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

/// Refuses a change of the field, of its parents, or of its parts.
fn spare(field: &str, operator: &str, path: &str) -> Result<()> {
    if touches(path, field) {
        return refuse(format!("`{operator}` changes `{path}`, but `{field}` stores the token"));
    }
    Ok(())
}

/// Whether one of two dotted paths equals or contains the other. A positional part matches any.
fn touches(path: &str, field: &str) -> bool {
    path.split('.').zip(field.split('.')).all(|(a, b)| a == b || a.starts_with('$'))
}

fn refuse<T>(reason: impl ToString) -> Result<T> {
    Err(Error::invalid_option("update", reason))
}
