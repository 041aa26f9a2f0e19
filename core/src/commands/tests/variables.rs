//! Variables of pipelines: every command reads only those that it has bound.

use std::collections::BTreeSet;

use crate::bson::{Bson, Document, doc};

use super::SENT;
use super::every::every_command;
use crate::commands::variables::{bind, filter, map, reduce};

/// The variables that the server binds.
const OF_THE_SERVER: [&str; 3] = ["NOW", "ROOT", "REMOVE"];

/// The variables that an expression reads and that nothing around it binds.
#[derive(Default)]
struct Unbound {
    found: BTreeSet<String>,
    /// How many that are bound are read.
    bound: usize,
}

impl Unbound {
    fn in_command(command: &Document) -> Unbound {
        let mut unbound = Unbound::default();
        unbound.look_at(&Bson::from(command.clone()), &BTreeSet::new());
        unbound
    }

    fn look_at(&mut self, expression: &Bson, bound: &BTreeSet<&str>) {
        if let Some(text) = expression.as_str().and_then(|text| text.strip_prefix("$$")) {
            let name = text.split('.').next().expect("a name");
            match bound.contains(name) {
                true => self.bound += 1,
                false if OF_THE_SERVER.contains(&name) => {}
                false => drop(self.found.insert(name.to_owned())),
            }
        }
        let parts = expression.as_array().into_iter().flatten();
        parts.for_each(|part| self.look_at(part, bound));
        for (key, value) in expression.as_document().into_iter().flatten() {
            // Data, and filters on data: a text that begins with dollar signs is a text there.
            if !["$literal", "q", "query", "filter"].contains(&key.as_str()) {
                self.look_at_operator(key, value, bound);
            }
        }
    }

    fn look_at_operator(&mut self, key: &str, value: &Bson, bound: &BTreeSet<&str>) {
        let (inner, names): (&str, Vec<&str>) = match (key, value.as_document()) {
            ("$let", Some(operator)) => (
                "in",
                operator.get_document("vars").expect("variables").keys().map(|it| &**it).collect(),
            ),
            ("$map", Some(operator)) => ("in", vec![operator.get_str("as").expect("a name")]),
            ("$filter", Some(operator)) => ("cond", vec![operator.get_str("as").expect("a name")]),
            ("$reduce", Some(_)) => ("in", vec!["value", "this"]),
            _ => return self.look_at(value, bound),
        };
        let within: BTreeSet<&str> = bound.iter().copied().chain(names).collect();
        for (part, value) in value.as_document().into_iter().flatten().filter(|(it, _)| *it != "as")
        {
            self.look_at(value, if part == inner { &within } else { bound });
        }
    }
}

#[test]
fn every_variable_is_bound_where_it_is_read() {
    let mut with_variables = 0;
    for (what, command) in every_command(SENT) {
        let unbound = Unbound::in_command(&command);
        assert_eq!(unbound.found, BTreeSet::new(), "{what}: {command}");
        with_variables += usize::from(unbound.bound > 0);
    }
    assert!(with_variables > 10, "{with_variables}");
}

/// The scan of the test above finds a variable outside of its scope.
#[test]
fn a_variable_that_is_not_bound_is_found() {
    let found =
        |command: Document| Unbound::in_command(&command).found.into_iter().collect::<Vec<_>>();
    let bound = bind("a", "$b", |a| doc! { "$add": [a, a.field("c")] });
    assert!(found(doc! { "update": [bound.clone()] }).is_empty());
    assert_eq!(found(doc! { "update": [bound, "$$a"] }), ["a"]);
    // The value of a variable, and the input of an operator, are outside of its scope.
    assert_eq!(found(bind("a", "$$a.b", |a| a)), ["a"]);
    assert_eq!(found(map("$$each", |each| each)), ["each"]);
    assert_eq!(found(filter("$$each.a", |each| doc! { "$not": each })), ["each"]);
    assert_eq!(
        found(reduce("$$this", "$$value", |value, this| doc! { "$add": [value, this] })),
        ["this", "value"]
    );
    assert!(found(doc! { "q": { "value": "$$user" }, "u": { "$literal": "$$user" } }).is_empty());
}

#[test]
#[should_panic(expected = "is bound again in its own scope")]
fn a_variable_bound_twice_in_its_scope_is_refused() {
    bind("a", 1, |_| bind("a", 2, |again| again));
}

#[test]
#[should_panic(expected = "is bound again in its own scope")]
fn a_list_within_the_elements_of_another_is_refused() {
    map("$a", |each| filter(each.field("b"), |inner| doc! { "$gt": [inner, 1] }));
}

#[test]
#[should_panic(expected = "is bound again in its own scope")]
fn a_reduction_within_another_is_refused() {
    reduce("$a", 0, |value, this| {
        reduce(this, value, |inner, next| doc! { "$add": [inner, next] })
    });
}
