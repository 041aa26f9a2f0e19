//! Takes commands apart: which values are in them, and at which paths.

use crate::bson::{Bson, Document};

/// The position of a value in a command: keys, and indexes of arrays.
#[derive(Clone, Debug)]
pub(super) struct Path(Vec<String>);

impl Path {
    fn with(&self, step: &str) -> Path {
        Path([self.0.as_slice(), &[step.to_owned()]].concat())
    }

    /// The field, or the variable, to which it belongs.
    pub(super) fn field(&self) -> &str {
        self.0.iter().map(String::as_str).rfind(|step| is_field(step)).unwrap_or_default()
    }

    /// The operator whose argument it is, or the key of its field.
    pub(super) fn last(&self) -> &str {
        self.0.last().map_or("", String::as_str)
    }

    /// Whether it belongs to this variable or field, or to a part of it.
    pub(super) fn is_within(&self, name: &str) -> bool {
        self.0.iter().any(|step| step == name)
    }

    /// Whether it is copied into its field, as it is or as a text: it is in no condition and in no sum.
    pub(super) fn is_only_handed_on(&self) -> bool {
        let outside = self.0.iter().rposition(|step| is_field(step)).map_or(0, |field| field + 1);
        let operators: Vec<&str> = self.0[outside..].iter().map(String::as_str).collect();
        let mut steps = operators.iter().enumerate().filter(|(_, step)| step.starts_with('$'));
        steps.all(|(place, step)| match *step {
            "$cond" => operators.get(place + 1).is_some_and(|argument| *argument != "0"),
            "$max" | "$concat" | "$toString" => true,
            _ => false,
        })
    }
}

fn is_field(step: &str) -> bool {
    !step.starts_with('$') && !step.bytes().all(|byte| byte.is_ascii_digit())
}

/// Every value in a command that is neither a document nor an array, with its path.
pub(super) fn leaves(command: &Document) -> Vec<(Path, Bson)> {
    fn collect(path: &Path, value: &Bson, leaves: &mut Vec<(Path, Bson)>) {
        if let Some(document) = value.as_document() {
            document.iter().for_each(|(key, inner)| collect(&path.with(key), inner, leaves));
        } else if let Some(array) = value.as_array() {
            let inner = array.iter().enumerate();
            inner.for_each(|(place, it)| collect(&path.with(&place.to_string()), it, leaves));
        } else {
            leaves.push((path.clone(), value.clone()));
        }
    }
    let mut leaves = Vec::new();
    collect(&Path(Vec::new()), &Bson::from(command.clone()), &mut leaves);
    leaves
}

/// Where two commands of the same shape differ, and in which values.
pub(super) fn differences(now: &Document, then: &Document) -> Vec<(Path, Bson, Bson)> {
    let (now, then) = (leaves(now), leaves(then));
    let shape =
        |leaves: &[(Path, Bson)]| leaves.iter().map(|(path, _)| path.0.clone()).collect::<Vec<_>>();
    assert_eq!(shape(&now), shape(&then));
    let both = now.into_iter().zip(then);
    both.filter(|((_, now), (_, then))| now != then)
        .map(|((path, now), (_, then))| (path, now, then))
        .collect()
}
