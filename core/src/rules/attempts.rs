//! The attempts of one acquire call, and which grants must be given back.
//!
//! One call may have several attempts in progress: an attempt past its deadline goes on, and another one with the same
//! value runs beside it. Invariants:
//!
//! 1. Each possible grant is either handed to the caller or given back, also one of an attempt that is answered beside
//!    the accepted one: when the lease has ended.
//! 2. Nothing is given back while the caller holds the lease.
//! 3. A possible queue entry of an ended call is removed: once by the cleanup at its end, and again after each later
//!    answer, because a late attempt joins anew.

use super::Instant;

/// The attempts of one acquire call. The default has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Attempts {
    started: u32,
    under_way: u32,
    /// The number of answers since the last cleanup that may be unaccepted grants.
    maybe_granted: u32,
    /// When the newest attempt that is known to have joined the queue was sent; `None` if the caller was granted the
    /// lease from there.
    queued_since: Option<Instant>,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Phase {
    #[default]
    Acquiring,
    Holding,
    /// The caller has gone, or its lease has ended.
    Ended,
}

/// The possible effect of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// It did nothing, and never will.
    Nothing,
    /// It made a grant, or may have made one.
    MaybeGranted,
    /// It was sent at this moment, and joined the queue or found our entry there.
    Joined(Instant),
}

/// The grant that the caller accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Accepted {
    /// The grant of an attempt that was sent at this moment.
    Answer(Instant),
    /// A promotion that a change event reported. The heartbeat or attempt that it counts from was sent at this moment.
    Promotion(Instant),
}

impl Accepted {
    fn sent(self) -> Instant {
        let (Accepted::Answer(sent) | Accepted::Promotion(sent)) = self;
        sent
    }

    /// How many counted answers the grant uses up.
    fn answers(self) -> u32 {
        u32::from(matches!(self, Accepted::Answer(_)))
    }
}

/// The cleanup to be done now.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CleanupAction {
    /// None.
    Nothing,
    /// Release the name with this call's value, and leave the queue.
    GiveBack,
    /// Leave the queue, from which a release may have handed the lease off to us.
    LeaveQueue,
}

impl Attempts {
    /// Registers a new attempt. Its number becomes part of the id of its grant.
    pub fn start(&mut self) -> u32 {
        self.started += 1;
        self.under_way += 1;
        self.started
    }

    /// Whether any attempt was started.
    pub fn has_started(&self) -> bool {
        self.started > 0
    }

    /// An attempt was answered, or it is certain that no answer will come.
    pub fn answered(&mut self, effect: Effect) -> CleanupAction {
        debug_assert!(self.under_way > 0, "an answer to an attempt that was not started");
        self.under_way = self.under_way.saturating_sub(1);
        match effect {
            Effect::Nothing => {}
            Effect::MaybeGranted => self.maybe_granted += 1,
            Effect::Joined(sent) => self.queued_since = self.queued_since.max(Some(sent)),
        }
        self.give_back_when_ended()
    }

    /// The caller accepts its lease. Returns false if the caller has gone.
    pub fn accept(&mut self, taken: Accepted) -> bool {
        if self.phase == Phase::Ended {
            return false;
        }
        self.phase = Phase::Holding;
        // One answer is used up by this. Another answer need not mean the same grant.
        self.maybe_granted = self.maybe_granted.saturating_sub(taken.answers());
        // The grant removed our queue entry. An attempt that was sent later has joined after it.
        self.queued_since = self.queued_since.filter(|&joined| joined > taken.sent());
        true
    }

    /// Another call takes over the queue entry of this one, whose caller has gone.
    pub fn succeeded(&mut self) -> CleanupAction {
        self.queued_since = None;
        self.abandon()
    }

    /// Whether only a queue entry is left of this call. Then another call can take that over.
    pub fn is_queued_only(&self) -> bool {
        self.phase == Phase::Acquiring
            && self.queued_since.is_some()
            && self.under_way == 0
            && self.maybe_granted == 0
    }

    /// The caller has gone. If it had accepted a lease, nothing changes.
    pub fn abandon(&mut self) -> CleanupAction {
        if self.phase == Phase::Acquiring {
            self.phase = Phase::Ended;
        }
        self.give_back_when_ended()
    }

    /// The lease was released or dropped, and the accepted grant is settled with it. An attempt that was applied after
    /// the release, or after a loss, has made another grant.
    pub fn settle(&mut self) -> CleanupAction {
        self.phase = Phase::Ended;
        self.give_back_when_ended()
    }

    /// Whether the call can produce no grant except the one about to be accepted, and needs no cleanup: every attempt
    /// has been answered, and no other answer may be a grant.
    pub fn has_one_grant_only(&self, taken: Accepted) -> bool {
        self.under_way == 0
            && self.maybe_granted <= taken.answers()
            && self.queued_since <= Some(taken.sent())
    }

    fn give_back_when_ended(&mut self) -> CleanupAction {
        if self.phase != Phase::Ended {
            return CleanupAction::Nothing;
        }
        let was_queued = self.queued_since.take().is_some();
        match std::mem::take(&mut self.maybe_granted) {
            0 if was_queued => CleanupAction::LeaveQueue,
            0 => CleanupAction::Nothing,
            _ => CleanupAction::GiveBack,
        }
    }
}
