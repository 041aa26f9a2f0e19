//! How a control changes a command: the places in its document, and the expressions to replace.

use crate::bson::{Bson, Document};

/// The value at a path of keys and indexes: `updates/0/q`.
fn at<'a>(command: &'a mut Document, path: &str) -> &'a mut Bson {
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    let mut found = command.get_mut(first).unwrap_or_else(|| panic!("no {path}"));
    for key in rest.split('/').filter(|key| !key.is_empty()) {
        let next = if let Bson::Document(document) = found {
            document.get_mut(key)
        } else if let Bson::Array(list) = found {
            key.parse().ok().and_then(|place: usize| list.get_mut(place))
        } else {
            None
        };
        found = next.unwrap_or_else(|| panic!("no {path}"));
    }
    found
}

/// The document at a path.
pub(super) fn part<'a>(command: &'a mut Document, path: &str) -> &'a mut Document {
    at(command, path).as_document_mut().unwrap_or_else(|| panic!("no document: {path}"))
}

/// Replaces each document within a command for which the function returns a value, from the outside in.
pub(super) fn replace(
    mut command: Document,
    replacement: &impl Fn(&Document) -> Option<Bson>,
) -> Document {
    command.iter_mut().for_each(|(_, value)| replace_in(value, replacement));
    command
}

fn replace_in(value: &mut Bson, replacement: &impl Fn(&Document) -> Option<Bson>) {
    if let Some(list) = value.as_array_mut() {
        list.iter_mut().for_each(|inner| replace_in(inner, replacement));
    } else if let Some(document) = value.as_document_mut() {
        match replacement(document) {
            Some(other) => *value = other,
            None => document.iter_mut().for_each(|(_, inner)| replace_in(inner, replacement)),
        }
    }
}

/// The arguments of this operator, if the document is such an expression.
pub(super) fn arguments<'a>(found: &'a Document, operator: &str) -> Option<&'a [Bson]> {
    found.get_array(operator).ok().map(Vec::as_slice)
}

/// Replaces each `operator: [first, second]` by its second argument.
pub(super) fn second_of(command: Document, operator: &str, first: &str) -> Document {
    replace(command, &|found| match arguments(found, operator)? {
        [text, second] if text.as_str() == Some(first) => Some(second.clone()),
        _ => None,
    })
}

/// Replaces each `operator: [first, second]` by its first argument.
pub(super) fn first_of(command: Document, operator: &str, second: &str) -> Document {
    replace(command, &|found| match arguments(found, operator)? {
        [first, text] if text.as_str() == Some(second) => Some(first.clone()),
        _ => None,
    })
}

/// Replaces an expression by a value, wherever it occurs.
pub(super) fn instead_of(command: Document, old: &Document, new: impl Into<Bson>) -> Document {
    let new = new.into();
    replace(command, &|found| (found == old).then(|| new.clone()))
}

/// Removes a key of the document at a path.
pub(super) fn without(mut command: Document, path: &str, key: &str) -> Document {
    part(&mut command, path).remove(key);
    command
}
