//! Who goes at once and who waits, by a table and through random histories.

use super::chance::Chance;
use crate::rules::company::{Company, TOGETHER_MAX, UNDER_WAY_MAX};

#[test]
fn a_lone_call_goes_at_once_each_time() {
    let mut company = Company::default();
    for _ in 0..1_000 {
        assert!(company.goes_at_once());
        assert_eq!(company.go_next(0), 0);
        assert_eq!(company, Company::default());
    }
}

#[test]
fn when_enough_are_under_way_the_next_one_waits() {
    let mut company = Company::default();
    for _ in 0..UNDER_WAY_MAX {
        assert!(company.goes_at_once());
    }
    for _ in 0..3 {
        assert!(!company.goes_at_once());
    }
    // One comes back, and those who wait take its place.
    assert_eq!(company.go_next(3), 3);
    assert!(!company.goes_at_once());
    // Now nobody waits, and there is room.
    assert_eq!(company.go_next(0), 0);
    assert!(company.goes_at_once());
    assert!(!company.goes_at_once());
}

#[test]
fn so_many_go_together_as_wait_and_no_more_than_may() {
    for (waiting, go) in [
        (0, 0),
        (1, 1),
        (TOGETHER_MAX - 1, TOGETHER_MAX - 1),
        (TOGETHER_MAX, TOGETHER_MAX),
        (TOGETHER_MAX + 1, TOGETHER_MAX),
        (usize::MAX, TOGETHER_MAX),
    ] {
        let mut company = Company::default();
        assert!(company.goes_at_once());
        assert_eq!(company.go_next(waiting), go, "{waiting}");
    }
    // One too many comes back: nothing is counted below none.
    let mut company = Company::default();
    assert_eq!(company.go_next(0), 0);
    assert_eq!(company, Company::default());
}

/// The line, judged by what a caller sees of it.
#[derive(Default)]
struct History {
    company: Company,
    /// How many calls each command under way has with it.
    under_way: Vec<usize>,
    waiting: usize,
    came: usize,
    answered: usize,
}

impl History {
    fn a_call_comes(&mut self) {
        self.came += 1;
        let was_alone = self.under_way.is_empty();
        if self.company.goes_at_once() {
            assert_eq!(self.waiting, 0, "it went before those who wait");
            self.under_way.push(1);
        } else {
            assert!(!was_alone, "it waits for nothing");
            self.waiting += 1;
        }
    }

    fn a_command_comes_back(&mut self, which: usize) {
        self.answered += self.under_way.swap_remove(which);
        let go = self.company.go_next(self.waiting);
        assert!(go <= self.waiting && go <= TOGETHER_MAX, "{go} of {}", self.waiting);
        assert!(go > 0 || self.waiting == 0, "a command came back, and nobody went");
        self.waiting -= go;
        if go > 0 {
            self.under_way.push(go);
        }
    }

    fn look(&self) {
        assert!(self.under_way.len() <= UNDER_WAY_MAX, "{:?}", self.under_way);
        let is_full = self.under_way.len() == UNDER_WAY_MAX;
        assert!(self.waiting == 0 || is_full, "{} wait, and there is room", self.waiting);
        let known = self.answered + self.waiting + self.under_way.iter().sum::<usize>();
        assert_eq!(known, self.came, "a call was lost");
    }

    fn at_random(chance: &mut Chance) -> History {
        let mut history = History::default();
        // Now and then there is a rush.
        let rush = 1 + chance.below(400);
        for _ in 0..300 {
            let commands = history.under_way.len() as u64;
            match chance.below(10) {
                0..=4 => history.a_call_comes(),
                5 if chance.below(20) == 0 => (0..rush).for_each(|_| history.a_call_comes()),
                _ if commands > 0 => {
                    let which = usize::try_from(chance.below(commands)).unwrap();
                    history.a_command_comes_back(which);
                }
                _ => {}
            }
            history.look();
        }
        history
    }
}

#[test]
fn at_random_nobody_is_lost_and_nobody_waits_without_need() {
    let mut fullest = 0;
    for seed in 0..300 {
        let mut history = History::at_random(&mut Chance::new(seed));
        // When no more come, all are served: each coming back serves somebody.
        let mut left = history.waiting + history.under_way.len();
        while !history.under_way.is_empty() {
            fullest = fullest.max(history.under_way[0]);
            history.a_command_comes_back(0);
            history.look();
            assert!(left > 0, "it does not end");
            left -= 1;
        }
        assert_eq!((history.waiting, history.answered), (0, history.came));
        assert_eq!(history.company, Company::default());
    }
    assert_eq!(fullest, TOGETHER_MAX, "the limit was never reached");
}
