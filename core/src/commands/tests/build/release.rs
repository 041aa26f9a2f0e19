use std::time::Duration;

use crate::bson::{Bson, Document};
use crate::spec::EndScope;

use super::super::{target, values};
use super::statements;
use crate::commands::release::{End, EndLater, Form, GrantMatch, ReleaseTarget};

/// A pipeline has no part for documents that its filter does not match.
#[test]
fn an_end_that_leaves_the_queue_is_for_each_form() {
    let pipeline = |form, scope| {
        let target = ReleaseTarget { form, ..target(GrantMatch::Any) };
        let end = End { targets: vec![target], scope, values: values() };
        statements(&end)[0].remove("u").expect("a pipeline")
    };
    for form in [Form::Plain, Form::List, Form::Either] {
        let [beside, anywhere, queued] =
            [EndScope::BesideOthers, EndScope::Anywhere, EndScope::HeldOrQueued]
                .map(|scope| pipeline(form, scope));
        assert_eq!(beside, anywhere);
        assert_eq!(anywhere == queued, form == Form::Either, "{form:?}");
        assert_eq!(queued, pipeline(Form::Either, EndScope::Anywhere));
    }
}

/// The filter alone says which grant is meant.
#[test]
fn a_release_that_is_put_off_has_one_pipeline() {
    let hold_at_least = Duration::from_millis(1_500);
    let of_call = |except| GrantMatch::Call { call_id: "$call".into(), except };
    let grants = [
        GrantMatch::Any,
        GrantMatch::Grant("$call.3".into()),
        of_call(None),
        of_call(Some("$call.2".into())),
    ];
    let part = |grant: &GrantMatch, part| -> Bson {
        let later = EndLater { target: target(grant.clone()), hold_at_least, values: values() };
        let mut statement: Document = statements(&later).remove(0);
        statement.remove(part).unwrap()
    };
    for (place, grant) in grants.iter().enumerate() {
        assert_eq!(part(grant, "u"), part(&grants[0], "u"), "{grant:?}");
        assert!(grants[..place].iter().all(|other| part(grant, "q") != part(other, "q")));
    }
}
