//! A user's text is never an expression: wherever one could stand, it stands under `$literal`.

use std::collections::BTreeSet;

use mongodb::bson::{Bson, Document, doc};

use super::SENT;
use super::every::{CALL, MARK, META, NAME, OWNER, PREDECESSOR, VALUE, every_command};

/// How the server reads a part of a command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reads {
    /// Texts are texts: the command itself, and filters.
    Data,
    /// A text that begins with a dollar sign is an expression.
    Expression,
    /// Texts are texts, in the midst of expressions.
    Literal,
}

/// What was found out about the texts of users in one command.
#[derive(Default)]
struct Found {
    /// Those that stand under `$literal`.
    literals: BTreeSet<String>,
    /// Those that the server would evaluate, and keys that a user has chosen.
    bare: Vec<String>,
}

impl Found {
    fn in_command(command: &Document) -> Found {
        let mut found = Found::default();
        found.look_at(&Bson::from(command.clone()), Reads::Data);
        found
    }

    fn look_at(&mut self, value: &Bson, reads: Reads) {
        if let Some(document) = value.as_document() {
            for (key, inner) in document {
                if reads == Reads::Literal {
                    self.note(key, reads);
                } else if key.contains(MARK) {
                    // Neither in an expression nor in a filter: there it would be a path or an operator.
                    self.bare.push(key.clone());
                }
                self.look_at(inner, within(reads, key, inner));
            }
        }
        for inner in value.as_array().into_iter().flatten() {
            self.look_at(inner, reads);
        }
        if let Some(text) = value.as_str() {
            self.note(text, reads);
        }
    }

    fn note(&mut self, text: &str, reads: Reads) {
        if text.contains(MARK) {
            match reads {
                Reads::Data => {}
                Reads::Expression => self.bare.push(text.to_owned()),
                Reads::Literal => drop(self.literals.insert(text.to_owned())),
            }
        }
    }
}

/// How the value of this key is read.
fn within(reads: Reads, key: &str, value: &Bson) -> Reads {
    match (reads, key) {
        (Reads::Literal, _) | (Reads::Expression, "$literal") => Reads::Literal,
        (Reads::Expression, _) | (_, "$expr" | "fields" | "projection") => Reads::Expression,
        // A list is a pipeline; a document is operators, and texts are texts there.
        (Reads::Data, "update" | "u") if value.as_array().is_some() => Reads::Expression,
        (Reads::Data, _) => Reads::Data,
    }
}

fn set(texts: &[&[&str]]) -> BTreeSet<String> {
    texts.concat().into_iter().map(str::to_owned).collect()
}

/// Which texts of users come into the expressions of each command.
fn wanted(command: &str) -> BTreeSet<String> {
    let grant = format!("{CALL}.1");
    let range = [format!("{CALL}."), format!("{CALL}/")];
    match command {
        "take" | "take together" | "acquire" | "join" => set(&[&[VALUE, OWNER, &grant], &META]),
        // It asks for no name, and so the pipeline has to give it.
        "insert" => set(&[&[NAME, VALUE, OWNER, &grant], &META]),
        "take over a place" => set(&[&[VALUE, OWNER, &grant, PREDECESSOR], &META]),
        "beat" | "in line" => set(&[&[VALUE, PREDECESSOR]]),
        "hand on to somebody" | "hand on to anybody" | "leave" => {
            set(&[&[VALUE, &grant, &range[0], &range[1]]])
        }
        "release later" => set(&[&[VALUE]]),
        "resume" => set(&[&[&grant]]),
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
    assert_eq!(with_texts.len(), 13, "{with_texts:?}");
}

/// The name is in filters and nowhere else: where the document is made by an upsert, the server takes it from there.
/// Not so where it looks for no document.
#[test]
fn a_name_is_in_no_expression_at_all() {
    for (what, command) in every_command(SENT).into_iter().filter(|(what, _)| *what != "insert") {
        assert!(!Found::in_command(&command).literals.contains(NAME), "{what}: {command}");
    }
}

/// What the tests above look for is found by them.
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
