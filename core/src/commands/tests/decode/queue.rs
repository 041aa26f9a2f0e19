//! Queue fields in replies.

use crate::bson::{Bson, DateTime, Document, Timestamp, doc};
use crate::rules::outcome::{Outcome, REFUSED};
use crate::spec::EndScope;

use super::super::{SENT, acquire, found, in_line, joining, target, values};
use super::{assert_no_reply, held_by, without_batch};
use crate::commands::Command;
use crate::commands::DecodeError;
use crate::commands::acquire::{AcquireReply, Refused, SlowAcquire};
use crate::commands::heartbeat::QueueEntry;
use crate::commands::release::{End, GrantMatch};

fn refused(acquire: &SlowAcquire, reply: &Document) -> Refused {
    match acquire.decode(reply, SENT).unwrap() {
        AcquireReply::Refused(refused) => refused,
        other @ (AcquireReply::Granted(_) | AcquireReply::UseSlowForm { .. }) => {
            panic!("{other:?}")
        }
    }
}

/// The reply to a refused call, with this value where the projection shows the queue.
fn refusal_with(field: &str, value: Option<Bson>) -> Document {
    let mut document = held_by("another");
    if let Some(value) = value {
        document.insert(field, value);
    }
    found(document)
}

#[test]
fn a_refusal_says_how_many_stand_before_us() {
    for (shown, wanted) in [
        (Some(Bson::Int32(0)), Some(0)),
        (Some(Bson::Int32(1)), Some(1)),
        (Some(Bson::Int32(i32::MAX)), Some(2_147_483_647)),
        // Not in the queue.
        (Some(Bson::Int32(-1)), None),
        (Some(Bson::Int32(i32::MIN)), None),
        (None, None),
        // No server answers this.
        (Some(Bson::Null), None),
        (Some(Bson::Int64(1)), None),
        (Some(Bson::Double(1.0)), None),
        (Some("1".into()), None),
        (Some(vec![Bson::Int32(1)].into()), None),
    ] {
        let refused = refused(&joining(), &refusal_with("ahead", shown.clone()));
        assert_eq!(refused.ahead, wanted, "{shown:?}");
        assert_eq!(
            (refused.sent, refused.at),
            (SENT, Some(Timestamp { time: 1_700_000_000, increment: 5 }))
        );
        assert_eq!(refused.info.value.as_deref(), Some("another"));
    }
}

#[test]
fn a_refusal_says_how_many_wait() {
    for (shown, wanted) in [
        (Some(Bson::Int32(0)), 0),
        (Some(Bson::Int32(7)), 7),
        (Some(Bson::Int32(-1)), 0),
        (Some(Bson::Null), 0),
        (Some(Bson::Double(f64::NAN)), 0),
        (Some("7".into()), 0),
        (None, 0),
    ] {
        let refused = refused(&acquire(), &refusal_with("waiting", shown.clone()));
        assert_eq!(refused.info.waiting, wanted, "{shown:?}");
        // A call that does not wait is not in the queue, whatever the field says.
        assert_eq!(refused.ahead, None, "{shown:?}");
    }
}

#[test]
fn a_refusal_without_its_time_is_a_refusal() {
    for time in [None, Some(Bson::Null), Some(7.into()), Some(DateTime::from_millis(7).into())] {
        let mut reply = refusal_with("ahead", Some(Bson::Int32(2)));
        reply.remove("operationTime");
        if let Some(time) = time {
            reply.insert("operationTime", time);
        }
        let refused = refused(&joining(), &reply);
        assert_eq!((refused.ahead, refused.at), (Some(2), None), "{reply}");
    }
}

#[test]
fn a_grant_is_a_grant_whatever_is_shown_of_the_line() {
    let odd = [Bson::Int32(-1), Bson::Int32(3), Bson::Null, "x".into(), doc! { "a": 1 }.into()];
    for shown in odd {
        let mut document = held_by("$$NOW");
        document.insert("ahead", shown.clone());
        document.insert("waiting", shown.clone());
        let AcquireReply::Granted(granted) = joining().decode(&found(document), SENT).unwrap()
        else {
            panic!("refused: {shown}");
        };
        assert_eq!(granted.grant_id.as_str(), "$call.2");
        assert_eq!(granted.info.waiting, u32::try_from(shown.as_i32().unwrap_or(0)).unwrap_or(0));
    }
    // A grant to the predecessor counts as another holder's, until the server says that it is ours.
    let successor = SlowAcquire { predecessor: Some("$before".to_owned()), ..joining() };
    let refused = refused(&successor, &found(held_by("$before")));
    assert_eq!(refused.info.value.as_deref(), Some("$before"));
}

/// One that the server refuses alone is known not to be applied; others of the same command may have been.
#[test]
fn a_refused_end_tells_whether_others_may_be_applied() {
    let error = doc! { "index": 0, "code": 121, "errmsg": "invalid" };
    let reply = doc! { "writeErrors": [error], "n": 0 };
    for (count, maybe) in [(1, false), (2, true)] {
        let targets = vec![target(GrantMatch::Any); count];
        let end = End { targets, scope: EndScope::Anywhere, values: values() };
        let Err(DecodeError::Write { outcome, .. }) = end.decode(&reply, SENT) else {
            panic!("{reply}")
        };
        assert_eq!(outcome, Outcome { maybe_applied: maybe, ..REFUSED });
    }
}

fn batch(documents: Vec<Bson>) -> Document {
    doc! { "cursor": { "id": 0_i64, "firstBatch": documents }, "ok": 1.0 }
}

#[test]
fn who_is_in_line_is_who_is_shown() {
    let place =
        |name: &str, value: &str| QueueEntry { name: name.to_owned(), value: value.to_owned() };
    let documents = vec![
        doc! { "name": "a", "ours": ["v", "w"] }.into(),
        doc! { "name": "b", "ours": [] }.into(),
        doc! { "name": "c", "ours": ["v"] }.into(),
    ];
    let present = in_line().decode(&batch(documents), SENT).unwrap();
    assert_eq!(present, [place("a", "v"), place("a", "w"), place("c", "v")]);
    assert_eq!(in_line().decode(&batch(vec![]), SENT).unwrap(), []);
}

#[test]
fn documents_of_another_form_show_nobody_in_line() {
    let odd = [
        Bson::Null,
        7.into(),
        doc! {}.into(),
        doc! { "ours": ["v"] }.into(),
        doc! { "name": "a" }.into(),
        doc! { "name": Bson::Null, "ours": ["v"] }.into(),
        doc! { "name": Bson::Symbol("a".to_owned()), "ours": ["v"] }.into(),
        doc! { "name": ["a"], "ours": ["v"] }.into(),
        doc! { "name": "a", "ours": Bson::Null }.into(),
        doc! { "name": "a", "ours": "v" }.into(),
        doc! { "name": "a", "ours": { "0": "v" } }.into(),
        doc! { "name": "a", "ours": [7, Bson::Null, ["v"], { "value": "v" }] }.into(),
    ];
    assert_eq!(in_line().decode(&batch(odd.to_vec()), SENT).unwrap(), []);
    assert_no_reply(&in_line(), without_batch());
}
