//! Variables of pipelines: each can be read only where it is bound.
//!
//! A pipeline binds its variables by `$let`, `$map`, `$filter` and `$reduce`. Here a variable is known only to the
//! closure that builds the expression in its scope. So an expression names no variable that is not bound. A variable
//! that is bound twice, one within the other, fails when the command is built.

use crate::bson::{Bson, Document, doc};

/// A variable in scope.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Variable(&'static str);

impl Variable {
    /// The path to a field of it.
    pub(crate) fn field(self, field: &str) -> String {
        format!("$${}.{field}", self.0)
    }

    /// A document of these fields of it.
    pub(crate) fn fields(self, fields: impl IntoIterator<Item = &'static str>) -> Document {
        fields.into_iter().map(|field| (field.to_owned(), self.field(field).into())).collect()
    }
}

impl From<Variable> for Bson {
    fn from(variable: Variable) -> Bson {
        Bson::String(format!("$${}", variable.0))
    }
}

/// Binds a variable to a value in an expression.
pub(crate) fn bind<E: Into<Bson>>(
    name: &'static str,
    value: impl Into<Bson>,
    inner: impl FnOnce(Variable) -> E,
) -> Document {
    let inner = scope(&[name], inner(Variable(name)).into());
    doc! { "$let": { "vars": { name: value.into() }, "in": inner } }
}

/// Variables that are bound one after the other.
#[derive(Default)]
pub(crate) struct Scope(Vec<(&'static str, Bson)>);

impl Scope {
    /// Binds a variable to a value, in which those before it are known.
    pub(crate) fn bind(&mut self, name: &'static str, value: impl Into<Bson>) -> Variable {
        self.0.push((name, value.into()));
        Variable(name)
    }
}

/// An expression with the variables that the closure binds.
pub(crate) fn in_scope(expression: impl FnOnce(&mut Scope) -> Document) -> Document {
    let mut scope = Scope::default();
    let inner = expression(&mut scope);
    scope.0.into_iter().rev().fold(inner, |inner, (name, value)| bind(name, value, |_| inner))
}

/// The elements of a list that fit a condition.
pub(crate) fn filter(
    list: impl Into<Bson>,
    condition: impl FnOnce(Variable) -> Document,
) -> Document {
    let condition = scope(&["each"], condition(Variable("each")).into());
    doc! { "$filter": { "input": list.into(), "as": "each", "cond": condition } }
}

/// A list of what each element of a list becomes.
pub(crate) fn map<E: Into<Bson>>(
    list: impl Into<Bson>,
    each: impl FnOnce(Variable) -> E,
) -> Document {
    let each = scope(&["each"], each(Variable("each")).into());
    doc! { "$map": { "input": list.into(), "as": "each", "in": each } }
}

/// A list reduced to one value. The closure gets the value so far, and the next element.
pub(crate) fn reduce(
    list: impl Into<Bson>,
    initial: impl Into<Bson>,
    next: impl FnOnce(Variable, Variable) -> Document,
) -> Document {
    let next = scope(&["value", "this"], next(Variable("value"), Variable("this")).into());
    doc! { "$reduce": { "input": list.into(), "initialValue": initial.into(), "in": next } }
}

/// The expression, which binds none of these variables again.
fn scope(names: &[&str], inner: Bson) -> Bson {
    debug_assert!(
        !names.iter().any(|name| binds(&inner, name)),
        "a variable of {names:?} is bound again in its own scope: {inner}"
    );
    inner
}

/// Whether an expression binds this variable.
fn binds(expression: &Bson, name: &str) -> bool {
    if let Some(elements) = expression.as_array() {
        return elements.iter().any(|element| binds(element, name));
    }
    let is_bound_at = |(key, value): (&String, &Bson)| {
        let operator = value.as_document();
        let is_here = match (key.as_str(), operator) {
            ("$literal", _) => return false,
            ("$let", Some(operator)) => {
                operator.get_document("vars").is_ok_and(|vars| vars.contains_key(name))
            }
            ("$map" | "$filter", Some(operator)) => {
                operator.get_str("as").is_ok_and(|bound| bound == name)
            }
            ("$reduce", Some(_)) => ["value", "this"].contains(&name),
            _ => false,
        };
        is_here || binds(value, name)
    };
    expression.as_document().is_some_and(|document| document.iter().any(is_bound_at))
}
