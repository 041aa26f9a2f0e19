//! When a holder may rely on its lease, and when it renews it.
//!
//! A holder may rely on its lease until its own clock reaches the end of validity, unless it learns of a loss earlier.
//!
//! 1. Validity counts from the *sending* of the granting or renewing command, never from its reply. The server counts
//!    from when it read the command, which is later, so validity ends first.
//! 2. Validity shrinks only by a loss, in whatever order replies arrive.
//! 3. A loss is final. No later reply brings a lost lease back, even if the server still has it.
//! 4. A loss needs no reply: the clock alone declares it.

use std::time::Duration;

use super::{Instant, Timing};

/// How soon a promoted lease is renewed for its whole ttl.
const WHOLE_AFTER: Duration = Duration::from_millis(100);

/// The state of one holder's lease, as the holder knows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holder {
    valid_until: Instant,
    /// The end by `max_hold`; it bounds the validity too.
    hold_until: Instant,
    /// Whether the lease keeps renewing itself.
    renews: bool,
    renewal: Renewal,
    /// Since when an expected renewal has not been confirmed.
    failing_since: Option<Instant>,
    /// When the caller's transaction wrote to the lease document: it may be blocked, and needs a command of its own.
    guarded_at: Option<Instant>,
    /// How many transactions under the lease are open: its renewals would conflict with them.
    transactions: u32,
    lost: Option<Loss>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Renewal {
    Off,
    /// Due at this moment.
    Due(Instant),
    /// Sent at this moment, and not answered yet.
    Pending(Instant),
    /// Sent at this moment and applied. No majority has it yet.
    Applied(Instant),
}

/// Why a lease was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Loss {
    /// Its time ran out as the caller asked: by `max_hold`, or with its renewal off.
    EndedAsAsked,
    /// Its time ran out while this process stood still: it did not do what was due at this moment.
    NotRenewed(Instant),
    /// Its time ran out while no renewal was confirmed. The first of those was sent at this moment.
    OutOfReach(Instant),
    /// The lease on the server is free, or has another holder.
    NotOurs,
}

/// An event for a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HoldEvent {
    /// Time has passed.
    Timer,
    /// A renewal sent at this moment was confirmed.
    Renewed(Instant),
    /// A renewal sent at this moment was applied, and is unconfirmed. It prolongs nothing yet, and is not repeated.
    Applied(Instant),
    /// A renewal failed, or its outcome is unknown.
    RenewalFailed {
        /// When it was sent.
        sent: Instant,
        /// The jittered delay of the next one.
        retry_after: Duration,
    },
    /// The server has said that the lease is not ours any more.
    NotOurs,
    /// A transaction under the lease begins. From here on renewals are held back.
    TransactionBegun,
    /// It has ended, or will in a moment.
    TransactionEnded,
    /// The caller's transaction has written to the lease document.
    Guarded,
    /// The renewal of another grant in the same document, sent at this moment, was confirmed.
    DocumentWritten(Instant),
}

/// The action to be done now.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HoldAction {
    /// Send a `Timer` event at this moment, which may be over.
    WakeAt(Instant),
    /// Send a renewal now. Only a `Timer` event has this result.
    Renew {
        /// In a command of its own, because a transaction may hold the document.
        alone: bool,
    },
    /// The lease is lost: report it. Returned once.
    Lost(Loss),
    /// Nothing more.
    Nothing,
}

/// How a lease is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldOptions {
    /// Whether it renews itself.
    pub renews: bool,
    /// The longest time for which it is held, however often it is renewed.
    pub max_hold: Option<Duration>,
}

/// The shortest delay of another renewal near the end of validity, so that refusals come to an end.
const RETRY_MIN: Duration = Duration::from_millis(100);

impl Holder {
    /// A lease that was granted to a command sent at `sent`.
    pub fn granted(timing: &Timing, options: HoldOptions, sent: Instant) -> Holder {
        Holder {
            valid_until: sent.after(timing.validity()),
            hold_until: cap(options, sent),
            renews: options.renews,
            renewal: match options.renews {
                true => Renewal::Due(sent.after(timing.renew_after)),
                false => Renewal::Off,
            },
            failing_since: None,
            guarded_at: None,
            transactions: 0,
            lost: None,
        }
    }

    /// A lease from a promotion. The waiter's newest heartbeat was sent at `sent`.
    ///
    /// It lasts for `term` at first. A renewal extends it to its whole ttl, even if automatic renewal is off: soon, but
    /// not at once, because many leases are released before.
    pub fn promoted(
        timing: &Timing,
        options: HoldOptions,
        now: Instant,
        sent: Instant,
        term: Duration,
    ) -> Holder {
        let soon = now.after(WHOLE_AFTER);
        Holder {
            valid_until: sent.after(timing.validity_of(term)),
            renewal: Renewal::Due(soon.min(sent.after(term / 3))),
            // `max_hold` counts from now, when the caller gets the lease.
            hold_until: cap(options, now),
            ..Holder::granted(timing, options, sent)
        }
    }

    /// Whether the holder may rely on the lease at `now`.
    pub fn is_valid(&self, now: Instant) -> bool {
        self.lost.is_none() && now < self.valid_until()
    }

    /// The end of validity if nothing more is confirmed.
    pub fn valid_until(&self) -> Instant {
        self.valid_until.min(self.hold_until)
    }

    /// The end of validity without `max_hold`: what the server has granted.
    pub fn renewed_until(&self) -> Instant {
        self.valid_until
    }

    /// Applies an event, and returns the next action.
    pub fn on(&mut self, timing: &Timing, now: Instant, event: HoldEvent) -> HoldAction {
        if self.lost.is_some() {
            return HoldAction::Nothing;
        }
        // The clock goes first: a confirmation after the end is too late (invariant 3).
        if now >= self.valid_until() {
            return self.lose(self.reason_for_end(timing, now));
        }
        match event {
            HoldEvent::Timer => return self.on_timer(timing, now),
            HoldEvent::NotOurs => return self.lose(Loss::NotOurs),
            HoldEvent::TransactionBegun => self.transactions = self.transactions.saturating_add(1),
            HoldEvent::TransactionEnded => self.transactions = self.transactions.saturating_sub(1),
            HoldEvent::Guarded => self.guarded_at = Some(now),
            HoldEvent::DocumentWritten(sent) => self.document_written(sent),
            HoldEvent::Renewed(sent) => self.renewed(timing, sent),
            HoldEvent::Applied(sent) => self.applied(sent),
            HoldEvent::RenewalFailed { sent, retry_after } => {
                self.failed(timing, now, sent, retry_after)
            }
        }
        HoldAction::WakeAt(self.wake_at(timing))
    }

    /// When the next action is due: a renewal, or the declaration of the loss.
    pub fn wake_at(&self, timing: &Timing) -> Instant {
        self.renewal_due(timing).min(self.valid_until())
    }

    fn renewal_due(&self, timing: &Timing) -> Instant {
        // At `max_hold`, further renewals would only delay later holders.
        let capped = self.valid_until >= self.hold_until;
        let due = match self.renewal {
            Renewal::Off => return Instant::FAR_FUTURE,
            Renewal::Due(_) | Renewal::Applied(_) if capped => return Instant::FAR_FUTURE,
            Renewal::Due(due) => due,
            // A renewal past its deadline goes on, and the next one is sent beside it.
            Renewal::Pending(sent) => sent.after(timing.attempt_timeout),
            // The next one is due as if it were confirmed: several may wait for a majority that is late.
            Renewal::Applied(sent) if self.renews => sent.after(timing.renew_after),
            Renewal::Applied(_) => Instant::FAR_FUTURE,
        };
        // A renewal behind the back of a transaction makes its guard conflict. The last third is the lease's own.
        let held_back = match self.transactions {
            0 => Instant::START,
            _ => self.valid_until.before(timing.validity() / 3),
        };
        due.max(held_back)
    }

    /// Until when a renewal may still be answered that was sent and has no answer; `None` if there is none.
    pub fn renewal_under_way(&self, timing: &Timing) -> Option<Instant> {
        match self.renewal {
            Renewal::Pending(sent) if self.lost.is_none() => {
                Some(sent.after(timing.attempt_timeout))
            }
            Renewal::Pending(_) | Renewal::Applied(_) | Renewal::Due(_) | Renewal::Off => None,
        }
    }

    fn on_timer(&mut self, timing: &Timing, now: Instant) -> HoldAction {
        let slack = match self.renewal {
            Renewal::Due(_) => timing.renew_slack,
            Renewal::Applied(_) => timing.renew_slack,
            Renewal::Pending(_) | Renewal::Off => Duration::ZERO,
        };
        let due = self.renewal_due(timing);
        if due == Instant::FAR_FUTURE || now.after(slack) < due {
            return HoldAction::WakeAt(self.wake_at(timing));
        }
        if let Renewal::Pending(sent) | Renewal::Applied(sent) = self.renewal {
            self.failing_since = Some(self.failing_since.map_or(sent, |since| since.min(sent)));
        }
        // In whole microseconds, as the sending of this renewal will be.
        self.renewal = Renewal::Pending(now.whole_micros());
        HoldAction::Renew { alone: self.guarded_at.is_some() }
    }

    fn renewed(&mut self, timing: &Timing, sent: Instant) {
        self.valid_until = self.valid_until.max(sent.after(timing.validity()));
        self.failing_since = None;
        self.document_written(sent);
        let due = sent.after(timing.renew_after);
        self.renewal = match self.renewal {
            Renewal::Off => Renewal::Off,
            Renewal::Due(_) | Renewal::Pending(_) | Renewal::Applied(_) if !self.renews => {
                Renewal::Off
            }
            Renewal::Due(earlier) => Renewal::Due(earlier.max(due)),
            Renewal::Pending(other) | Renewal::Applied(other) if other > sent => self.renewal,
            Renewal::Pending(_) | Renewal::Applied(_) => Renewal::Due(due),
        };
    }

    /// The lease is valid for as long as it was, and no renewal counts as confirmed.
    fn applied(&mut self, sent: Instant) {
        self.document_written(sent);
        if matches!(self.renewal, Renewal::Pending(started) if started <= sent) {
            self.renewal = Renewal::Applied(sent);
        }
    }

    /// If a renewal that was sent after the guard is confirmed, the transaction has ended.
    fn document_written(&mut self, sent: Instant) {
        self.guarded_at = self.guarded_at.filter(|&guarded_at| sent < guarded_at);
    }

    fn failed(&mut self, timing: &Timing, now: Instant, sent: Instant, retry_after: Duration) {
        // A newer one was confirmed, or none is needed any more.
        if self.renewal == Renewal::Off || sent.after(timing.validity()) <= self.valid_until {
            return;
        }
        self.failing_since = Some(self.failing_since.map_or(sent, |since| since.min(sent)));
        // A newer one may be in progress; its own answer decides.
        if matches!(self.renewal, Renewal::Pending(at) | Renewal::Applied(at) if at <= sent) {
            // The delay is chosen for the ttl. A promotion may have much less time left.
            let left = self.valid_until().since(now);
            let soon = (left / 4).max(RETRY_MIN);
            self.renewal = Renewal::Due(now.after(retry_after.min(soon)));
        }
    }

    fn lose(&mut self, loss: Loss) -> HoldAction {
        self.lost = Some(loss);
        HoldAction::Lost(loss)
    }

    /// Why the lease ends if its validity ends now.
    ///
    /// A process that stands still right after it has sent a renewal hears no answer. So the longer time decides: that
    /// in which it tried, or that in which it did not do what was due.
    pub fn reason_for_end(&self, timing: &Timing, now: Instant) -> Loss {
        if self.hold_until <= self.valid_until {
            return Loss::EndedAsAsked;
        }
        let due = self.renewal_due(timing);
        let stood_still = now.since(due);
        match (self.failing_since, self.renewal) {
            (Some(since), _) | (None, Renewal::Pending(since) | Renewal::Applied(since))
                if stood_still.is_zero() || stood_still < due.since(since) =>
            {
                Loss::OutOfReach(since)
            }
            (None, Renewal::Off) => Loss::EndedAsAsked,
            // Also a promotion that was to be renewed once.
            (_, Renewal::Due(_) | Renewal::Pending(_) | Renewal::Applied(_) | Renewal::Off) => {
                Loss::NotRenewed(due)
            }
        }
    }
}

/// When `max_hold` ends a lease that is held from `start` on.
fn cap(options: HoldOptions, start: Instant) -> Instant {
    options.max_hold.map_or(Instant::FAR_FUTURE, |longest| start.after(longest))
}
