//! Which answers the commands for permits may accept. Written from the types in the documents alone.

use std::sync::Arc;

use crate::bson::{Bson, Document, doc};
use crate::rules::permits::Permits;

use super::super::{SENT, joining, renewed, request};
use super::checks::{counted, is_held, text, time};
use super::{Decoder, counts, decoder, lease_replies, leases, replied, shown};
use crate::commands::Command;
use crate::commands::DecodeError;
use crate::commands::acquire::{AcquireReply, AcquireRequest, SlowAcquire};
use crate::commands::fast_acquire::FastAdmit;
use crate::commands::renew_holders::RenewHolders;

pub(super) const DECODERS: [Decoder; 3] = [
    // A call for a share reads another part of the reply than one for the exclusive lease.
    decoder("acquire::SlowAcquire", admit_replies, admit),
    decoder("fast_acquire::FastAdmit", admit_replies, fast_admit),
    decoder("renew_holders::RenewHolders", counts, renew_holders),
];

/// A call that does not wait, one that does, and one on a server without an oplog.
fn requests() -> [Arc<AcquireRequest>; 3] {
    let joins = joining().request.joins;
    let of = |(joins, has_oplog)| AcquireRequest {
        permits: Permits::SHARED,
        joins,
        has_oplog,
        ..request()
    };
    [(None, true), (joins, true), (None, false)].map(of).map(Arc::new)
}

/// Leases in shared use and in exclusive use, with the grant of this attempt, of another one, and with none.
fn admit_replies() -> Vec<Document> {
    let own =
        doc! { "own": { "id": "$call.3", "permits": 1_i64, "limit": 5_i64 }, "firstMs": 900_i64 };
    let other = doc! { "own": { "id": "$call.2" }, "firstMs": 900_i64 };
    let mut all = Vec::new();
    for (shown, has_queue) in
        [(own, false), (other, true), (doc! { "firstMs": 0_i64 }, false), (doc! {}, false)]
    {
        for lease in leases().into_iter().take(2) {
            let mut shared = lease;
            shared.insert("value", "mongo-lease/shared");
            shared.insert("shared", shown.clone());
            shared.insert("hasQueue", has_queue);
            all.push(replied(doc! { "lastErrorObject": { "n": 1 }, "value": shared }));
        }
    }
    all.extend(lease_replies());
    all
}

fn own_id(document: &Document) -> Option<&str> {
    text(document, &["shared", "own", "id"])
}

/// Decodes, and fails if an error is not for its reason. `judged` judges an answer, and says whether it is a grant.
fn decoded<C: Command<Reply = AcquireReply>>(
    command: &C,
    request: &AcquireRequest,
    reply: &Document,
    judged: impl Fn(AcquireReply, &Document) -> bool,
) -> bool {
    let answer = command.decode(reply, SENT);
    let Some(document) = shown(reply, &answer) else { return false };
    match answer {
        Ok(AcquireReply::Granted(granted)) => {
            let token = time(reply, &["operationTime"]).filter(|_| request.has_oplog);
            assert_eq!((granted.sent, granted.token), (SENT, token));
            assert_eq!(granted.token.is_some(), request.has_oplog);
            assert_eq!(own_id(document), Some(granted.grant_id.as_str()));
            judged(AcquireReply::Granted(granted), document)
        }
        Ok(other) => judged(other, document),
        Err(cause) => {
            assert!(matches!(cause, DecodeError::Unsupported(_)), "{cause:?}");
            assert!(request.has_oplog && time(reply, &["operationTime"]).is_none());
            false
        }
    }
}

fn admit(reply: &Document) -> bool {
    let all = requests().map(|request| {
        let request_of = Arc::clone(&request);
        let command = SlowAcquire { request: request_of, attempt_no: 1, predecessor: None };
        decoded(&command, &request, reply, |answer, document| match answer {
            AcquireReply::Granted(_) => true,
            AcquireReply::Refused(refused) => {
                assert_eq!(own_id(document), None, "{document}");
                assert_eq!((refused.sent, refused.info.name.as_str()), (SENT, "$name"));
                assert_eq!(refused.at, time(reply, &["operationTime"]));
                false
            }
            AcquireReply::UseSlowForm { .. } => unreachable!("the slow form can tell"),
        })
    });
    all.contains(&true)
}

fn fast_admit(reply: &Document) -> bool {
    let all = requests().map(|request| {
        let command = FastAdmit { request: Arc::clone(&request), attempt_no: 3 };
        decoded(&command, &request, reply, |answer, document| match answer {
            AcquireReply::Granted(granted) => {
                assert_eq!(granted.grant_id.as_str(), "$call.3");
                true
            }
            AcquireReply::Refused(refused) => {
                assert!(request.joins.is_none() && is_held(document) == Some(true), "{document}");
                assert_eq!(document.get("hasQueue"), Some(&Bson::Boolean(false)), "{document}");
                assert_eq!(own_id(document), None, "{document}");
                assert_ne!(text(document, &["value"]), Some("$$NOW"));
                assert_eq!((refused.sent, refused.ahead), (SENT, None));
                false
            }
            AcquireReply::UseSlowForm { maybe_granted } => {
                assert!(!maybe_granted && own_id(document) != Some("$call.3"), "{document}");
                false
            }
        })
    });
    all.contains(&true)
}

fn renew_holders(reply: &Document) -> bool {
    counted(RenewHolders { grants: vec![renewed()] }.decode(reply, SENT), reply)
}
