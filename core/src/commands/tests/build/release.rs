use std::time::Duration;

use crate::bson::{Bson, DateTime, Document, doc};
use crate::spec::EndScope;

use super::super::paths::assert_same;
use super::super::{SENT, target, values};
use super::golden::assert_golden;
use super::{is_sound, line, simple, update};
use crate::commands::Command;
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

/// The filter for each of them.
fn filters() -> [Document; 4] {
    let of_call = doc! { "$gte": "$call.", "$lt": "$call/" };
    let but_for_one = doc! { "$gte": "$call.", "$lt": "$call/", "$ne": "$call.2" };
    let ids = [None, Some("$call.3".into()), Some(of_call.into()), Some(but_for_one.into())];
    ids.map(|id: Option<Bson>| {
        let mut query = doc! { "name": "$name", "value": "$$NOW" };
        if let Some(id) = id {
            query.insert("grant.id", id);
        }
        query
    })
}

/// Each grant in the plain form, and one of them in the others.
fn targets() -> Vec<ReleaseTarget> {
    let plain = whiches().map(target);
    let others = [Form::List, Form::Either].map(|form| ReleaseTarget { form, ..plain[3].clone() });
    [plain.as_slice(), &others].concat()
}

#[test]
fn a_delete_is_written_out() {
    assert_golden("delete", &[Delete { targets: targets() }.build("locks", SENT)]);
}

/// The same filters; and the document of a lease that has no holder and has expired by every clock.
#[test]
fn a_tombstone_is_written_out() {
    let tombstone = |(place, mut query): (usize, Document)| {
        query.insert("$expr", is_sound());
        query.insert("queue.0", doc! { "$exists": false });
        let expired = DateTime::from_millis(0);
        let value = format!("released:fresh.{place}");
        let left = doc! { "name": "$name", "value": value, "expiresAt": expired };
        doc! { "q": query, "u": left, "collation": simple() }
    };
    let targets = whiches().map(target).to_vec();
    let command = Tombstone { targets, values: values() };
    let statements = filters().into_iter().enumerate().map(tombstone).collect();
    assert_same(&command.build("locks", SENT), &update(statements, false));
}

fn end(targets: Vec<ReleaseTarget>, scope: EndScope) -> Document {
    End { targets, scope, values: values() }.build("locks", SENT)
}

#[test]
fn an_end_is_written_out() {
    let [.., grant, _, _] = whiches();
    for (file, form) in [("end", Form::Plain), ("end-list", Form::List), ("end-any", Form::Either)]
    {
        let target = ReleaseTarget { form, ..target(grant.clone()) };
        assert_golden(file, &[end(vec![target], EndScope::Anywhere)]);
    }
}

#[test]
fn the_filters_of_an_end_are_written_out() {
    let scopes = [EndScope::BesideOthers, EndScope::Anywhere, EndScope::HeldOrQueued];
    let filters = scopes.map(|scope| {
        let command = end(targets(), scope);
        let statements = command.get_array("updates").unwrap().iter();
        let filters = statements.map(|it| it.as_document().unwrap().get("q").unwrap().clone());
        doc! { format!("{scope:?}"): filters.collect::<Vec<_>>() }
    });
    assert_golden("end-filters", &filters);
}

/// A pipeline has no part for documents that its filter does not match.
#[test]
fn an_end_that_leaves_the_queue_is_for_each_form() {
    let pipeline = |form, scope| {
        let target = ReleaseTarget { form, ..target(GrantMatch::Any) };
        let mut command = end(vec![target], scope);
        let statements = command.get_array_mut("updates").unwrap();
        statements[0].as_document_mut().unwrap().remove("u").expect("a pipeline")
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

#[test]
fn a_release_that_is_put_off_is_written_out() {
    let until = doc! { "$add": ["$grant.acquiredAt", 1_500_i64] };
    let is_date = doc! { "$eq": [{ "$type": "$grant.acquiredAt" }, "date"] };
    // The first waiter has to be notified: the time for which it waits has changed.
    let millis = doc! { "$toString": { "$toLong": "$$NOW" } };
    let text = doc! { "$concat": ["$$head.id", "@!", millis] };
    let somebody_waits = doc! { "$eq": [{ "$type": "$$head" }, "object"] };
    let nudge = doc! { "$cond": [somebody_waits, text, "$promoted"] };
    let head = doc! { "$arrayElemAt": [line(), 0] };
    let set = doc! {
        "value": "released:fresh.0",
        "grant.value": "released:fresh.0",
        "expiresAt": { "$cond": [is_date, until, "$$NOW"] },
        "promoted": { "$let": { "vars": { "head": head }, "in": nudge } },
    };
    for (which, mut query) in whiches().into_iter().zip(filters()) {
        query.insert("$expr", is_sound());
        let command = EndLater {
            target: target(which),
            hold_at_least: Duration::from_millis(1_500),
            values: values(),
        };
        let statement = doc! { "q": query, "u": [{ "$set": set.clone() }], "collation": simple() };
        assert_same(&command.build("locks", SENT), &update(vec![statement], true));
    }
}
