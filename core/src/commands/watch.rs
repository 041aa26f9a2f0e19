//! Watch: the change stream that reports promotions, and rechecks of earlier ends, to one manager.

use super::*;
use crate::rules::ids::ManagerId;
use crate::rules::tombstone::is_tombstone;

/// An event of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamEvent {
    /// A waiter was promoted: it has the whole lease.
    Promoted(Promotion),
    /// Waiters were admitted beside other holders, some of them perhaps of other managers.
    Admitted {
        /// The admitted waiters.
        admissions: Vec<Promotion>,
        /// The call that a recheck in the same document is for. A replacement does not tell which of both is new.
        recheck: Option<CallId>,
    },
    /// The lease will be free at another time than the first waiter expects: this call should send an attempt.
    Recheck {
        /// The call.
        call_id: CallId,
    },
}

/// A waiter's promotion, or its admission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promotion {
    /// The grant id: the call, and the attempt with which it joined the queue.
    pub grant_id: GrantId,
    /// The echo: validity counts from here.
    pub sent: Instant,
    /// The time of the promotion in the oplog.
    pub token: Timestamp,
    /// The server's expiry.
    pub expires_at: Option<chrono::DateTime<chrono::Utc>>,
}

impl Promotion {
    /// The call that was promoted.
    pub fn call_id(&self) -> CallId {
        self.grant_id.call()
    }
}

/// The pipeline's stages: only promotions to this manager, whose call ids begin with its own, and only the fields that
/// are read.
///
/// A write that changes more than it leaves comes as a replacement with the whole document. The document may be from a
/// later write than the promotion, so the holder is compared as well.
pub fn pipeline(manager_id: &ManagerId) -> Vec<Document> {
    let calls = manager_id.calls();
    // The ids of managers are hexadecimal digits, which stand for themselves in a regular expression.
    let one_of_ours = doc! { "$regex": format!("(^| ){}", calls.start) };
    let ours = doc! { "$gte": calls.start, "$lt": calls.end };
    let updated = |field: &str| format!("updateDescription.updatedFields.{field}");
    let replaced = |field: &str| format!("fullDocument.{field}");
    let update = |field, of: &Document| doc! { "operationType": "update", updated(field): of };
    let replace = |field, of: &Document| doc! { "operationType": "replace", replaced(field): of };
    let any = any([
        update(format::PROMOTED, &ours),
        replace(format::PROMOTED, &ours),
        update(format::ADMITTED, &one_of_ours),
        replace(format::ADMITTED, &one_of_ours),
    ]);
    vec![
        doc! { "$match": any },
        doc! { "$project": {
            "operationType": 1,
            "ns": 1,
            "clusterTime": 1,
            updated(format::PROMOTED): 1,
            updated(format::EXPIRES_AT): 1,
            updated(format::ADMITTED): 1,
            replaced(format::PROMOTED): 1,
            replaced(format::ADMITTED): 1,
            replaced(&format!("{}.{}", format::HOLDERS, holder::ID)): 1,
            replaced(format::EXPIRES_AT): 1,
            replaced(format::VALUE): 1,
            replaced(&grant_field(grant::VALUE)): 1,
            replaced(&grant_field(grant::ID)): 1,
        } },
    ]
}

/// Decodes an event; `None` when it is none of this manager's, or its promotion is already over.
pub fn decode(event: &Document) -> Option<StreamEvent> {
    let token = event.get_timestamp("clusterTime").ok()?;
    let replacement = event.get_document("fullDocument").ok();
    let fields = match replacement {
        Some(document) => document,
        None => event.get_document("updateDescription").ok()?.get_document("updatedFields").ok()?,
    };
    let is_shared = |document: &Document| {
        document.get_str(format::VALUE).is_ok_and(|value| value == format::SHARED_VALUE)
    };
    let promoted = fields.get_str(format::PROMOTED).ok().and_then(|it| it.rsplit_once('@'));
    let recheck = promoted.filter(|(_, sent)| sent.starts_with(queue::RECHECK));
    let recheck = recheck.map(|(id, _)| GrantId::from(id).call());
    // An update shows the field that it has changed. A replacement shows both, and one of them may be an old one.
    let is_of_shared_use = replacement.map_or(fields.contains_key(format::ADMITTED), is_shared);
    if is_of_shared_use && let Some(admissions) = admissions(fields, replacement, token) {
        return Some(StreamEvent::Admitted { admissions, recheck });
    }
    if let Some(call_id) = recheck {
        return Some(StreamEvent::Recheck { call_id });
    }
    let (grant_id, sent) = promoted.filter(|_| !is_of_shared_use)?;
    let grant_id = GrantId::from(grant_id);
    if replacement.is_some_and(|document| !is_holder(document, &grant_id)) {
        return None;
    }
    let sent = Instant::from_micros(sent.parse().ok()?);
    let expires_at = snapshot::date(fields, format::EXPIRES_AT);
    Some(StreamEvent::Promoted(Promotion { grant_id, sent, token, expires_at }))
}

/// The waiters that a write admitted. In a replacement, those that still hold.
fn admissions(
    fields: &Document,
    replacement: Option<&Document>,
    token: Timestamp,
) -> Option<Vec<Promotion>> {
    let holders = replacement.map(|document| {
        let holders = document.get_array(format::HOLDERS).into_iter().flatten();
        let id = |element| Bson::as_document(element)?.get_str(holder::ID).ok();
        holders.filter_map(id).collect::<HashSet<_>>()
    });
    let admission = |text: &str| {
        let (rest, until) = text.rsplit_once('@')?;
        let (id, sent) = rest.rsplit_once('@')?;
        let sent = Instant::from_micros(sent.parse().ok()?);
        let expires_at = chrono::DateTime::from_timestamp_millis(until.parse().ok()?);
        let still_holds = holders.as_ref().is_none_or(|holders| holders.contains(id));
        still_holds.then(|| Promotion { grant_id: id.into(), sent, token, expires_at })
    };
    Some(fields.get_str(format::ADMITTED).ok()?.split(' ').filter_map(admission).collect())
}

fn is_holder(document: &Document, grant_id: &GrantId) -> bool {
    let grant = document.get_document(format::GRANT).ok();
    let field = |field: &str| grant.and_then(|grant| grant.get_str(field).ok());
    field(grant::ID) == Some(grant_id.as_str())
        // After a release, both fields have a value that no holder has.
        && field(grant::VALUE).is_some_and(|value| !is_tombstone(value))
        && field(grant::VALUE) == document.get(format::VALUE).and_then(Bson::as_str)
}
