//! The check of a decoded change event against the event.

use mongodb::bson::{Bson, Document};

use super::checks::{at, text, time};
use crate::commands::watch::{self, StreamEvent};
use crate::rules::time::Instant;
use crate::rules::tombstone::is_tombstone;

pub(super) fn watch(event: &Document) -> bool {
    let whole = event.get("fullDocument").and_then(Bson::as_document);
    let fields = match whole {
        Some(whole) => Some(whole),
        None => at(event, &["updateDescription", "updatedFields"]).and_then(Bson::as_document),
    };
    let Some(told) = watch::decode(event) else { return false };
    let fields = fields.expect("fields");
    let promoted = || text(fields, &["promoted"]).expect("a text");
    match told {
        StreamEvent::Admitted(told) => {
            let admitted = text(fields, &["admitted"]).expect("a text");
            for told in told {
                assert_eq!(Some(told.token), time(event, &["clusterTime"]));
                assert!(admitted.contains(told.grant_id.as_str()));
            }
        }
        StreamEvent::Recheck { call_id } => {
            assert!(promoted().starts_with(call_id.as_str()) && promoted().contains("@!"))
        }
        StreamEvent::Promoted(told) => {
            assert_eq!(Some(told.token), time(event, &["clusterTime"]));
            let (id, sent) = promoted().rsplit_once('@').expect("an echo");
            assert_eq!(
                (told.grant_id.as_str(), Ok(told.sent)),
                (id, sent.parse().map(Instant::from_nanos))
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
