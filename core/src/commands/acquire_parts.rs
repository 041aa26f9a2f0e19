//! The request of an acquire, and the answers to it.

use chrono::{DateTime, Utc};

use super::*;
use crate::spec::QueueOptions;

/// The request of one acquire call, the same for all of its attempts.
#[derive(Clone, Debug)]
pub struct AcquireRequest {
    /// The lease's name.
    pub name: String,
    /// The holder's value.
    pub value: String,
    /// Begins with the manager's id. Unique to this call, even where the caller chose the value.
    pub call_id: CallId,
    /// Shared by the calls of the manager, unless the caller chose the label.
    pub owner: Arc<str>,
    /// The caller's metadata.
    pub metadata: Document,
    /// The permits that the call asks for, and its limit.
    pub permits: Permits,
    /// How long the lease and its parts last.
    pub timing: Arc<Timing>,
    /// Whether the server has an oplog, which provides the tokens.
    pub has_oplog: bool,
    /// How the call waits in the queue; `None` when it does not wait.
    pub joins: Option<QueueOptions>,
}

impl AcquireRequest {
    /// For how long the server counts a grant, in milliseconds.
    pub(super) fn lasts_ms(&self) -> i64 {
        millis_up(self.timing.ttl + self.timing.max_clock_skew)
    }

    /// The writes that a caller relies on after this reply to an attempt.
    pub(super) fn relies_on(&self, reply: &AcquireReply) -> Reliance {
        match reply {
            AcquireReply::Granted(granted) => {
                let key = GrantKey::new(&self.name, &self.value, &granted.grant_id);
                Reliance::on_grant(key, granted.sent, granted.acquired_at())
            }
            AcquireReply::Refused(_) | AcquireReply::UseSlowForm { .. } => Reliance::Nothing,
        }
    }

    /// The token of a grant that this reply shows; `None` where the server has no oplog.
    pub(super) fn token(&self, reply: &Document) -> Result<Option<Timestamp>, DecodeError> {
        self.has_oplog.then(|| reply::token(reply)).transpose()
    }
}

/// The server's answer to an attempt.
#[derive(Clone, Debug, PartialEq)]
pub enum AcquireReply {
    /// The lease is granted to this call.
    Granted(Granted),
    /// Another holder has the lease, or the document does not show who has it.
    Refused(Refused),
    /// The fast acquire could not tell, or could not do all that the call needs.
    UseSlowForm {
        /// Whether the fast acquire may have granted the lease all the same.
        maybe_granted: bool,
    },
}

impl AcquireReply {
    /// Whether the answer shows that the document was written to.
    pub fn has_written(&self) -> bool {
        match self {
            AcquireReply::Granted(_) => true,
            AcquireReply::Refused(refused) => refused.ahead.is_some(),
            AcquireReply::UseSlowForm { .. } => false,
        }
    }
}

/// A refusal.
#[derive(Clone, Debug, PartialEq)]
pub struct Refused {
    /// When the attempt was sent.
    pub sent: Instant,
    /// The lease as the reply shows it.
    pub info: LeaseInfo,
    /// How many entries are ahead of this call's in the queue; `None` when it is not queued.
    pub ahead: Option<u32>,
    /// When the attempt was carried out, by the oplog.
    pub at: Option<Timestamp>,
    /// The same by the server's clock, in milliseconds.
    pub server_ms: Option<i64>,
}

/// A grant.
#[derive(Clone, Debug, PartialEq)]
pub struct Granted {
    /// When the attempt was sent whose answer showed the grant: validity counts from here.
    pub sent: Instant,
    /// The attempt that was granted, which need not be the one whose answer showed it.
    pub grant_id: GrantId,
    /// `None` where the server has no oplog: then a `StandaloneToken` command has to follow.
    pub token: Option<Timestamp>,
    /// The lease as the reply shows it.
    pub info: LeaseInfo,
    /// The caller's own part of a lease that several hold.
    pub share: Option<GrantedShare>,
}

impl Granted {
    /// When the server made the grant, by its clock; `None` if the document does not say.
    pub fn acquired_at(&self) -> Option<DateTime<Utc>> {
        self.share.as_ref().map_or(self.info.acquired_at, |share| share.acquired_at)
    }

    /// The permits of the grant, where the call asked for these, and when it expires.
    pub fn terms(&self, asked: Permits) -> (Permits, Option<DateTime<Utc>>) {
        match &self.share {
            Some(share) => (share.permits, share.expires_at),
            None => (asked, self.info.expires_at),
        }
    }
}

/// The part of one holder in a lease that several hold.
#[derive(Clone, Debug, PartialEq)]
pub struct GrantedShare {
    /// Those of its record, which an earlier call with the same value may have made.
    pub permits: Permits,
    /// The document may expire later, with another holder.
    pub expires_at: Option<DateTime<Utc>>,
    /// When the server made the grant.
    pub acquired_at: Option<DateTime<Utc>>,
}
