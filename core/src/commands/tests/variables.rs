//! Variables of pipelines. No expression can name one that is not bound: only closures have them.

use crate::bson::doc;

use crate::commands::variables::{bind, filter, map, reduce};

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

#[test]
fn a_users_text_that_looks_like_a_variable_binds_nothing() {
    let text = doc! { "$literal": { "$let": { "vars": { "a": 1 }, "in": "$$a" } } };
    let bound = bind("a", 1, |_| text.clone());
    assert_eq!(bound.get_document("$let").unwrap().get_document("in").unwrap(), &text);
}
