//! Examples of the meaning of replies. `fuzz` compares each decoder with what the bytes show, whatever they are.

mod admissions;
mod fast_acquire;
mod permits;
mod watch;

use crate::bson::{Bson, Document, doc};
use crate::rules::outcome::{MAYBE_APPLIED, Outcome, REFUSED};
use crate::rules::permits::Permits;
use crate::spec::EndScope;

use super::{SENT, SERVER_NOW, TOKEN, acquire, fast, found, held, renewed, requests, slow, target};
use super::{values, with};
use crate::commands::acquire::AcquireReply;
use crate::commands::probe::Hello;
use crate::commands::release::{End, GrantMatch};
use crate::commands::renew_holders::RenewHolders;
use crate::commands::{Command, DecodeError};

pub(super) use admissions::admitted;
pub(super) use watch::{replacement, update, within};

#[test]
fn a_document_with_our_value_and_grant_decodes_as_granted() {
    let decoded = |value| acquire().decode(&found(held(value, "$call.2")), SENT).unwrap();
    let AcquireReply::Granted(granted) = decoded("$$NOW") else { panic!("refused") };
    // The attempt that was granted, which is not the one whose answer this is.
    assert_eq!((granted.sent, granted.grant_id.as_str()), (SENT, "$call.2"));
    assert_eq!((granted.token, granted.info.value.as_deref()), (Some(TOKEN), Some("$$NOW")));
    let AcquireReply::Refused(refused) = decoded("another") else { panic!("granted") };
    assert_eq!((refused.sent, refused.at, refused.ahead), (SENT, Some(TOKEN), Some(1)));
    assert_eq!(refused.info.name, "$name");
    assert_eq!(refused.info.value.as_deref(), Some("another"));
    assert_eq!(refused.info.remaining.unwrap().as_millis(), 31_000);
}

#[test]
fn a_reply_without_a_document_or_without_its_time_is_neither() {
    let [once, _, without_oplog] = requests(Permits::EXCLUSIVE);
    let slow = |reply: &Document| slow(once.clone()).decode(reply, SENT);
    let fast = |reply: &Document| fast(once.clone()).decode(reply, SENT);
    for reply in [doc! {}, found(Bson::Null), found("x"), found(vec![held("$$NOW", "$call.3")])] {
        for decoded in [slow(&reply), fast(&reply)] {
            assert!(matches!(decoded, Err(DecodeError::Reply(_))), "{reply}: {decoded:?}");
        }
    }
    for time in [Bson::Null, 7.into(), SERVER_NOW.into()] {
        // A token is never made up.
        let reply = with(found(held("$$NOW", "$call.3")), "operationTime", time);
        for decoded in [slow(&reply), fast(&reply)] {
            assert!(matches!(decoded, Err(DecodeError::Unsupported(_))), "{reply}: {decoded:?}");
        }
        // A refusal needs none, and without an oplog it comes later.
        let refusal = slow(&with(reply.clone(), "value", held("another", "$call.3")));
        assert!(matches!(refusal, Ok(AcquireReply::Refused(_))), "{refusal:?}");
        let later = super::fast(without_oplog.clone()).decode(&reply, SENT).unwrap();
        assert!(matches!(later, AcquireReply::Granted(granted) if granted.token.is_none()));
    }
}

/// A statement that the server refuses alone is known not to be applied; others of the same command may have been.
#[test]
fn a_refused_statement_tells_whether_others_may_be_applied() {
    let error = doc! { "index": 0, "code": 121, "errmsg": "invalid" };
    let reply = doc! { "writeErrors": [error], "n": 0 };
    let end = |count| {
        let targets = vec![target(GrantMatch::Any); count];
        End { targets, scope: EndScope::Anywhere, values: values() }.decode(&reply, SENT).err()
    };
    let renew = RenewHolders { grants: vec![renewed()] }.decode(&reply, SENT).err();
    let others_may_be = Outcome { maybe_applied: true, ..REFUSED };
    for (cause, wanted) in [(end(1), REFUSED), (end(2), others_may_be), (renew, MAYBE_APPLIED)] {
        let Some(DecodeError::Write { outcome, .. }) = cause else { panic!("{cause:?}") };
        assert_eq!(outcome, wanted);
    }
}

#[test]
fn a_server_is_taken_for_what_it_says_it_is() {
    let hello = doc! { "maxWireVersion": 17 };
    let member = with(hello.clone(), "setName", "rs");
    let router = with(hello.clone(), "msg", "isdbgrid");
    for (hello, has_oplog) in [
        (with(member.clone(), "operationTime", TOKEN), Some(true)),
        (with(router.clone(), "operationTime", TOKEN), Some(true)),
        (hello, Some(false)),
        // Without an operation time there are no tokens, and none is made up.
        (member, None),
        (router, None),
        (doc! {}, None),
        (doc! { "maxWireVersion": 8 }, None),
        (doc! { "maxWireVersion": "17" }, None),
    ] {
        let decoded = Hello.decode(&hello, SENT);
        let is_refused = matches!(decoded, Err(DecodeError::Unsupported(_)));
        assert_eq!(is_refused, has_oplog.is_none(), "{hello}: {decoded:?}");
        assert_eq!(decoded.ok().map(|topology| topology.has_oplog), has_oplog, "{hello}");
    }
}
