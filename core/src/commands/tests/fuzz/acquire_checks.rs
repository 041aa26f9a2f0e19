//! Which answer an attempt has to have, in each of its forms, alone and in a batch. Written from the types in the
//! documents alone.

use std::collections::HashSet;
use std::sync::Arc;

use crate::bson::{Bson, Document, Timestamp, doc};
use crate::rules::permits::{LIMIT_MAX, Permits};
use crate::rules::time::from_millis;

use super::super::{SENT, SERVER_NOW, TOKEN, fast, found, requests, slow, with};
use super::checks::{at, date, is_held, number_of, rows, shown, text, time};
use super::{Decoder, batches, counts, decoder, lease_replies, leases, replied};
use crate::commands::acquire::{AcquireReply, AcquireRequest, GrantedShare, SlowAcquire};
use crate::commands::fast_acquire::{
    FastAcquire, FastAcquireMany, FastAcquired, FastAdmit, who_was_granted,
};
use crate::commands::find::FindLeases;
use crate::commands::{Command, DecodeError, snapshot};

pub(super) const DECODERS: [Decoder; 5] = [
    decoder("acquire::SlowAcquire", lease_replies, |reply| SLOW.judge(reply)),
    // A call for a share reads another part of the reply than one for the exclusive lease.
    decoder("acquire::SlowAcquire", admit_replies, |reply| SLOW_SHARE.judge(reply)),
    decoder("fast_acquire::FastAcquire", lease_replies, |reply| FAST.judge(reply)),
    decoder("fast_acquire::FastAcquireMany", many_counts, take_many),
    decoder("fast_acquire::FastAdmit", admit_replies, |reply| FAST_SHARE.judge(reply)),
];

/// The reader of what stands in the documents after a [`FastAcquireMany`].
pub(super) const WHO_WAS_GRANTED: Decoder =
    decoder("fast_acquire::who_was_granted", batches, who_is_granted);

/// The answer to an attempt, in short.
#[derive(Debug, PartialEq)]
enum Answer<'a> {
    /// By the grant of this id.
    Granted(&'a str),
    Refused,
    AskAgain {
        maybe_granted: bool,
    },
}

/// An attempt in one of its forms.
struct Form {
    permits: Permits,
    /// A slow form can always tell, and says how many stand before the call.
    is_slow: bool,
    decode: fn(AcquireRequest, &Document) -> Result<AcquireReply, DecodeError>,
    /// The answer that the document in the reply shows.
    wanted: for<'a> fn(&AcquireRequest, &'a Document) -> Answer<'a>,
}

const SLOW: Form = Form {
    permits: Permits::EXCLUSIVE,
    is_slow: true,
    // A grant to the predecessor is another holder's, until the server says that it is this call's.
    decode: |request, reply| {
        let predecessor = request.joins.map(|_| "another".to_owned());
        SlowAcquire { predecessor, ..slow(request) }.decode(reply, SENT)
    },
    wanted: |_, document| {
        let own = own_grant(document).filter(|_| is_held(document).is_some());
        own.map_or(Answer::Refused, Answer::Granted)
    },
};

const SLOW_SHARE: Form = Form {
    permits: Permits::SHARED,
    decode: |request, reply| slow(request).decode(reply, SENT),
    wanted: |_, document| own_share(document).map_or(Answer::Refused, Answer::Granted),
    ..SLOW
};

const FAST: Form = Form {
    permits: Permits::EXCLUSIVE,
    is_slow: false,
    decode: |request, reply| fast(request).decode(reply, SENT),
    wanted: |request, document| match own_grant(document).filter(|id| *id == "$call.3") {
        // A grant that may be ours is never lost.
        Some(_) if is_held(document).is_none() => Answer::AskAgain { maybe_granted: true },
        Some(id) => Answer::Granted(id),
        None if refuses(request, document) => Answer::Refused,
        None => Answer::AskAgain { maybe_granted: false },
    },
};

const FAST_SHARE: Form = Form {
    permits: Permits::SHARED,
    decode: |request, reply| {
        FastAdmit { request: Arc::new(request), attempt_no: 3 }.decode(reply, SENT)
    },
    wanted: |request, document| {
        // Somebody in the queue may be dead: the slow form can tell.
        let is_alone = document.get("hasQueue") == Some(&Bson::Boolean(false));
        match own_share(document) {
            Some("$call.3") => Answer::Granted("$call.3"),
            None if refuses(request, document) && is_alone => Answer::Refused,
            Some(_) | None => Answer::AskAgain { maybe_granted: false },
        }
    },
    ..FAST
};

/// The id of the grant, if it is one of the call's value.
fn own_grant(document: &Document) -> Option<&str> {
    let is_own = |path: &[&str]| text(document, path) == Some("$$NOW");
    text(document, &["grant", "id"]).filter(|_| is_own(&["value"]) && is_own(&["grant", "value"]))
}

/// The id of the call's own record in the list of holders.
fn own_share(document: &Document) -> Option<&str> {
    text(document, &["shared", "own", "id"])
}

/// Whether another holder stands in the way of a call that does not wait. One that waits has to join the queue.
fn refuses(request: &AcquireRequest, document: &Document) -> bool {
    let is_of_another = text(document, &["value"]) != Some("$$NOW");
    request.joins.is_none() && is_held(document) == Some(true) && is_of_another
}

impl Form {
    /// Fails unless each call gets the answer that the reply shows. Returns whether one of them is granted.
    fn judge(&self, reply: &Document) -> bool {
        let all = requests(self.permits).map(|request| {
            let answer = (self.decode)(request.clone(), reply);
            let Some(document) = shown(reply, &answer) else { return false };
            let wanted = (self.wanted)(&request, document);
            let at = time(reply, &["operationTime"]);
            let token = at.filter(|_| request.has_oplog);
            // Without a time there is no token, and none is made up. A refusal by a slow form needs none.
            let has_all = token.is_some() || !request.has_oplog;
            let is_answered = has_all || self.is_slow && wanted == Answer::Refused;
            let ahead = document.get("ahead").and_then(Bson::as_i32);
            let ahead = ahead.and_then(|ahead| u32::try_from(ahead).ok());
            let place = if self.is_slow { (ahead, at) } else { (None, token) };
            match answer {
                Ok(answer) if is_answered => {
                    assert_shows_permits(&answer, &request, document);
                    judged(&answer, &wanted, document, token, place)
                }
                Err(DecodeError::Unsupported(_)) if !is_answered => false,
                other => panic!("{other:?}, and not {wanted:?}"),
            }
        });
        all.contains(&true)
    }
}

/// Fails unless this is the wanted answer, with this token, or this place in the queue and its time. Returns whether
/// it is a grant.
fn judged(
    answer: &AcquireReply,
    wanted: &Answer<'_>,
    document: &Document,
    token: Option<Timestamp>,
    place: (Option<u32>, Option<Timestamp>),
) -> bool {
    let (found, info) = match answer {
        AcquireReply::Granted(granted) => {
            // Whatever the document says.
            assert_eq!((granted.sent, granted.token), (SENT, token));
            (Answer::Granted(granted.grant_id.as_str()), Some(&granted.info))
        }
        AcquireReply::Refused(refused) => {
            assert_eq!((refused.sent, (refused.ahead, refused.at)), (SENT, place));
            (Answer::Refused, Some(&refused.info))
        }
        AcquireReply::UseSlowForm { maybe_granted } => {
            (Answer::AskAgain { maybe_granted: *maybe_granted }, None)
        }
    };
    assert_eq!(found, *wanted, "{document}");
    if let Some(info) = info {
        // Another program's symbol equals our string: a lease has the name by which it was asked for.
        assert_eq!(info.name, "$name");
        assert_eq!(info.value.as_deref(), text(document, &["value"]));
    }
    matches!(found, Answer::Granted(_))
}

/// Fails unless a grant has the permits and the expiry of its own record, and each answer shows the permits in use and
/// the time until the first expiry, as far as they are known.
fn assert_shows_permits(answer: &AcquireReply, request: &AcquireRequest, document: &Document) {
    let number = |path: &[&str]| at(document, path).and_then(Bson::as_i64);
    let info = match answer {
        AcquireReply::Granted(granted) => {
            let own = |field| u32::try_from(number(&["shared", "own", field])?).ok();
            let permits = own("permits").zip(own("limit"));
            let permits = permits.and_then(|(count, limit)| Permits::new(count, limit).ok());
            let expires_at = date(document, &["shared", "own", "expiresAt"]);
            let acquired_at = date(document, &["shared", "own", "acquiredAt"]);
            let permits = permits.unwrap_or(request.permits);
            let share = GrantedShare { permits, expires_at, acquired_at };
            assert_eq!(granted.share, (!request.permits.is_exclusive()).then_some(share));
            &granted.info
        }
        AcquireReply::Refused(refused) => &refused.info,
        AcquireReply::UseSlowForm { .. } => return,
    };
    let plain = snapshot::read(document).info;
    let first = number(&["shared", "firstMs"]).map(from_millis);
    assert_eq!(info.remaining, first.or(plain.remaining));
    let known = number(&["shared", "inUse"]).zip(number(&["shared", "limit"]));
    let wanted = known.map_or((plain.in_use, plain.limit), |(in_use, limit)| {
        let are_permits = [in_use, limit].iter().all(|it| (1..=i64::from(LIMIT_MAX)).contains(it));
        let small = |it: i64| u32::try_from(it).ok().filter(|_| are_permits);
        (small(in_use), small(limit))
    });
    assert_eq!((info.in_use, info.limit), wanted);
}

/// Leases in shared use and in exclusive use, with the grant of this attempt, of another one, and with none.
fn admit_replies() -> Vec<Document> {
    let own = doc! { "id": "$call.3", "permits": 3_i64, "limit": 4_i64, "expiresAt": SERVER_NOW };
    let own = doc! { "own": own, "firstMs": 900_i64 };
    let other = doc! { "own": { "id": "$call.2" }, "firstMs": 900_i64 };
    let full = doc! { "inUse": 5_i64, "limit": 5_i64, "firstMs": 1_500_i64 };
    let mut all = lease_replies();
    for (shown, has_queue) in [(own, false), (other, true), (full, false), (doc! {}, false)] {
        let lease = with(leases().remove(0), "value", "mongo-lease/shared");
        all.push(replied(found(with(with(lease, "shared", shown), "hasQueue", has_queue))));
    }
    all
}

fn acquires() -> [FastAcquire; 2] {
    let [once, waiting, _] = requests(Permits::EXCLUSIVE);
    [once, waiting].map(fast)
}

/// Also with several refusals.
fn many_counts() -> Vec<Document> {
    let error = |index: i32| doc! { "index": index, "code": 11_000, "errmsg": "taken" };
    let several = replied(doc! { "n": 2, "writeErrors": [error(3), error(1)] });
    counts().into_iter().chain([several]).collect()
}

fn take_many(reply: &Document) -> bool {
    let errors = reply.get("writeErrors").and_then(Bson::as_array);
    let place =
        |error: &Bson| usize::try_from(at(error.as_document()?, &["index"])?.as_i32()?).ok();
    let places: Option<HashSet<usize>> = errors.into_iter().flatten().map(place).collect();
    let (count, at) = (number_of(reply), time(reply, &["operationTime"]));
    let many = FastAcquireMany { acquires: acquires().to_vec() };
    match many.decode(reply, SENT) {
        Ok(taken) => {
            assert!(count.is_some(), "{reply}");
            assert_eq!((taken.sent, Some(taken.at), Some(taken.refused)), (SENT, at, places));
            true
        }
        // Whatever was granted, it has no token.
        Err(DecodeError::Unsupported(_)) => {
            assert_eq!((count.is_some(), at), (true, None), "{reply}");
            false
        }
        // A statement was refused, and it is unknown which: no call may be told that nothing was granted.
        Err(cause) => {
            assert!(matches!(cause, DecodeError::Reply(_)), "{cause:?}");
            assert!(count.is_none() || at.is_some() && places.is_none(), "{reply}");
            false
        }
    }
}

/// An answer is a grant only if the document under the call's own name has the call's value and its own grant id. Its
/// token is the command's time, whatever the document contains.
fn who_is_granted(reply: &Document) -> bool {
    let look = FindLeases { names: vec!["$name".to_owned()], after: Some(TOKEN) };
    let Ok(seen) = look.decode(reply, SENT) else { return false };
    // Only the last row with this name counts; the unique index allows only one.
    let rows = rows(reply).expect("rows");
    let document = rows.into_iter().rfind(|row| text(row, &["name"]) == Some("$name"));
    let taken = FastAcquired { sent: SENT, at: TOKEN, refused: HashSet::from([1]), granted: 1 };
    let acquires = acquires();
    let replies = who_was_granted(&acquires, &taken, seen);
    assert_eq!(replies.len(), acquires.len());
    let answers = std::iter::zip(&acquires, &replies).enumerate();
    let granted = answers.map(|(place, (take, reply))| {
        // The server has refused the second statement.
        let absent = Answer::AskAgain { maybe_granted: place == 0 };
        let wanted = document.map_or(absent, |document| (FAST.wanted)(&take.request, document));
        let nothing = Document::new();
        judged(reply, &wanted, document.unwrap_or(&nothing), Some(TOKEN), (None, Some(TOKEN)))
    });
    granted.collect::<Vec<_>>().contains(&true)
}
