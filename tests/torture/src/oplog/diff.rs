//! Applies an update in the oplog to a document: the server's own format, version 2.
//!
//! A difference has the fields `d` (removed), `u` and `i` (set), and `s<field>` (a difference in a field). One of an
//! array has `a: true`, `l` (its new length), `u<index>` and `s<index>`.

use mongo_lease::mongodb::bson::{Bson, Document};

use crate::cluster::Failed;

/// The document after an update.
pub(super) fn updated(before: &Document, update: &Document) -> Result<Document, Failed> {
    match (update.get("$v").and_then(number), update.get_document("diff")) {
        (Some(2), Ok(diff)) => {
            let mut after = before.clone();
            change_document(&mut after, diff)?;
            Ok(after)
        }
        (None, _) => Ok(update.clone()),
        (Some(_), _) => Err(Failed::new(format!("an update of an unknown kind: {update}"))),
    }
}

fn change_document(document: &mut Document, diff: &Document) -> Result<(), Failed> {
    for (kind, change) in diff {
        let fields = change.as_document();
        match (&kind[..], fields) {
            ("d", Some(fields)) => fields.keys().for_each(|field| drop(document.remove(field))),
            ("u" | "i", Some(fields)) => document.extend(fields.clone()),
            (_, Some(inner)) if kind.starts_with('s') => {
                let found = document.get_mut(&kind[1..]);
                let found = found.ok_or_else(|| unknown(kind, diff))?;
                change_value(found, inner)?;
            }
            (_, _) => return Err(unknown(kind, diff)),
        }
    }
    Ok(())
}

fn change_value(value: &mut Bson, diff: &Document) -> Result<(), Failed> {
    if !matches!(diff.get_bool("a"), Ok(true)) {
        let document = value.as_document_mut().ok_or_else(|| unknown("s", diff))?;
        return change_document(document, diff);
    }
    let array = value.as_array_mut().ok_or_else(|| unknown("a", diff))?;
    if let Some(length) = diff.get("l").and_then(number).and_then(|it| usize::try_from(it).ok()) {
        array.resize(length, Bson::Null);
    }
    for (kind, change) in diff {
        let (head, index) = kind.split_at(1);
        let Ok(index) = index.parse::<usize>() else {
            continue;
        };
        if array.len() <= index {
            array.resize(index + 1, Bson::Null);
        }
        match (head, change.as_document()) {
            ("u", _) => array[index] = change.clone(),
            ("s", Some(inner)) => change_value(&mut array[index], inner)?,
            (_, _) => return Err(unknown(kind, diff)),
        }
    }
    Ok(())
}

fn number(value: &Bson) -> Option<i64> {
    value.as_i64().or_else(|| value.as_i32().map(i64::from))
}

fn unknown(kind: &str, diff: &Document) -> Failed {
    Failed::new(format!("{kind:?} is not understood in the difference {diff}"))
}

#[cfg(test)]
mod tests {
    use mongo_lease::mongodb::bson::doc;

    use super::*;

    #[test]
    fn fields_are_taken_away_set_and_changed_within() {
        let before = doc! { "a": 1, "b": { "c": 1, "d": 2 }, "e": 3 };
        let within = doc! { "u": { "c": 9 } };
        let diff = doc! { "d": { "a": false }, "u": { "e": 4 }, "i": { "f": 5 }, "sb": within };
        let after = updated(&before, &doc! { "$v": 2, "diff": diff }).unwrap();
        assert_eq!(after, doc! { "b": { "c": 9, "d": 2 }, "e": 4, "f": 5 });
    }

    #[test]
    fn arrays_are_cut_set_and_changed_within() {
        let before = doc! { "q": [{ "x": 1 }, { "x": 2 }, { "x": 3 }] };
        let diff =
            doc! { "sq": { "a": true, "l": 2, "u1": { "x": 9 }, "s0": { "u": { "x": 7 } } } };
        let after = updated(&before, &doc! { "$v": 2, "diff": diff }).unwrap();
        assert_eq!(after, doc! { "q": [{ "x": 7 }, { "x": 9 }] });
    }

    #[test]
    fn a_replacement_is_the_document_and_others_are_refused() {
        let before = doc! { "a": 1 };
        assert_eq!(updated(&before, &doc! { "b": 2 }).unwrap(), doc! { "b": 2 });
        assert!(updated(&before, &doc! { "$v": 1, "$set": { "a": 2 } }).is_err());
        let odd = doc! { "$v": 2, "diff": { "x": 1 } };
        assert!(updated(&before, &odd).is_err());
    }
}
