//! What a holder may believe.
//!
//! A holder believes that it holds as long as its own clock is before the end of its validity, and nothing has told
//! it otherwise. Invariants:
//!
//! 1. Validity counts from the moment at which the granting or renewing command was *sent*, never from its reply. The
//!    server counts from when it read the command, which is later, so validity ends first.
//! 2. Validity never shrinks but by loss, whatever order replies come in.
//! 3. Loss is final. No later reply brings a lost lease back, also when the server still has it.
//! 4. Loss needs no reply: the clock alone declares it.

use std::time::Duration;

use super::time::Instant;
use super::timing::Timing;

/// When a lease that was handed on is asked the whole ttl for.
const WHOLE_AFTER: Duration = Duration::from_millis(100);

/// What one holder believes about its lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Holder {
    valid_until: Instant,
    /// The end by the caller's own cap; it binds validity as well.
    hold_until: Instant,
    /// Whether it goes on renewing itself.
    renews: bool,
    renewal: Renewal,
    /// Since when no renewal has been confirmed although one should have been.
    failing_since: Option<Instant>,
    /// A transaction of the caller's may hold the lease's document: renew it apart from the others.
    guarded_at: Option<Instant>,
    lost: Option<Loss>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Renewal {
    /// Not renewed by itself.
    Off,
    /// Due at this moment.
    Due(Instant),
    /// Sent at this moment, and not answered yet.
    Pending(Instant),
}

/// Why a lease was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Loss {
    /// Its time ran out: it was not renewed, or its cap was reached.
    Expired,
    /// Its time ran out while no renewal was confirmed, since this moment.
    OutOfReach {
        /// When the first of the failing renewals was sent.
        since: Instant,
    },
    /// The server's document belongs to somebody else, or to nobody.
    NotOurs,
}

/// What happens to a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum HoldEvent {
    /// Time has passed.
    Timer,
    /// A renewal sent at this moment was confirmed.
    Renewed {
        /// When it was sent.
        sent: Instant,
    },
    /// A renewal failed, or its outcome is unknown; the next one may go out after `retry_after`.
    RenewalFailed {
        /// When it was sent.
        sent: Instant,
        /// The delay that chance and the number of failures suggest.
        retry_after: Duration,
    },
    /// The server has said that the lease is not ours any more.
    NotOurs,
    /// The caller's transaction has written to the lease's document.
    Guarded,
}

/// What is to be done now.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum HoldAction {
    /// A tick at this moment, which may have come already.
    WakeAt(Instant),
    /// Send a renewal now. Only a tick is answered so.
    Renew {
        /// In a command of its own, because a transaction may hold the document.
        alone: bool,
    },
    /// The lease is lost: say so. Said once.
    Lost(Loss),
    /// Nothing any more.
    Nothing,
}

/// How a lease is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HoldOptions {
    /// Whether it renews itself.
    pub(crate) renews: bool,
    /// The longest time for which it is held, however often it is renewed.
    pub(crate) max_hold: Option<Duration>,
}

impl Holder {
    /// A lease that was granted to a command sent at `sent`.
    pub(crate) fn granted(timing: &Timing, options: HoldOptions, sent: Instant) -> Holder {
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
            lost: None,
        }
    }

    /// A lease that a holder handed on to a waiter, whose newest sign of life was sent at `sent`. It lasts for `term`
    /// at first. It is made whole by a renewal, also where it is not renewed after that: soon, and not at once, for
    /// many a lease is released before.
    pub(crate) fn promoted(
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
            // The cap is the caller's own, who has the lease from now on.
            hold_until: cap(options, now),
            ..Holder::granted(timing, options, sent)
        }
    }

    /// Whether the holder may believe, at `now`, that it holds.
    pub(crate) fn is_valid(&self, now: Instant) -> bool {
        self.lost.is_none() && now < self.valid_until()
    }

    /// When validity ends if nothing more is confirmed.
    pub(crate) fn valid_until(&self) -> Instant {
        self.valid_until.min(self.hold_until)
    }

    /// The same without the caller's cap: what the server has been asked for.
    pub(crate) fn renewed_until(&self) -> Instant {
        self.valid_until
    }

    /// Takes an event, and says what to do.
    pub(crate) fn on(&mut self, timing: &Timing, now: Instant, event: HoldEvent) -> HoldAction {
        if self.lost.is_some() {
            return HoldAction::Nothing;
        }
        // The clock goes first: a confirmation that comes after the end is too late (invariant 3).
        if now >= self.valid_until() {
            return self.lose(self.reason_for_end());
        }
        match event {
            HoldEvent::Timer => return self.on_timer(timing, now),
            HoldEvent::NotOurs => return self.lose(Loss::NotOurs),
            HoldEvent::Guarded => self.guarded_at = Some(now),
            HoldEvent::Renewed { sent } => self.renewed(timing, sent),
            HoldEvent::RenewalFailed { sent, retry_after } => {
                self.failed(timing, now, sent, retry_after)
            }
        }
        HoldAction::WakeAt(self.wake_at(timing))
    }

    /// When something has to be done next: a renewal, or the declaration of the loss.
    pub(crate) fn wake_at(&self, timing: &Timing) -> Instant {
        self.renewal_due(timing).min(self.valid_until())
    }

    fn renewal_due(&self, timing: &Timing) -> Instant {
        // At the cap: further renewals would only keep the lease from those who come after.
        let capped = self.valid_until >= self.hold_until;
        match self.renewal {
            Renewal::Off => Instant::FAR_FUTURE,
            Renewal::Due(_) if capped => Instant::FAR_FUTURE,
            Renewal::Due(due) => due,
            // A renewal past its deadline goes on, and the next one goes out beside it.
            Renewal::Pending(sent) => sent.after(timing.attempt_deadline),
        }
    }

    fn on_timer(&mut self, timing: &Timing, now: Instant) -> HoldAction {
        let slack = match self.renewal {
            Renewal::Due(_) => timing.renew_slack,
            Renewal::Pending(_) | Renewal::Off => Duration::ZERO,
        };
        let due = self.renewal_due(timing);
        if due == Instant::FAR_FUTURE || now.after(slack) < due {
            return HoldAction::WakeAt(self.wake_at(timing));
        }
        if let Renewal::Pending(sent) = self.renewal {
            self.failing_since = Some(self.failing_since.map_or(sent, |since| since.min(sent)));
        }
        self.renewal = Renewal::Pending(now);
        HoldAction::Renew { alone: self.guarded_at.is_some() }
    }

    fn renewed(&mut self, timing: &Timing, sent: Instant) {
        self.valid_until = self.valid_until.max(sent.after(timing.validity()));
        self.failing_since = None;
        // A renewal that went out after the guard and was confirmed shows that the transaction has ended.
        self.guarded_at = self.guarded_at.filter(|&guarded_at| sent < guarded_at);
        let due = sent.after(timing.renew_after);
        self.renewal = match self.renewal {
            Renewal::Off => Renewal::Off,
            Renewal::Due(_) | Renewal::Pending(_) if !self.renews => Renewal::Off,
            Renewal::Due(earlier) => Renewal::Due(earlier.max(due)),
            Renewal::Pending(other) if other > sent => Renewal::Pending(other),
            Renewal::Pending(_) => Renewal::Due(due),
        };
    }

    fn failed(&mut self, timing: &Timing, now: Instant, sent: Instant, retry_after: Duration) {
        // A newer one was confirmed, or none is needed any more.
        if self.renewal == Renewal::Off || sent.after(timing.validity()) <= self.valid_until {
            return;
        }
        self.failing_since = Some(self.failing_since.map_or(sent, |since| since.min(sent)));
        // A newer one may be under way by now; its own answer decides.
        if matches!(self.renewal, Renewal::Pending(started) if started <= sent) {
            // The delay is made for the ttl. A promotion may have much less left.
            let left = self.valid_until().since(now);
            self.renewal = Renewal::Due(now.after(retry_after.min(left / 4)));
        }
    }

    fn lose(&mut self, loss: Loss) -> HoldAction {
        self.lost = Some(loss);
        HoldAction::Lost(loss)
    }

    /// Whether an end by the clock is one that the caller asked for: its cap was reached, or it wanted no renewals.
    pub(crate) fn ends_as_asked(&self) -> bool {
        self.hold_until <= self.valid_until || !self.renews
    }

    fn reason_for_end(&self) -> Loss {
        if self.hold_until <= self.valid_until {
            return Loss::Expired;
        }
        match (self.failing_since, self.renewal) {
            (Some(since), _) | (None, Renewal::Pending(since)) => Loss::OutOfReach { since },
            (None, Renewal::Off | Renewal::Due(_)) => Loss::Expired,
        }
    }
}

/// When the caller's own cap ends what it holds from `start` on.
fn cap(options: HoldOptions, start: Instant) -> Instant {
    options.max_hold.map_or(Instant::FAR_FUTURE, |longest| start.after(longest))
}
