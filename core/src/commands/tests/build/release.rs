use std::time::Duration;

use crate::bson::{Document, doc};
use crate::spec::EndScope;

use super::super::{target, values};
use super::{assert_command, assert_snapshot, statements};
use crate::commands::release::{Delete, End, EndLater, Form, GrantMatch, ReleaseTarget, Tombstone};

/// Each way to select a grant.
fn whiches() -> [GrantMatch; 4] {
    [
        GrantMatch::Any,
        GrantMatch::Grant("$call.3".into()),
        GrantMatch::Call { call_id: "$call".into(), except: None },
        GrantMatch::Call { call_id: "$call".into(), except: Some("$call.2".into()) },
    ]
}

/// Each grant in the plain form, and one of them in the others.
fn targets() -> Vec<ReleaseTarget> {
    let plain = whiches().map(target);
    let others = [Form::List, Form::Either].map(|form| ReleaseTarget { form, ..plain[3].clone() });
    [plain.as_slice(), &others].concat()
}

/// A tombstone has the same filters; and it makes the document of a lease that has no holder and has expired by every
/// clock.
#[test]
fn a_delete_is_written_out() {
    assert_command("Delete", &Delete { targets: targets() });
    let targets = whiches().map(target).to_vec();
    assert_command("Tombstone", &Tombstone { targets, values: values() });
}

fn end(targets: Vec<ReleaseTarget>, scope: EndScope) -> End {
    End { targets, scope, values: values() }
}

#[test]
fn an_end_is_written_out() {
    let [.., grant, _, _] = whiches();
    for (name, form) in
        [("End-plain", Form::Plain), ("End-list", Form::List), ("End-either", Form::Either)]
    {
        let target = ReleaseTarget { form, ..target(grant.clone()) };
        assert_command(name, &end(vec![target], EndScope::Anywhere));
    }
}

#[test]
fn the_filters_of_an_end_are_written_out() {
    let scopes = [EndScope::BesideOthers, EndScope::Anywhere, EndScope::HeldOrQueued];
    let filters = scopes.map(|scope| {
        let filter = |mut statement: Document| statement.remove("q").unwrap();
        let filters = statements(&end(targets(), scope)).into_iter().map(filter);
        doc! { format!("{scope:?}"): filters.collect::<Vec<_>>() }
    });
    assert_snapshot("End-filters", filters.to_vec());
}

/// A pipeline has no part for documents that its filter does not match.
#[test]
fn an_end_that_leaves_the_queue_is_for_each_form() {
    let pipeline = |form, scope| {
        let target = ReleaseTarget { form, ..target(GrantMatch::Any) };
        statements(&end(vec![target], scope))[0].remove("u").expect("a pipeline")
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

/// The first waiter has to be notified: the time for which it waits has changed.
#[test]
fn a_release_that_is_put_off_is_written_out() {
    let hold_at_least = Duration::from_millis(1_500);
    let later = |which| EndLater { target: target(which), hold_at_least, values: values() };
    assert_command("EndLater", &later(GrantMatch::Any));
    let [pipelines, filters] = ["u", "q"].map(|part| {
        whiches().map(|which| statements(&later(which))[0].remove(part).unwrap()).to_vec()
    });
    assert!(pipelines.iter().all(|pipeline| *pipeline == pipelines[0]), "{pipelines:?}");
    assert_snapshot("EndLater-filters", filters);
}
