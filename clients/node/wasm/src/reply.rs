//! The decoded reply to a command of any kind, and leases as JavaScript sees them.

use mongo_lease_core::bson::{Bson, DateTime, Document, Timestamp, doc};
use mongo_lease_core::commands::{
    AcquireReply, Ended, FoundIndex, Granted, LeaseSnapshot, Matched, QueueEntry, Refused,
    SharedSnapshot, Topology,
};
use mongo_lease_core::info::{LeaseHolder, LeaseInfo, LeaseState};
use mongo_lease_core::rules::Instant;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::convert::{date, list, micros, millis, token};
use crate::error::Error;
use crate::failed::{Fault, Info};
use crate::manager::Manager;

/// A reply of any kind.
pub(crate) enum Decoded {
    Acquire(Box<AcquireReply>),
    Ended(Ended),
    Matched(Matched),
    Leases(Vec<LeaseSnapshot>),
    Holders(Vec<SharedSnapshot>),
    Entries(Vec<QueueEntry>),
    Topology(Topology),
    Indexes(Vec<FoundIndex>),
    OtherFormat(Option<&'static str>),
    Token(Option<Timestamp>),
    EndedLater(bool),
    Resumed(Option<Box<(Instant, LeaseSnapshot)>>),
    Done,
}

macro_rules! decoded {
    ($($kind:ident: $reply:ty,)*) => {$(
        impl From<$reply> for Decoded {
            fn from(reply: $reply) -> Decoded {
                Decoded::$kind(reply)
            }
        }
    )*};
}

decoded! {
    Ended: Ended,
    Matched: Matched,
    Leases: Vec<LeaseSnapshot>,
    Holders: Vec<SharedSnapshot>,
    Entries: Vec<QueueEntry>,
    Topology: Topology,
    Indexes: Vec<FoundIndex>,
    OtherFormat: Option<&'static str>,
    Token: Option<Timestamp>,
    EndedLater: bool,
}

impl From<AcquireReply> for Decoded {
    fn from(reply: AcquireReply) -> Decoded {
        Decoded::Acquire(Box::new(reply))
    }
}

impl From<Option<(Instant, LeaseSnapshot)>> for Decoded {
    fn from(resumed: Option<(Instant, LeaseSnapshot)>) -> Decoded {
        Decoded::Resumed(resumed.map(Box::new))
    }
}

impl From<()> for Decoded {
    fn from((): ()) -> Decoded {
        Decoded::Done
    }
}

/// The reply to a command. The fields of other kinds of replies are absent.
#[wasm_bindgen]
pub struct Reply(pub(crate) Decoded);

/// The answer to an attempt.
#[wasm_bindgen]
#[derive(Clone, Copy)]
pub enum Answer {
    /// The lease is granted to this call.
    Granted,
    /// Another holder has the lease, or others wait for it.
    Refused,
    /// The fast attempt could not tell.
    UseSlowForm,
    /// It is no answer to an attempt.
    None,
}

impl Reply {
    pub(crate) fn granted(&self) -> Option<&Granted> {
        match &self.0 {
            Decoded::Acquire(reply) => match reply.as_ref() {
                AcquireReply::Granted(granted) => Some(granted),
                AcquireReply::Refused(_) | AcquireReply::UseSlowForm { .. } => None,
            },
            _ => None,
        }
    }

    pub(crate) fn refused(&self) -> Option<&Refused> {
        match &self.0 {
            Decoded::Acquire(reply) => match reply.as_ref() {
                AcquireReply::Refused(refused) => Some(refused),
                AcquireReply::Granted(_) | AcquireReply::UseSlowForm { .. } => None,
            },
            _ => None,
        }
    }

    fn seen(&self) -> Option<&LeaseInfo> {
        self.granted().map(|it| &it.info).or_else(|| self.refused().map(|it| &it.info))
    }
}

#[wasm_bindgen]
impl Reply {
    /// The answer to a fast attempt that found the name taken, and changed nothing.
    #[wasm_bindgen(js_name = useSlowForm)]
    pub fn use_slow_form() -> Reply {
        Reply(AcquireReply::UseSlowForm { maybe_granted: false }.into())
    }

    /// The answer to an attempt.
    pub fn answer(&self) -> Answer {
        let Decoded::Acquire(reply) = &self.0 else { return Answer::None };
        match reply.as_ref() {
            AcquireReply::Granted(_) => Answer::Granted,
            AcquireReply::Refused(_) => Answer::Refused,
            AcquireReply::UseSlowForm { .. } => Answer::UseSlowForm,
        }
    }

    /// Whether the answer to an attempt or a release shows that the document was written to.
    #[wasm_bindgen(js_name = hasWritten)]
    pub fn has_written(&self) -> bool {
        match &self.0 {
            Decoded::Acquire(reply) => reply.has_written(),
            Decoded::Ended(ended) => ended.count > 0,
            Decoded::Matched(matched) => matched.matched > 0,
            Decoded::EndedLater(has_ended) => *has_ended,
            Decoded::Resumed(resumed) => resumed.is_some(),
            _ => false,
        }
    }

    /// When the attempt was sent from which the answer counts, or the renewal or heartbeat.
    pub fn sent(&self) -> f64 {
        let sent = match &self.0 {
            Decoded::Matched(matched) => Some(matched.sent),
            _ => self.granted().map(|it| it.sent).or_else(|| self.refused().map(|it| it.sent)),
        };
        micros(sent.unwrap_or_default())
    }

    /// The time of a grant, a refusal or a release in the oplog; the token of a grant.
    pub fn token(&self) -> Option<u64> {
        let at = match &self.0 {
            Decoded::Token(at) => *at,
            Decoded::Ended(ended) => ended.at,
            _ => match (self.granted(), self.refused()) {
                (Some(granted), _) => granted.token,
                (None, refused) => refused?.at,
            },
        };
        at.map(token)
    }

    /// How many entries are ahead of the call's in the queue; `undefined` when it is not queued.
    pub fn ahead(&self) -> Option<u32> {
        self.refused()?.ahead
    }

    /// How many entries the queue has.
    pub fn waiting(&self) -> u32 {
        self.seen().map_or(0, |info| info.waiting)
    }

    /// Whether a release of this lease sends an event: another program's does not.
    #[wasm_bindgen(js_name = tellsItsEnd)]
    pub fn tells_its_end(&self) -> bool {
        self.seen().is_some_and(|info| info.owner.is_some() || info.shared)
    }

    /// The lease as an error shows it.
    pub fn info(&self, manager: &Manager) -> Option<Info> {
        let mut info = self.seen()?.clone();
        info.recognize(manager.id());
        Some(Info(info))
    }

    /// The error for a lease that is never granted, because its document is damaged.
    pub fn damaged(&self) -> Option<Fault> {
        let info = self.seen()?;
        let LeaseState::Damaged { found } = &info.state else { return None };
        Some(Error::damaged(&info.name, found.clone()).into())
    }

    /// How many leases a release has ended, or how many documents a renewal or heartbeat matched.
    pub fn count(&self) -> f64 {
        match &self.0 {
            Decoded::Ended(ended) => date(ended.count),
            Decoded::Matched(matched) => date(matched.matched),
            Decoded::EndedLater(has_ended) => f64::from(u8::from(*has_ended)),
            _ => 0.0,
        }
    }

    /// Whether the server has an oplog.
    #[wasm_bindgen(js_name = hasOplog)]
    pub fn has_oplog(&self) -> bool {
        matches!(&self.0, Decoded::Topology(topology) if topology.has_oplog)
    }

    /// The server's clock in milliseconds, as a hello has told it.
    pub fn now(&self) -> Option<f64> {
        let Decoded::Topology(topology) = &self.0 else { return None };
        topology.now_ms.map(date)
    }

    /// The text about documents of another format; `undefined` where none was found.
    #[wasm_bindgen(js_name = otherFormat)]
    pub fn other_format(&self) -> Option<String> {
        let Decoded::OtherFormat(Some(field)) = &self.0 else { return None };
        Some((*field).to_owned())
    }

    /// The problems of the indexes; `undefined` where there are none.
    #[wasm_bindgen(js_name = indexProblem)]
    pub fn index_problem(&self) -> Option<String> {
        let Decoded::Indexes(found) = &self.0 else { return None };
        crate::manager::index_problem(found)
    }

    /// The leases that a read has found, as a list.
    pub fn leases(&self, manager: &Manager) -> Vec<u8> {
        let Decoded::Leases(found) = &self.0 else { return list([]) };
        list(found.iter().map(|seen| {
            let mut info = seen.info.clone();
            info.recognize(manager.id());
            info_document(&info)
        }))
    }
}

/// A lease as a document for JavaScript. `LeaseInfo` in `core` describes the fields.
pub(crate) fn info_document(info: &LeaseInfo) -> Document {
    let state = match &info.state {
        LeaseState::Held => "held",
        LeaseState::Free => "free",
        _ => "damaged",
    };
    doc! {
        "name": &info.name,
        "state": state,
        "owner": info.owner.clone(),
        "value": info.value.clone(),
        "acquiredAt": at(info.acquired_at),
        "expiresAt": at(info.expires_at),
        "remaining": info.remaining.map(millis),
        "metadata": info.metadata.clone(),
        "inUse": info.in_use,
        "limit": info.limit,
        "waiting": info.waiting,
        "heldHere": info.held_here,
        "shared": info.shared,
        "holders": info.holders.iter().map(holder).collect::<Vec<_>>(),
        "text": info.to_string(),
    }
}

fn holder(holder: &LeaseHolder) -> Document {
    doc! {
        "owner": holder.owner.clone(),
        "value": &holder.value,
        "permits": holder.permits,
        "limit": holder.limit,
        "acquiredAt": at(holder.acquired_at),
        "expiresAt": at(holder.expires_at),
        "remaining": millis(holder.remaining),
        "metadata": holder.metadata.clone(),
        "heldHere": holder.held_here,
    }
}

fn at(date: Option<chrono::DateTime<chrono::Utc>>) -> Bson {
    date.map_or(Bson::Null, |date| DateTime::from_millis(date.timestamp_millis()).into())
}
