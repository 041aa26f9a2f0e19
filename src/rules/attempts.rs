//! The attempts of one acquire call, and what has to be given back.
//!
//! One call may have several attempts under way: a command that is past its deadline goes on, and another one with
//! the same value runs beside it. Each may be applied, or not, or nobody knows. Invariants:
//!
//! 1. What may have been granted is handed to the caller, or given back. There is no third way.
//! 2. An attempt that is answered beside the one whose grant the caller takes, before or after that, may have granted
//!    once more: when the lease has ended, it is given back again.
//! 3. Nothing is given back while the caller holds.
//! 4. What may stand in line for a call that has ended is taken out. Once by the giving back at its end, and again when
//!    an attempt is answered after that: a late one joins anew.

use super::time::Instant;

/// The attempts of one acquire call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Attempts {
    started: u32,
    under_way: u32,
    /// How many answers since the last giving back left it possible that the server holds a grant for us, less the one
    /// that the caller took.
    maybe_granted: u32,
    /// When the newest attempt was sent of which we know that it stood in line, unless the caller was granted the lease
    /// from there.
    in_line: Option<Instant>,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// The caller waits for a grant.
    Acquiring,
    /// The caller has its lease.
    Holding,
    /// The caller has gone, or its lease has ended.
    Ended,
}

/// What an attempt may have done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Effect {
    /// It did nothing, and never will.
    Nothing,
    /// It granted, or it may have.
    MaybeGranted,
    /// It joined the line, or found us there.
    Joined {
        /// When it was sent.
        sent: Instant,
    },
}

/// What the caller takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Accepted {
    /// What an attempt was answered that was sent then.
    Answer {
        /// When it was sent.
        sent: Instant,
    },
    /// What a holder has handed on, of which a change event told.
    Promotion {
        /// When the sign of life was sent from which it counts.
        sent: Instant,
    },
}

impl Accepted {
    fn sent(self) -> Instant {
        match self {
            Accepted::Answer { sent } | Accepted::Promotion { sent } => sent,
        }
    }

    /// How many answers it hands over. That of which an event tells is in none of them.
    fn answers(self) -> u32 {
        match self {
            Accepted::Answer { .. } => 1,
            Accepted::Promotion { .. } => 0,
        }
    }
}

/// What is to be done now.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CleanupAction {
    /// Nothing.
    Nothing,
    /// Release the name with this call's value, and leave the line.
    GiveBack,
    /// Leave the line: nothing says that we were granted the lease, unless somebody has handed it on to us.
    LeaveQueue,
}

impl Attempts {
    /// No attempt yet.
    pub(crate) const fn new() -> Attempts {
        Attempts {
            started: 0,
            under_way: 0,
            maybe_granted: 0,
            in_line: None,
            phase: Phase::Acquiring,
        }
    }

    /// An attempt goes out. Its number is part of the identity of what it may be granted.
    pub(crate) fn start(&mut self) -> u32 {
        self.started += 1;
        self.under_way += 1;
        self.started
    }

    /// Whether any attempt has gone out.
    pub(crate) fn has_started(&self) -> bool {
        self.started > 0
    }

    /// An attempt has been answered: by the server, or by the certainty that no answer will come.
    pub(crate) fn answered(&mut self, effect: Effect) -> CleanupAction {
        debug_assert!(self.under_way > 0, "an answer to an attempt that was not started");
        self.under_way = self.under_way.saturating_sub(1);
        match effect {
            Effect::Nothing => {}
            Effect::MaybeGranted => self.maybe_granted += 1,
            Effect::Joined { sent } => self.in_line = self.in_line.max(Some(sent)),
        }
        self.give_back_when_ended()
    }

    /// The caller takes its lease. False when it has gone already: then there is nobody to take it.
    pub(crate) fn accept(&mut self, taken: Accepted) -> bool {
        if self.phase == Phase::Ended {
            return false;
        }
        self.phase = Phase::Holding;
        // One of the answers is handed over with this. What another one has granted need not be the same grant.
        self.maybe_granted = self.maybe_granted.saturating_sub(taken.answers());
        // The grant took us out of the line. A join that was sent later than what it counts from came behind it.
        self.in_line = self.in_line.filter(|&joined| joined > taken.sent());
        true
    }

    /// Another call takes over the place in line of this one, whose caller has gone.
    pub(crate) fn succeeded(&mut self) -> CleanupAction {
        self.in_line = None;
        self.abandon()
    }

    /// Whether all that there is of this call is its place in line: then another one can take that over.
    pub(crate) fn is_in_line_only(&self) -> bool {
        self.phase == Phase::Acquiring
            && self.in_line.is_some()
            && self.under_way == 0
            && self.maybe_granted == 0
    }

    /// The caller has gone. With its lease, when it has taken one: then nothing changes.
    pub(crate) fn abandon(&mut self) -> CleanupAction {
        if self.phase == Phase::Acquiring {
            self.phase = Phase::Ended;
        }
        self.give_back_when_ended()
    }

    /// The lease has ended: released, or dropped. What the caller took is settled with it. What other attempts were
    /// answered is not: one that was carried out behind the release, or after a loss, has granted anew.
    pub(crate) fn settle(&mut self) -> CleanupAction {
        self.phase = Phase::Ended;
        self.give_back_when_ended()
    }

    /// Whether nothing can come of the call but the one grant that its caller is about to take: every attempt has been
    /// answered, and no other answer may have been a grant. Then nobody need think of the call any more.
    pub(crate) fn has_one_grant_only(&self, taken: Accepted) -> bool {
        self.under_way == 0
            && self.maybe_granted <= taken.answers()
            && self.in_line <= Some(taken.sent())
    }

    fn give_back_when_ended(&mut self) -> CleanupAction {
        if self.phase != Phase::Ended {
            return CleanupAction::Nothing;
        }
        let was_in_line = self.in_line.take().is_some();
        match std::mem::take(&mut self.maybe_granted) {
            0 if was_in_line => CleanupAction::LeaveQueue,
            0 => CleanupAction::Nothing,
            _ => CleanupAction::GiveBack,
        }
    }
}
