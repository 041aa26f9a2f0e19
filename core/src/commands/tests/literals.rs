//! A user's text is never an expression: wherever one could be, the text is under `$literal`.

use std::collections::BTreeSet;

use crate::bson::{Bson, Document, doc};

use super::SENT;
use super::every::{CALL, MARK, META, NAME, OWNER, PREDECESSOR, VALUE, every_command};

/// How the server reads a part of a command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reads {
    /// As data: the command itself, and filters.
    Data,
    /// As an expression: a text that begins with a dollar sign is evaluated.
    Expression,
    /// As data, although it is within an expression.
    Literal,
}

/// The texts of users that were found in one command.
#[derive(Default)]
struct Found {
    /// Those under `$literal`.
    literals: BTreeSet<String>,
    /// Those that the server would evaluate, and keys that a user chose.
    bare: Vec<String>,
}

impl Found {
    fn in_command(command: &Document) -> Found {
        let mut found = Found::default();
        found.look_at(&Bson::from(command.clone()), Reads::Data);
        found
    }

    fn look_at(&mut self, value: &Bson, reads: Reads) {
        for (key, inner) in value.as_document().into_iter().flatten() {
            // A user's key is allowed neither in an expression nor in a filter: it would be a path or an operator.
            let is_literal = reads == Reads::Literal;
            self.note(key, if is_literal { reads } else { Reads::Expression });
            self.look_at(inner, within(reads, key, inner));
        }
        for inner in value.as_array().into_iter().flatten() {
            self.look_at(inner, reads);
        }
        if let Some(text) = value.as_str() {
            self.note(text, reads);
        }
    }

    fn note(&mut self, text: &str, reads: Reads) {
        match reads {
            Reads::Expression if text.contains(MARK) => self.bare.push(text.to_owned()),
            Reads::Literal if text.contains(MARK) => drop(self.literals.insert(text.to_owned())),
            Reads::Data | Reads::Expression | Reads::Literal => {}
        }
    }
}

/// How the value of this key is read.
fn within(reads: Reads, key: &str, value: &Bson) -> Reads {
    match (reads, key) {
        (Reads::Literal, _) | (Reads::Expression, "$literal") => Reads::Literal,
        (Reads::Expression, _) | (_, "$expr" | "fields" | "projection") => Reads::Expression,
        // An array is a pipeline; a document has operators, whose texts are data.
        (Reads::Data, "update" | "u") if value.as_array().is_some() => Reads::Expression,
        (Reads::Data, _) => Reads::Data,
    }
}

fn set(texts: &[&[&str]]) -> BTreeSet<String> {
    texts.concat().into_iter().map(str::to_owned).collect()
}

/// The user's texts that are expected in the expressions of each command.
fn wanted(command: &str) -> BTreeSet<String> {
    let grant = format!("{CALL}.1");
    let range = [format!("{CALL}."), format!("{CALL}/")];
    match command {
        "take" | "take together" | "acquire" | "join" => set(&[&[VALUE, OWNER, &grant], &META]),
        // Its filter has no name, so the pipeline has to set it.
        "insert" => set(&[&[NAME, VALUE, OWNER, &grant], &META]),
        "take over a place" => set(&[&[VALUE, OWNER, &grant, PREDECESSOR], &META]),
        "beat" | "in line" => set(&[&[VALUE, PREDECESSOR]]),
        "end beside others" | "end anywhere" | "end or leave" => {
            set(&[&[VALUE, &grant, &range[0], &range[1]]])
        }
        "admit" | "admit or join" | "admit fast" => set(&[&[VALUE, OWNER, &grant], &META]),
        "resume" | "renew a permit" | "renew two permits" | "find holders" => set(&[&[&grant]]),
        "find written" => set(&[&[VALUE]]),
        _ => set(&[]),
    }
}

#[test]
fn no_text_of_a_user_is_an_expression() {
    let mut with_texts = BTreeSet::new();
    for (what, command) in every_command(SENT) {
        let found = Found::in_command(&command);
        assert!(found.bare.is_empty(), "{what}: {:?} in {command}", found.bare);
        assert_eq!(found.literals, wanted(what), "{what}: {command}");
        with_texts.extend((!found.literals.is_empty()).then_some(what));
    }
    assert_eq!(with_texts.len(), 19, "{with_texts:?}");
}

/// The scan of the test above finds an unquoted text.
#[test]
fn a_bare_text_is_found() {
    let statement = |update: Bson| doc! { "updates": [{ "q": { "name": NAME }, "u": update }] };
    let bare = |command: &Document| Found::in_command(command).bare;
    let expression = Bson::from(doc! { "$set": { "a": { "$eq": ["$a", [VALUE]] } } });
    assert_eq!(bare(&statement(vec![expression].into())), [VALUE]);
    let hidden = Bson::from(doc! { "$set": { "a": { "$literal": { VALUE: [VALUE] } } } });
    assert_eq!(bare(&statement(vec![hidden].into())).len(), 0);
    let operators = Bson::from(doc! { "$set": { "a": VALUE } });
    assert_eq!(bare(&statement(operators)).len(), 0);
    let within_expr = doc! { "q": { "$expr": { "$eq": ["$a", { "b": VALUE }] } } };
    assert_eq!(bare(&within_expr), [VALUE]);
    assert_eq!(bare(&doc! { "q": { NAME: 1 } }), [NAME]);
    assert_eq!(bare(&doc! { "fields": { "a": { NAME: 1 } } }), [NAME]);
}
