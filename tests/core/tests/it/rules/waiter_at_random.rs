//! Long random histories of waiters, with the properties that hold at every step.

use std::time::Duration;

use mongo_lease_testbed::Seed;

use mongo_lease_core::rules::time::Instant;
use mongo_lease_core::rules::timing::{TTL_MIN, Timing, WAITER_TTL_MAX, WAITER_TTL_MIN};
use mongo_lease_core::rules::waiter::{
    WaitAction, WaitEvent, WaitRefusal, Waiter, next_heartbeat_at,
};
use mongo_lease_core_tests::Chance;

const MILLI: Duration = Duration::from_millis(1);

/// The server's time.
const SERVER_MS: i64 = 1_700_000_000_000;

/// A waiter, and all that is known of it from outside.
struct History {
    timing: Timing,
    waiter_ttl: Duration,
    waiter: Waiter,
    deadline: Instant,
    now: Instant,
    /// When the newest refused attempt was sent.
    refused_at: Option<Instant>,
    /// The latest moment of the next attempt, by the last event; `None` if it is due at once.
    look_by: Option<Instant>,
    /// Before this it has no reason to send an attempt.
    look_from: Instant,
}

impl History {
    fn new(chance: &mut Chance) -> History {
        let ttl = chance.one_of(&[TTL_MIN, 5_000 * MILLI, 30_000 * MILLI, 3_600_000 * MILLI]);
        let waiter_ttl = chance.one_of(&[WAITER_TTL_MIN, 10_000 * MILLI, WAITER_TTL_MAX]);
        let waits = chance.one_of(&[Duration::ZERO, 3_000 * MILLI, 300_000 * MILLI, Duration::MAX]);
        let now = Instant::START.after(Duration::from_secs(1_000));
        let deadline = now.after(waits);
        History {
            timing: Timing::new(ttl, 1_000 * MILLI, None).unwrap(),
            waiter_ttl,
            waiter: Waiter::new(deadline, waiter_ttl),
            deadline,
            now,
            refused_at: None,
            look_by: None,
            look_from: Instant::START,
        }
    }

    /// One of the events that are possible now. Their commands were sent a little or much earlier.
    fn event(&self, chance: &mut Chance) -> WaitEvent {
        let age = chance.one_of(&[MILLI, 100 * MILLI, 3_000 * MILLI, 30_000 * MILLI]);
        let age = u64::try_from(age.as_nanos()).unwrap();
        let sent = self.now.before(Duration::from_nanos(chance.below(age)));
        match chance.below(7) {
            0..=1 => WaitEvent::Timer,
            2..=3 => WaitEvent::Refused(WaitRefusal {
                sent,
                server_ms: chance.one_of(&[None, Some(0), Some(SERVER_MS), Some(SERVER_MS)]),
                ahead: chance.one_of(&[0, 0, 1, 5, 1_000, u32::MAX]),
                led_by: chance.one_of(&[0, 0, 1, 15, u32::MAX]),
                remaining: chance.one_of(&[
                    None,
                    Some(Duration::ZERO),
                    Some(20 * MILLI),
                    Some(8_000 * MILLI),
                    Some(Duration::MAX),
                ]),
                is_notified: chance.below(2) == 0,
                poll: chance.one_of(&[10 * MILLI, 77 * MILLI, 250 * MILLI]),
                recheck_every: chance.one_of(&[500 * MILLI, 15_000 * MILLI, Duration::MAX]),
            }),
            4 => WaitEvent::Recheck,
            5 => WaitEvent::Leads(15_000 * MILLI),
            _ => {
                let later = chance.one_of(&[0, 4_000, 30_000, 3_600_000, i64::MAX - SERVER_MS]);
                WaitEvent::Promoted { sent, expires_at_ms: Some(SERVER_MS + later) }
            }
        }
    }

    /// Sets the bounds of the next attempt after this refusal.
    fn refused(&mut self, refusal: &WaitRefusal) {
        self.refused_at = self.refused_at.max(Some(refusal.sent));
        let free_at = refusal.remaining.map_or(Instant::FAR_FUTURE, |left| self.now.after(left));
        let (poll, floor) = (self.now.after(refusal.poll), self.now.after(refusal.recheck_every));
        // A waiter before it need not count as dead before the waiter ttl is over, and a promoted one that has died had
        // no longer.
        let dead_at = self.now.after(self.waiter_ttl);
        let (from, by, at_any_rate) = match (refusal.is_notified, refusal.ahead) {
            (true, 0) => (free_at, free_at.after(MILLI), floor),
            // The first call of the process does that for the others.
            (true, _) if refusal.led_by > 0 => {
                let place = refusal.led_by.saturating_add(1);
                let floors = refusal.recheck_every.saturating_mul(place);
                (self.now.after(floors), self.now.after(floors), Instant::FAR_FUTURE)
            }
            (true, _) => (dead_at, dead_at, floor),
            (false, 0) => (free_at, free_at.after(MILLI), poll),
            (false, _) => (poll, self.now.after(10 * refusal.poll), Instant::FAR_FUTURE),
        };
        self.look_from = from.min(at_any_rate);
        self.look_by = Some(by.min(at_any_rate));
    }

    /// The time that is left of a promotion by this echo, for this term.
    fn left(&self, sent: Instant, term: Duration) -> Duration {
        let margin = (term / 100).max(2 * MILLI);
        let valid_until = sent.after(term.saturating_sub(margin));
        valid_until.since(self.now)
    }

    /// Applies an event, and checks the answer.
    fn step(&mut self, event: WaitEvent) -> WaitAction {
        let next = self.waiter.on(&self.timing, self.now, event);
        match event {
            WaitEvent::Refused(refusal) => self.refused(&refusal),
            WaitEvent::Recheck | WaitEvent::Promoted { .. }
                if !matches!(next, WaitAction::TakePromotion(_)) =>
            {
                self.look_by = None;
                self.look_from = Instant::START;
            }
            WaitEvent::Leads(recheck_every) => {
                let dead_at = self.now.after(self.waiter_ttl.min(recheck_every));
                self.look_from = self.look_from.min(dead_at);
                self.look_by = self.look_by.map(|by| by.min(dead_at));
            }
            WaitEvent::Timer | WaitEvent::Recheck | WaitEvent::Promoted { .. } => {}
        }
        let is_over = self.now >= self.deadline;
        match next {
            WaitAction::Acquire => assert!(!is_over && self.now >= self.look_from),
            WaitAction::WakeAt(at) => {
                assert!(self.now < at && at <= self.deadline);
                assert!(at >= self.look_from.min(self.deadline), "{at:?}");
                assert!(self.look_by.is_some_and(|by| at <= by), "{at:?} {:?}", self.look_by);
            }
            WaitAction::TakePromotion(term) => {
                let WaitEvent::Promoted { sent, .. } = event else {
                    panic!("nothing was promoted: {event:?}");
                };
                assert!(Some(sent) >= self.refused_at, "overtaken");
                let longest = self.timing.ttl.min(self.waiter_ttl);
                assert!(term <= longest && self.left(sent, term) >= longest / 3);
            }
            WaitAction::GiveUp => assert!(is_over),
        }
        if is_over {
            assert!(matches!(next, WaitAction::GiveUp | WaitAction::TakePromotion(_)));
        }
        if let (WaitEvent::Recheck | WaitEvent::Promoted { .. }, WaitAction::WakeAt(_)) =
            (event, next)
        {
            panic!("told something, and it goes on waiting: {event:?}");
        }
        next
    }

    /// A waiter that only waits sends its attempt or gives up at the announced moment.
    fn is_never_forgotten(&self) {
        let mut alone = self.waiter;
        let first = alone.on(&self.timing, self.now, WaitEvent::Timer);
        if let WaitAction::WakeAt(at) = first {
            // A timer event before that changes nothing.
            let again = alone.on(&self.timing, self.now, WaitEvent::Timer);
            assert_eq!(again, first);
            let woken = alone.on(&self.timing, at, WaitEvent::Timer);
            assert!(matches!(woken, WaitAction::Acquire | WaitAction::GiveUp), "{woken:?}");
        }
    }
}

#[test]
fn a_waiter_always_has_something_to_wait_for() {
    let seed = Seed::fixed("histories of waiters", 4);
    let mut chance = Chance::new(seed.number());
    let mut counts = [0; 4];
    for _ in 0..3_000 {
        let mut history = History::new(&mut chance);
        for _ in 0..30 {
            let event = history.event(&mut chance);
            let next = history.step(event);
            history.is_never_forgotten();
            let kind = match next {
                WaitAction::Acquire => 0,
                WaitAction::WakeAt(_) => 1,
                WaitAction::TakePromotion(_) => 2,
                WaitAction::GiveUp => 3,
            };
            counts[kind] += 1;
            history.now = match (next, chance.below(3)) {
                (WaitAction::TakePromotion(_) | WaitAction::GiveUp, 0) => break,
                (WaitAction::WakeAt(at), 0) if at < Instant::FAR_FUTURE => at,
                (_, 1) => history.now,
                (_, _) => {
                    let passes = chance.one_of(&[MILLI, 300 * MILLI, 6_000 * MILLI]);
                    history.now.after(passes)
                }
            };
        }
    }
    assert!(counts.iter().all(|&count| count > 1_000), "{counts:?}");
}

/// An entry with regular heartbeats lives until its waiter gives up.
///
/// This holds even if every second heartbeat is lost, and takes no more than three heartbeats in each waiter ttl.
#[test]
fn an_entry_lives_as_long_as_its_waiter() {
    let seed = Seed::fixed("heartbeats of waiters", 5);
    let mut chance = Chance::new(seed.number());
    for _ in 0..2_000 {
        let waiter_ttl = chance.one_of(&[WAITER_TTL_MIN, 10_000 * MILLI, WAITER_TTL_MAX]);
        let joined = Instant::START.after(Duration::from_millis(chance.below(100_000)));
        let waits = Duration::from_millis(chance.below(3_600_000));
        let deadline = joined.after(waits);
        let (mut beaten, mut beats) = (joined, 0_u32);
        loop {
            let due = next_heartbeat_at(beaten, waiter_ttl, deadline);
            if beaten.after(waiter_ttl) >= deadline {
                assert_eq!(due, Instant::FAR_FUTURE);
                break;
            }
            assert_eq!(due, beaten.after(waiter_ttl / 3));
            let is_lost = chance.below(2) == 0;
            beaten = if is_lost { due.after(waiter_ttl / 3) } else { due };
            beats += 1;
        }
        let third = (waiter_ttl / 3).as_nanos();
        assert!(u128::from(beats) <= 1 + waits.as_nanos() / third, "{beats} in {waits:?}");
    }
}
