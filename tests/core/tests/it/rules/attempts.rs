//! The debts of an acquire call after its attempts: in random histories, which are checked against all that has
//! happened to them.

use mongo_lease_testbed::Seed;

use mongo_lease_core::rules::attempts::{Accepted, Attempts, CleanupAction, Effect};
use mongo_lease_core::rules::time::Instant;
use mongo_lease_core_tests::Chance;

/// A call, and all that has happened to it.
#[derive(Default)]
struct History {
    attempts: Attempts,
    started: u32,
    under_way: u32,
    is_taken: bool,
    is_ended: bool,
    /// The number of answers since the last cleanup that may be unaccepted grants.
    grants: u32,
    /// When the attempts that are known to have joined the queue were sent.
    ///
    /// Without those before the accepted grant, and those that a cleanup has removed from the queue.
    joins: Vec<Instant>,
    gave_back: u32,
    left: u32,
}

impl History {
    /// Applies one of the events that are possible now.
    fn step(&mut self, chance: &mut Chance) {
        let sent = Instant::from_nanos(1 + chance.below(9));
        match chance.below(8) {
            0..=1 if !self.is_taken && !self.is_ended => {
                self.under_way += 1;
                self.started += 1;
                assert_eq!(self.attempts.start(), self.started);
                assert!(self.attempts.has_started());
            }
            2..=4 if self.under_way > 0 => {
                let effects = [Effect::Nothing, Effect::MaybeGranted, Effect::Joined(sent)];
                self.answer(chance.one_of(&effects));
            }
            5 if !self.is_taken => {
                // A grant by an answer needs an answer that grants.
                let answers = u64::from(self.grants > 0);
                self.take(match chance.below(1 + answers) {
                    0 => Accepted::Promotion(sent),
                    _ => Accepted::Answer(sent),
                });
            }
            6 => {
                let next = self.attempts.abandon();
                self.is_ended |= !self.is_taken;
                self.judge(next);
            }
            7 if self.is_taken && chance.below(2) == 0 => {
                let next = self.attempts.settle();
                self.is_ended = true;
                self.judge(next);
            }
            7 if !self.is_taken && chance.below(2) == 0 => {
                let next = self.attempts.succeeded();
                self.is_ended = true;
                // The place is another call's now.
                self.joins.clear();
                self.judge(next);
            }
            _ => {}
        }
        self.look();
    }

    fn answer(&mut self, effect: Effect) {
        self.under_way -= 1;
        match effect {
            Effect::Nothing => {}
            Effect::MaybeGranted => self.grants += 1,
            Effect::Joined(sent) => self.joins.push(sent),
        }
        let next = self.attempts.answered(effect);
        self.judge(next);
    }

    fn take(&mut self, taken: Accepted) {
        let is_forgotten = self.attempts.has_one_grant_only(taken);
        let is_taken = self.attempts.accept(taken);
        assert_eq!(is_taken, !self.is_ended, "there is somebody to take it, or not");
        if !is_taken {
            return;
        }
        self.is_taken = true;
        let (handed_over, from) = match taken {
            Accepted::Answer(sent) => (1, sent),
            Accepted::Promotion(sent) => (0, sent),
        };
        self.grants -= handed_over;
        self.joins.retain(|&joined| joined > from);
        // A call that needs no cleanup owes nothing, now or later.
        let owes = self.grants > 0 || !self.joins.is_empty() || self.under_way > 0;
        assert_eq!(is_forgotten, !owes);
    }

    /// Checks the cleanup after an event.
    fn judge(&mut self, next: CleanupAction) {
        let wanted = match (self.is_ended, self.grants, self.joins.len()) {
            (false, _, _) | (true, 0, 0) => CleanupAction::Nothing,
            (true, 0, _) => CleanupAction::LeaveQueue,
            (true, _, _) => CleanupAction::GiveBack,
        };
        assert_eq!(next, wanted);
        match next {
            CleanupAction::Nothing => return,
            CleanupAction::GiveBack => self.gave_back += 1,
            CleanupAction::LeaveQueue => self.left += 1,
        }
        self.grants = 0;
        self.joins.clear();
    }

    /// Checks the properties that hold at all times.
    fn look(&self) {
        let is_queued_only = !self.is_taken
            && !self.is_ended
            && self.under_way == 0
            && self.grants == 0
            && !self.joins.is_empty();
        assert_eq!(self.attempts.is_queued_only(), is_queued_only);
        let mut gone = self.attempts.clone();
        let next = gone.abandon();
        assert!(!is_queued_only || next == CleanupAction::LeaveQueue, "{next:?}");
        assert!(
            !gone.is_queued_only() && gone.abandon() == CleanupAction::Nothing,
            "once is enough"
        );
    }

    /// Answers every attempt and ends the call: then nothing is owed.
    fn end(mut self, chance: &mut Chance) -> (u32, u32) {
        let next = self.attempts.abandon();
        self.is_ended |= !self.is_taken;
        self.judge(next);
        let next = self.attempts.settle();
        self.is_ended = true;
        self.judge(next);
        while self.under_way > 0 {
            let sent = Instant::from_nanos(1 + chance.below(9));
            let effects = [Effect::Nothing, Effect::MaybeGranted, Effect::Joined(sent)];
            self.answer(chance.one_of(&effects));
        }
        assert_eq!((self.grants, self.joins.len()), (0, 0));
        let again = [self.attempts.settle(), self.attempts.abandon()];
        assert_eq!(again, [CleanupAction::Nothing; 2]);
        (self.gave_back, self.left)
    }
}

#[test]
fn what_may_have_been_granted_is_taken_or_given_back() {
    let seed = Seed::fixed("histories of attempts", 7);
    let mut chance = Chance::new(seed.number());
    let mut totals = [0; 3];
    for _ in 0..20_000 {
        let mut history = History::default();
        assert!(!history.attempts.has_started());
        for _ in 0..chance.below(20) {
            history.step(&mut chance);
        }
        totals[0] += u32::from(history.is_taken);
        let (gave_back, left) = history.end(&mut chance);
        totals[1] += gave_back;
        totals[2] += left;
    }
    assert!(totals.iter().all(|&total| total > 1_000), "{totals:?}");
}
