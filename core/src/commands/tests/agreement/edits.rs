//! The rules by which a control changes a command.
//!
//! `$max($expiresAt, new) => new` replaces each `{ "$max": ["$expiresAt", new] }` in a command by its second argument.
//!
//! | in a rule | in a command |
//! | --- | --- |
//! | `$size(a)`, `$max(a, b)` | `{ "$size": a }`, `{ "$max": [a, b] }` |
//! | `_(a, b)` | the same with any operator |
//! | `$path`, `$$variable`, `'text'`, `7`, `true`, `null`, `[a, b]`, `{key: a}` | as in MongoDB |
//! | `name` | any value, and the same one wherever the name comes again |
//! | `{key}` | `{key: key}` |
//! | `{key, ...}` | a document that may have other fields |
//! | `_` | any value |
//!
//! `drop key from {…}` takes the key out of each document that fits, and `drop key` out of each that has it.

use std::collections::BTreeMap;

use crate::bson::{Bson, Document};
use crate::commands::tests::reading::integer;

/// The fields of a document that a rule does not name.
const OTHERS: &str = "...";
const ANY: &str = "_";

/// The values that the names of a rule have in one place of a command.
type Names = BTreeMap<String, Bson>;

/// A rule. The names in it are symbols, which no command has.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pattern: Bson,
    replacement: Bson,
}

impl Rule {
    pub(super) fn read(text: &str) -> Rule {
        if let Some(dropped) = text.strip_prefix("drop ") {
            let (key, pattern) = match dropped.split_once(" from ") {
                Some((key, pattern)) => (key, pattern.to_owned()),
                None => (dropped, format!("{{{dropped}, {OTHERS}}}")),
            };
            let pattern = Reader(&pattern).whole();
            let mut replacement = pattern.clone();
            let fields = replacement.as_document_mut().expect("a document");
            fields.remove(key).expect("the key that is dropped");
            return Rule { pattern, replacement };
        }
        let (pattern, replacement) = text.split_once(" => ").unwrap_or_else(|| panic!("{text}"));
        Rule { pattern: Reader(pattern).whole(), replacement: Reader(replacement).whole() }
    }

    /// The command with each part replaced that fits, from the outside in.
    pub(super) fn applied_to(&self, command: Document) -> Document {
        let mut changed = Bson::from(command);
        self.replace_in(&mut changed);
        changed.as_document().expect("a command").clone()
    }

    fn replace_in(&self, value: &mut Bson) {
        let mut names = Names::new();
        if fits(&self.pattern, value, &mut names) {
            *value = filled_in(&self.replacement, &names);
        } else if let Some(list) = value.as_array_mut() {
            list.iter_mut().for_each(|inner| self.replace_in(inner));
        } else if let Some(document) = value.as_document_mut() {
            document.iter_mut().for_each(|(_, inner)| self.replace_in(inner));
        }
    }
}

/// Whether a value fits the pattern. Its names get their values then.
fn fits(pattern: &Bson, found: &Bson, names: &mut Names) -> bool {
    match (pattern, found) {
        (Bson::Symbol(name), _) => {
            name == ANY || names.entry(name.clone()).or_insert_with(|| found.clone()) == found
        }
        (Bson::Array(parts), Bson::Array(all)) => {
            let mut both = parts.iter().zip(all);
            parts.len() == all.len() && both.all(|(part, found)| fits(part, found, names))
        }
        (Bson::Document(parts), Bson::Document(all)) => {
            let is_open = parts.contains_key(OTHERS);
            let value_of = |key: &str| if key == ANY { all.values().next() } else { all.get(key) };
            let mut named = parts.iter().filter(|(key, _)| *key != OTHERS);
            let fit = (is_open || parts.len() == all.len())
                && named.all(|(key, part)| value_of(key).is_some_and(|it| fits(part, it, names)));
            if fit && is_open {
                let others = all.iter().filter(|(key, _)| !parts.contains_key(key));
                let others = others.map(|(key, value)| (key.clone(), value.clone()));
                names.insert(OTHERS.to_owned(), Bson::Document(others.collect()));
            }
            fit
        }
        _ => pattern == found || integer(pattern).is_some_and(|it| integer(found) == Some(it)),
    }
}

/// The replacement with the values of its names.
fn filled_in(part: &Bson, names: &Names) -> Bson {
    if let Bson::Symbol(name) = part {
        names.get(name).unwrap_or_else(|| panic!("no {name} in the pattern")).clone()
    } else if let Some(list) = part.as_array() {
        Bson::Array(list.iter().map(|each| filled_in(each, names)).collect())
    } else if let Some(fields) = part.as_document() {
        let mut document = Document::new();
        for (key, value) in fields {
            match (key.as_str(), filled_in(value, names)) {
                (OTHERS, Bson::Document(others)) => document.extend(others),
                (key, value) => drop(document.insert(key, value)),
            }
        }
        document.into()
    } else {
        part.clone()
    }
}

/// Reads the text of a pattern or a replacement.
struct Reader<'a>(&'a str);

impl<'a> Reader<'a> {
    fn whole(mut self) -> Bson {
        let whole = self.value();
        assert!(self.0.is_empty(), "{} behind {whole}", self.0);
        whole
    }

    /// Whether this comes next. It is read then.
    fn takes(&mut self, next: &str) -> bool {
        self.0 = self.0.trim_start();
        let rest = self.0.strip_prefix(next);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn word(&mut self) -> &'a str {
        let is_end = |letter: char| !letter.is_alphanumeric() && !"$._-".contains(letter);
        let text = self.0.trim_start();
        let (word, rest) = text.split_at(text.find(is_end).unwrap_or(text.len()));
        assert!(!word.is_empty(), "no word: {text}");
        self.0 = rest;
        word
    }

    fn list(&mut self, end: &str) -> Vec<Bson> {
        let mut list = Vec::new();
        while !self.takes(end) {
            list.push(self.value());
            self.takes(",");
        }
        list
    }

    fn fields(&mut self) -> Document {
        let mut fields = Document::new();
        while !self.takes("}") {
            let key = self.word();
            let is_named = self.takes(":");
            let value = if is_named { self.value() } else { Bson::Symbol(key.to_owned()) };
            fields.insert(key, value);
            self.takes(",");
        }
        fields
    }

    fn value(&mut self) -> Bson {
        if self.takes("[") {
            return Bson::Array(self.list("]"));
        }
        if self.takes("{") {
            return Bson::Document(self.fields());
        }
        if self.takes("'") {
            let (text, rest) = self.0.split_once('\'').expect("the end of a text");
            self.0 = rest;
            return text.into();
        }
        let word = self.word();
        if self.takes("(") {
            let mut arguments = self.list(")");
            let is_one = arguments.len() == 1;
            let argument = if is_one { arguments.remove(0) } else { Bson::Array(arguments) };
            return Bson::Document(Document::from_iter([(word.to_owned(), argument)]));
        }
        match word {
            "true" | "false" => (word == "true").into(),
            "null" => Bson::Null,
            path if path.starts_with('$') => path.into(),
            _ => number(word).unwrap_or_else(|| Bson::Symbol(word.to_owned())),
        }
    }
}

fn number(word: &str) -> Option<Bson> {
    let small = word.parse().map(Bson::Int32);
    small.or_else(|_| word.parse().map(Bson::Int64)).ok()
}
