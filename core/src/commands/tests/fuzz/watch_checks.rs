//! The checks of decoded change events, and of the holders that renewals read, against what was decoded.

use std::collections::BTreeMap;

use crate::bson::{Bson, Document, doc};
use crate::rules::ids::CallId;
use crate::rules::time::Instant;
use crate::rules::tombstone::is_tombstone;

use super::super::decode::{admitted, fields, replacement, update};
use super::super::{SENT, TOKEN};
use super::checks::{at, date, rows, text, time};
use super::{Decoder, decoder, holder_checks};
use crate::commands::Command;
use crate::commands::confirm::FindWritten;
use crate::commands::find::{FindHolders, SharedSnapshot};
use crate::commands::snapshot;
use crate::commands::watch::{self, StreamEvent};

pub(super) const DECODERS: [Decoder; 3] = [
    decoder("confirm::FindWritten", holder_checks::batches, find_written),
    decoder("find::FindHolders", holder_checks::batches, find_holders),
    decoder("watch::decode", events, watch),
];

fn watch(event: &Document) -> bool {
    let whole = event.get("fullDocument").and_then(Bson::as_document);
    let fields = match whole {
        Some(whole) => Some(whole),
        None => at(event, &["updateDescription", "updatedFields"]).and_then(Bson::as_document),
    };
    let Some(told) = watch::decode(event) else { return false };
    let fields = fields.expect("fields");
    let token = time(event, &["clusterTime"]).expect("a time");
    let promoted = || text(fields, &["promoted"]).expect("a text");
    match told {
        StreamEvent::Admitted { admissions, recheck } => {
            let admitted = text(fields, &["admitted"]).expect("a text");
            for told in admissions {
                assert_eq!(told.token, token);
                assert!(admitted.contains(told.grant_id.as_str()));
            }
            assert!(recheck.is_none_or(|call_id| is_recheck(promoted(), &call_id)));
        }
        StreamEvent::Recheck { call_id } => assert!(is_recheck(promoted(), &call_id)),
        StreamEvent::Promoted(told) => {
            let until = date(fields, &["expiresAt"]);
            assert_eq!((told.token, told.expires_at), (token, until));
            let (id, sent) = promoted().rsplit_once('@').expect("an echo");
            assert_eq!(
                (told.grant_id.as_str(), Ok(told.sent)),
                (id, sent.parse().map(Instant::from_micros))
            );
            if let Some(whole) = whole {
                assert_eq!(text(whole, &["grant", "id"]), Some(id));
                let holder = text(whole, &["value"]).filter(|holder| !is_tombstone(holder));
                assert!(holder.is_some() && text(whole, &["grant", "value"]) == holder);
            }
        }
    }
    true
}

fn is_recheck(promoted: &str, call_id: &CallId) -> bool {
    promoted.starts_with(call_id.as_str()) && promoted.contains("@!")
}

/// A renewal believes that a holder is still there, and which command has written it.
fn find_holders(reply: &Document) -> bool {
    let look = FindHolders { grants: Vec::new() };
    look.decode(reply, SENT).is_ok_and(|found| are_in(reply, found))
}

/// The same of what a majority has.
fn find_written(reply: &Document) -> bool {
    let look = FindWritten { holders: BTreeMap::new(), after: TOKEN };
    look.decode(reply, SENT).is_ok_and(|written| are_in(reply, written.found))
}

fn are_in(reply: &Document, found: Vec<SharedSnapshot>) -> bool {
    let rows = rows(reply).expect("rows");
    assert_eq!(found.len(), rows.len());
    let mut has_any = false;
    for (found, row) in found.into_iter().zip(rows) {
        assert_eq!(found.lease, snapshot::read(row));
        let is_shared = text(row, &["value"]) == Some("mongo-lease/shared");
        assert!(is_shared || found.holders.is_empty(), "{row}");
        let elements = row.get_array("holders").into_iter().flatten().filter_map(Bson::as_document);
        let elements: Vec<_> = elements.filter(|_| is_shared).collect();
        assert_eq!(found.holders.len(), elements.len(), "{row}");
        for (holder, element) in found.holders.iter().zip(elements) {
            has_any = true;
            assert_eq!(holder.value.as_deref(), text(element, &["value"]));
            assert_eq!(holder.id.as_ref().map(|id| id.as_str()), text(element, &["id"]));
            assert_eq!(holder.sent, element.get_i64("sentMicros").ok());
            assert_eq!(holder.acquired_at, date(element, &["acquiredAt"]));
        }
    }
    has_any
}

fn events() -> Vec<Document> {
    // It is over: the lease was granted to another holder since.
    let mut over = replacement("m-c.2@7");
    fields(&mut over).insert("grant", doc! { "value": "v", "id": "n-d.1" });
    let promotions = [update("m-c.2@7"), update("m-c.2@!7"), replacement("m-c.2@7"), over];
    let admissions = admitted("m-c.2@7@1700000009000 x-d.1@8@1700000008000");
    promotions.into_iter().chain(admissions).collect()
}
