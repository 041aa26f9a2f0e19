//! Replies of writes that no majority has yet: which of them count at once, and what a read has to show of the others.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::bson::{Document, doc};
use crate::rules::outcome::Applied;
use crate::rules::time::Instant;
use crate::spec::EndScope;

use super::{
    JOINS, SENT, SERVER_NOW, TOKEN, beat, fast, held, key, renewed, request, resume, slow, target,
    values,
};
use crate::commands::confirm::{FindWritten, Reliance, Trace, applied};
use crate::commands::fast_acquire::FastAcquireMany;
use crate::commands::find::{
    FindApplied, FindGrants, FindLeases, GetLease, SeenHolder, SharedSnapshot,
};
use crate::commands::release::{Delete, End, EndLater, GrantMatch, ReleaseTarget};
use crate::commands::renew::RenewMany;
use crate::commands::renew_holders::RenewHolders;
use crate::commands::{AcquireReply, AcquireRequest, Command, DecodeError, snapshot};

/// The kind of result that a reply has.
#[derive(Debug, PartialEq)]
enum Result {
    CountsAtOnce,
    /// A read has to show these.
    Unconfirmed(Reliance),
}

/// The result of a command whose reply has these fields, with this write concern error.
fn result<C: Command>(command: &C, fields: Document, error: Document) -> Result {
    let mut reply = doc! { "ok": 1, "operationTime": TOKEN, "writeConcernError": error };
    reply.extend(fields);
    match applied(command, &reply, SENT).unwrap() {
        Applied::Confirmed(_) => panic!("{reply}"),
        Applied::Unconfirmed(decoded, why) => {
            assert_eq!(why.at, TOKEN);
            match command.relies_on(&decoded) {
                Reliance::Nothing => Result::CountsAtOnce,
                reliance @ (Reliance::Writes(_) | Reliance::Untraceable) => {
                    Result::Unconfirmed(reliance)
                }
            }
        }
    }
}

/// The same for an error of each kind.
fn each<C: Command>(command: &C, fields: &Document) -> Result {
    let errors = [(64, "waiting for replication timed out"), (50, ""), (189, "stepped down")];
    let results = errors.map(|(code, message)| {
        result(command, fields.clone(), doc! { "code": code, "errmsg": message })
    });
    let [first, second, third] = results;
    assert!(first == second && second == third, "{first:?}, {second:?}, {third:?}");
    first
}

fn server_now_and(milliseconds: i64) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp_millis(SERVER_NOW.timestamp_millis() + milliseconds)
}

/// This grant, as the reply shows it.
fn made() -> Result {
    let acquired_at = server_now_and(0);
    Result::Unconfirmed(Reliance::Writes(vec![Trace::Made { key: key(), sent: SENT, acquired_at }]))
}

fn renewal() -> Trace {
    Trace::Prolonged(key(), SENT)
}

fn prolonged() -> Result {
    Result::Unconfirmed(Reliance::Writes(vec![renewal()]))
}

fn end(target: ReleaseTarget) -> Result {
    Result::Unconfirmed(Reliance::Writes(vec![Trace::End(target)]))
}

fn own_target() -> ReleaseTarget {
    target(GrantMatch::Grant("$call.3".into()))
}

#[test]
fn a_grant_or_a_renewal_waits_for_a_majority() {
    let granted = doc! { "value": held("$$NOW", "$call.3") };
    assert_eq!(each(&slow(request()), &granted), made());
    assert_eq!(each(&fast(request()), &granted), made());
    let counted = doc! { "n": 1, "nModified": 1 };
    assert_eq!(each(&RenewMany { grants: vec![renewed()] }, &counted), prolonged());
    assert_eq!(each(&RenewHolders { grants: vec![renewed()] }, &counted), prolonged());
    let mut resumed = held("$$NOW", "$call.3");
    resumed.get_document_mut("grant").unwrap().insert("ttlMs", 30_000_i64);
    assert_eq!(each(&resume("$call.3"), &doc! { "value": resumed }), made());
}

#[test]
fn an_end_waits_for_a_majority() {
    for grant in [GrantMatch::Grant("$call.3".into()), GrantMatch::Any] {
        let one = || vec![target(grant.clone())];
        // Where it matched nothing, an earlier command may have ended the grant.
        for count in [0, 1] {
            let (counted, end) = (doc! { "n": count }, end(target(grant.clone())));
            assert_eq!(each(&Delete { targets: one() }, &counted), end);
            let scope = EndScope::Anywhere;
            assert_eq!(each(&End { targets: one(), scope, values: values() }, &counted), end);
        }
    }
    let hold_at_least = Duration::ZERO;
    let later = EndLater { target: own_target(), hold_at_least, values: values() };
    assert_eq!(each(&later, &doc! { "n": 1 }), end(own_target()));
}

#[test]
fn a_refusal_a_join_a_heartbeat_and_no_match_count_when_applied() {
    let another = doc! { "value": held("another", "other.1") };
    assert_eq!(each(&slow(request()), &another), Result::CountsAtOnce);
    let joins = AcquireRequest { joins: Some(JOINS), ..request() };
    assert_eq!(each(&slow(joins), &another), Result::CountsAtOnce);
    assert_eq!(each(&beat(), &doc! { "n": 1 }), Result::CountsAtOnce);
    let none = doc! { "n": 0 };
    assert_eq!(each(&RenewMany { grants: vec![renewed()] }, &none), Result::CountsAtOnce);
    assert_eq!(each(&resume("$call.4"), &doc! { "value": null }), Result::CountsAtOnce);
}

#[test]
fn a_confirmed_reply_and_one_without_a_time_are_not_unconfirmed() {
    let renew = RenewMany { grants: vec![renewed()] };
    let confirmed = applied(&renew, &doc! { "n": 1, "operationTime": TOKEN }, SENT);
    assert!(matches!(confirmed, Ok(Applied::Confirmed(_))));
    let error = doc! { "code": 64, "errmsg": "late" };
    let timeless = applied(&renew, &doc! { "n": 1, "writeConcernError": error }, SENT);
    let Err(DecodeError::Reply(message)) = timeless else { panic!("{timeless:?}") };
    assert!(message.ends_with("late"), "{message}");
    // Nobody relies on a heartbeat: it counts without a time, too.
    let error = doc! { "code": 64, "errmsg": "late" };
    let heartbeat = applied(&beat(), &doc! { "n": 1, "writeConcernError": error }, SENT);
    assert!(matches!(heartbeat, Ok(Applied::Confirmed(_))), "{heartbeat:?}");
}

/// Where nothing was written, a reply names the time of an earlier write.
#[test]
fn a_reply_tells_whether_its_command_has_written() {
    let answer = |holder: Document| {
        let reply = doc! { "value": holder, "operationTime": TOKEN };
        slow(request()).decode(&reply, SENT).unwrap().has_written()
    };
    assert!(answer(held("$$NOW", "$call.3")));
    // It is in the queue, and it is not.
    let queued = held("another", "other.1");
    let mut refused = queued.clone();
    refused.remove("ahead");
    assert!(answer(queued) && !answer(refused));
    assert!(!AcquireReply::UseSlowForm { maybe_granted: true }.has_written());

    let renew = RenewMany { grants: vec![renewed()] };
    for (count, wanted) in [(0, false), (1, true)] {
        let counted = doc! { "n": count, "operationTime": TOKEN };
        assert_eq!(renew.has_written(&renew.decode(&counted, SENT).unwrap()), wanted, "{count}");
        assert_eq!(beat().has_written(&beat().decode(&counted, SENT).unwrap()), wanted, "{count}");
    }
}

#[test]
fn only_a_read_for_a_confirmation_insists_on_a_majority() {
    let names = vec!["$name".to_owned()];
    let grants = FindGrants(FindLeases { names, after: Some(TOKEN) });
    assert!(grants.needs_majority_read() && !grants.reads_applied());
    assert_eq!((grants.sees_all_until(), grants.0.sees_all_until()), (Some(TOKEN), Some(TOKEN)));
    assert!(FindApplied(grants.0).reads_applied());
    let shown = GetLease { name: "$name".to_owned() };
    assert!(!shown.needs_majority_read() && !shown.reads_applied());
    assert_eq!(shown.sees_all_until(), None);
}

/// A document with this grant and this echo, in the plain form and in the list.
fn documents(value: &str, id: &str, echo: i64) -> [SharedSnapshot; 2] {
    let mut plain = held(value, id);
    plain.get_document_mut("grant").unwrap().insert("sentMicros", echo);
    let plain = SharedSnapshot { lease: snapshot::read(&plain), holders: Vec::new() };
    let (value, acquired_at) = (Some(value.to_owned()), server_now_and(0));
    let own = SeenHolder { value, id: Some(id.into()), sent: Some(echo), acquired_at };
    let lease = snapshot::read(&held("mongo-lease/shared", "earlier.1"));
    [plain, SharedSnapshot { lease, holders: vec![own] }]
}

#[test]
fn a_read_shows_a_write_by_its_id_and_its_echo() {
    let micros = |instant: Instant| i64::try_from(instant.as_micros()).unwrap();
    let (sent, now) = (micros(SENT), micros(SENT) + 1_000);
    let (is_there, is_over) = (renewal(), Trace::End(own_target()));
    let at = Instant::from_micros(u64::try_from(now).unwrap());
    for (echo, shown) in [
        (sent, true),
        // A later write to the same grant has prolonged it once more.
        (sent + 500, true),
        (now, true),
        // An earlier one: this one is not there.
        (sent - 1, false),
        // Another program has overwritten it.
        (now + 1, false),
        (i64::MAX, false),
        (-1, false),
    ] {
        for found in documents("$$NOW", "$call.3", echo) {
            assert_eq!(is_there.is_shown(Some(&found), at), shown, "{echo} in {found:?}");
            assert!(!is_over.is_shown(Some(&found), at), "{found:?}");
        }
    }
    let others = [documents("$$NOW", "$call.2", sent), documents("another", "$call.3", sent)];
    for found in others.iter().flatten().map(Some).chain([None]) {
        assert!(!is_there.is_shown(found, at), "{found:?}");
        assert!(is_over.is_shown(found, at), "{found:?}");
    }
}

/// A late copy of a command that a failover has undone: it has the same id and echo, and makes the grant later.
#[test]
fn a_grant_that_was_made_once_more_is_not_the_one_of_the_reply() {
    let echo = i64::try_from(SENT.as_micros()).unwrap();
    let made = |milliseconds| {
        let acquired_at = server_now_and(milliseconds);
        Trace::Made { key: key(), sent: SENT, acquired_at }
    };
    for found in documents("$$NOW", "$call.3", echo) {
        assert!(made(0).is_shown(Some(&found), SENT), "{found:?}");
        for another in [made(-1), made(1)] {
            assert!(!another.is_shown(Some(&found), SENT), "{another:?} in {found:?}");
        }
    }
    // A promotion of the same entry, which has the echo of a heartbeat and lasts for less.
    for found in documents("$$NOW", "$call.3", echo + 1) {
        assert!(!made(0).is_shown(Some(&found), SENT.after(Duration::from_secs(1))), "{found:?}");
    }
}

#[test]
fn the_read_waits_for_a_majority_of_all_up_to_the_write() {
    let holders = [("$name".to_owned(), ["v".to_owned()].into())].into();
    let look = FindWritten { holders, after: TOKEN };
    let built = look.build("locks", SENT);
    let wanted = doc! { "level": "majority", "afterClusterTime": TOKEN };
    assert_eq!(built.get_document("readConcern").unwrap(), &wanted);
    assert!(look.needs_majority_read() && look.sees_all_until() == Some(TOKEN));
}

/// Its reply does not say who was granted what: a read after it does.
#[test]
fn no_trace_is_known_of_a_batch_of_acquires() {
    let many = FastAcquireMany { acquires: vec![fast(request())] };
    let counted = doc! { "n": 1 };
    assert_eq!(each(&many, &counted), Result::Unconfirmed(Reliance::Untraceable));
}
