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

/// Removes one argument of each `operator` whose arguments fit.
pub(super) fn without_argument(
    command: Document,
    operator: &str,
    place: usize,
    is_it: impl Fn(&[Bson]) -> bool,
) -> Document {
    replace(command, &|found| {
        let mut others = arguments(found, operator)?.to_vec();
        if !is_it(&others) {
            return None;
        }
        others.remove(place);
        let mut changed = Document::new();
        changed.insert(operator, others);
        Some(changed.into())
    })
}

/// Replaces each `operator` whose arguments fit by one of its arguments.
pub(super) fn argument_of(
    command: Document,
    operator: &str,
    place: usize,
    is_it: impl Fn(&[Bson]) -> bool,
) -> Document {
    replace(command, &|found| {
        let all = arguments(found, operator)?;
        is_it(all).then(|| all[place].clone())
    })
}

/// Removes a key from each document within a command that has this other key too.
pub(super) fn without_beside(command: Document, key: &str, other: &str) -> Document {
    without_where(command, key, |found| found.contains_key(other))
}

/// Removes a key from each document within a command that fits.
pub(super) fn without_where(
    command: Document,
    key: &str,
    is_it: impl Fn(&Document) -> bool,
) -> Document {
    replace(command, &|found| {
        let mut rest = found.clone();
        rest.remove(key).filter(|_| is_it(found)).map(|_| rest.into())
    })
}

/// Replaces each `$filter` of this list by the list.
pub(super) fn unfiltered(command: Document, list: &str) -> Document {
    replace(command, &|found| {
        let filter = found.get_document("$filter").ok()?;
        (filter.get_str("input").ok() == Some(list)).then(|| list.into())
    })
}

/// Whether this is the expression.
pub(super) fn is(found: &Bson, expression: Document) -> bool {
    found.as_document() == Some(&expression)
}

/// Whether this is an expression with this operator.
pub(super) fn has(found: &Bson, operator: &str) -> bool {
    found.as_document().is_some_and(|found| found.contains_key(operator))
}

/// Changes the filter at a path, in each form that it has: those of its `$or`, or the filter itself.
pub(super) fn in_each_form(
    mut command: Document,
    path: &str,
    change: impl Fn(&mut Document),
) -> Document {
    let filter = part(&mut command, path);
    change(filter);
    let forms = filter.get_array_mut("$or").into_iter().flatten();
    forms.filter_map(Bson::as_document_mut).for_each(change);
    command
}
