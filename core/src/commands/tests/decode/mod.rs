mod admissions;
mod fast_acquire;
mod permits;
mod queue;
mod watch;

use crate::bson::{Bson, DateTime, Document, Timestamp, doc};

use super::{SENT, acquire, found, renewed, request, target, tick, values};
use crate::commands::Command;
use crate::commands::DecodeError;
use crate::commands::acquire::{AcquireReply, SlowAcquire};
use crate::commands::find::FindLeases;
use crate::commands::probe::{DryRun, Hello};
use crate::commands::release::{Delete, EndLater, GrantMatch};
use crate::commands::renew::RenewMany;
use crate::commands::reply::{Ended, Matched};

/// The server's time of the replies here.
const SERVER_NOW: DateTime = DateTime::from_millis(1_700_000_000_000);

/// The document of a lease held with this value, as the projection shows it.
fn held_by(value: &str) -> Document {
    doc! {
        "name": "$name",
        "value": value,
        "now": SERVER_NOW,
        "expiresAt": DateTime::from_millis(1_700_000_031_000),
        "grant": { "value": value, "id": "$call.2", "sentMicros": 5_i64, "ttlMs": 30_000_i64 },
    }
}

fn refusal(reply: &Document) -> crate::info::LeaseInfo {
    match acquire().decode(reply, SENT).unwrap() {
        AcquireReply::Refused(refused) => refused.info,
        other @ (AcquireReply::Granted(_) | AcquireReply::UseSlowForm { .. }) => {
            panic!("{other:?}")
        }
    }
}

#[test]
fn a_document_with_our_value_and_grant_decodes_as_granted() {
    let AcquireReply::Granted(granted) = acquire().decode(&found(held_by("$$NOW")), SENT).unwrap()
    else {
        panic!("refused");
    };
    // The attempt that was granted, which is not the one whose answer this is.
    assert_eq!((granted.sent, granted.grant_id.as_str()), (SENT, "$call.2"));
    assert_eq!(granted.token, Some(Timestamp { time: 1_700_000_000, increment: 5 }));
    assert_eq!(granted.info.value.as_deref(), Some("$$NOW"));
}

#[test]
fn everything_else_is_a_refusal() {
    let info = refusal(&found(held_by("another")));
    assert_eq!((info.name.as_str(), info.value.as_deref()), ("$name", Some("another")));
    assert_eq!(info.remaining.unwrap().as_millis(), 31_000);
    // Our value, with a grant that is another's, has no valid form, or is missing.
    for grant in [
        Bson::Null,
        "x".into(),
        doc! {}.into(),
        doc! { "value": "another", "id": "$call.2" }.into(),
        doc! { "value": "$$NOW" }.into(),
        doc! { "value": "$$NOW", "id": 7 }.into(),
        vec![held_by("$$NOW")].into(),
    ] {
        let mut document = held_by("$$NOW");
        document.insert("grant", grant);
        refusal(&found(document));
    }
    // Our value in a corrupt document: its expiry is unknown.
    let mut damaged = held_by("$$NOW");
    damaged.insert("expiresAt", "tomorrow");
    refusal(&found(damaged));
    refusal(&found(doc! {}));
}

#[test]
fn a_reply_without_a_document_or_without_its_time_is_neither() {
    for reply in [doc! {}, found(Bson::Null), found("x"), found(vec![held_by("$$NOW")])] {
        let result = acquire().decode(&reply, SENT);
        assert!(matches!(result, Err(DecodeError::Reply(_))), "{result:?}");
    }
    // A token is never made up.
    for time in [None, Some(Bson::Null), Some(7.into()), Some(DateTime::now().into())] {
        let mut reply = found(held_by("$$NOW"));
        reply.remove("operationTime");
        if let Some(time) = time {
            reply.insert("operationTime", time);
        }
        let result = acquire().decode(&reply, SENT);
        assert!(matches!(result, Err(DecodeError::Unsupported(_))), "{result:?}");
        // A refusal needs none.
        reply.insert("value", held_by("another"));
        refusal(&reply);
    }
}

#[test]
fn without_an_oplog_the_token_comes_later() {
    let request = std::sync::Arc::new(crate::commands::acquire::AcquireRequest {
        has_oplog: false,
        ..request()
    });
    let mut reply = found(held_by("$$NOW"));
    for _ in 0..2 {
        let acquire = SlowAcquire { request: request.clone(), attempt_no: 1, predecessor: None };
        let AcquireReply::Granted(granted) = acquire.decode(&reply, SENT).unwrap() else {
            panic!("refused");
        };
        assert_eq!(granted.token, None);
        reply.remove("operationTime");
    }
}

#[test]
fn releases_and_renewals_count_what_they_touched() {
    let targets = vec![target(GrantMatch::Any)];
    let release = Delete { targets };
    let later = EndLater {
        target: target(GrantMatch::Any),
        hold_at_least: std::time::Duration::ZERO,
        values: values(),
    };
    let renew = RenewMany { grants: vec![renewed()] };
    for (n, count) in [(Bson::Int32(0), 0), (Bson::Int32(1), 1), (Bson::Int64(1_000), 1_000)] {
        let reply = doc! { "n": n, "ok": 1.0 };
        assert_eq!(release.decode(&reply, SENT).unwrap(), Ended { count, at: None });
        assert_eq!(later.decode(&reply, SENT).unwrap(), count > 0);
        assert_eq!(renew.decode(&reply, SENT).unwrap(), Matched { sent: SENT, matched: count });
    }
    let errors = doc! { "writeErrors": [{ "index": 0, "code": 112, "errmsg": "busy" }], "n": 1 };
    let nameless = doc! { "writeErrors": [7], "n": 1 };
    let odd = [doc! {}, doc! { "n": 1.0 }, doc! { "n": "1" }, doc! { "n": Bson::Null }];
    for reply in odd.into_iter().chain([errors, nameless]) {
        assert!(
            matches!(
                release.decode(&reply, SENT),
                Err(DecodeError::Reply(_) | DecodeError::Write { .. })
            ),
            "{reply}"
        );
        assert!(
            matches!(
                later.decode(&reply, SENT),
                Err(DecodeError::Reply(_) | DecodeError::Write { .. })
            ),
            "{reply}"
        );
        assert!(
            matches!(
                renew.decode(&reply, SENT),
                Err(DecodeError::Reply(_) | DecodeError::Write { .. })
            ),
            "{reply}"
        );
    }
}

#[test]
fn a_resume_finds_its_lease_or_nothing() {
    let resume = super::resume("$fresh");
    let mut ours = held_by("$$NOW");
    ours.get_document_mut("grant").unwrap().insert("id", "$fresh");
    let (sent, seen) = resume.decode(&found(ours), SENT).unwrap().unwrap();
    assert_eq!((sent, seen.ttl_ms), (SENT, Some(30_000)));
    // Not a match: the id before the resume, another grant of the same value, another value.
    let mut before = held_by("$$NOW");
    before.get_document_mut("grant").unwrap().insert("id", "$call.3");
    // Nor is a reply without the ttl that was written: the holder would rely on another.
    let mut no_ttl = held_by("$$NOW");
    let grant = no_ttl.get_document_mut("grant").unwrap();
    grant.insert("id", "$fresh");
    grant.remove("ttlMs");
    for other in [before, held_by("$$NOW"), held_by("another"), no_ttl, doc! {}] {
        assert!(matches!(resume.decode(&found(other), SENT), Err(DecodeError::Reply(_))));
    }
    for reply in [doc! {}, found(Bson::Null), found(7)] {
        assert_eq!(resume.decode(&reply, SENT).unwrap(), None, "{reply}");
    }
}

#[test]
fn a_tick_is_a_timestamp_or_nothing() {
    let time = Timestamp { time: 9, increment: 3 };
    let reply = found(doc! { "grant": { "standaloneToken": time } });
    assert_eq!(tick().decode(&reply, SENT).unwrap(), Some(Timestamp { time: 9, increment: 3 }));
    assert_eq!(tick().decode(&found(Bson::Null), SENT).unwrap(), None);
    for odd in
        [doc! {}, doc! { "grant": 1 }, doc! { "grant": { "standaloneToken": DateTime::now() } }]
    {
        assert!(matches!(tick().decode(&found(odd), SENT), Err(DecodeError::Reply(_))));
    }
}

#[test]
fn looks_read_what_are_documents() {
    let look = FindLeases { names: vec![], after: None };
    let batch = vec![Bson::from(held_by("v")), Bson::Null, 7.into(), doc! {}.into()];
    let seen = look.decode(&doc! { "cursor": { "firstBatch": batch } }, SENT).unwrap();
    assert_eq!(seen.len(), 2);
    for reply in [doc! {}, doc! { "cursor": 7 }, doc! { "cursor": { "firstBatch": {} } }] {
        assert!(matches!(look.decode(&reply, SENT), Err(DecodeError::Reply(_))), "{reply}");
    }
}

#[test]
fn a_server_is_taken_for_what_it_says_it_is() {
    let time = Timestamp { time: 9, increment: 3 };
    let standalone = doc! { "maxWireVersion": 17 };
    assert!(!Hello.decode(&standalone, SENT).unwrap().has_oplog);
    for more in [doc! { "setName": "rs" }, doc! { "msg": "isdbgrid" }] {
        let mut hello = standalone.clone();
        hello.extend(more);
        // Without an operation time there are no tokens, and none is made up.
        assert!(matches!(Hello.decode(&hello, SENT), Err(DecodeError::Unsupported(_))));
        hello.insert("operationTime", time);
        assert!(Hello.decode(&hello, SENT).unwrap().has_oplog);
    }
    for old in [doc! {}, doc! { "maxWireVersion": 8 }, doc! { "maxWireVersion": "17" }] {
        assert!(matches!(Hello.decode(&old, SENT), Err(DecodeError::Unsupported(_))), "{old}");
    }
    let dry_run = DryRun;
    assert!(dry_run.decode(&found(Bson::Null), SENT).is_ok());
    assert!(dry_run.decode(&doc! {}, SENT).is_ok());
    assert!(matches!(dry_run.decode(&found(doc! {}), SENT), Err(DecodeError::Unsupported(_))));
}
