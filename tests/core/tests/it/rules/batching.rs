//! Which calls go at once and which wait, by a table and in random histories.

use std::time::Duration;

use mongo_lease_core::rules::batching::{
    AfterLook, BATCH_MAX, BOUND_MIN, Batching, UNDER_WAY_MAX, after_look, apart, is_server_slow,
    is_too_late, piece_time,
};
use mongo_lease_core_tests::Chance;
use mongo_lease_testbed::Seed;

const MILLISECOND: Duration = Duration::from_millis(1);
const NANO: Duration = Duration::from_nanos(1);

#[test]
fn a_few_go_at_once_and_then_as_many_together_as_are_under_way() {
    // The calls of each command in progress, how many wait, and how many of them go.
    let table: [(&[usize], usize, usize); 15] = [
        (&[], 0, 0),
        (&[], 1, 1),
        (&[], BATCH_MAX + 1, BATCH_MAX),
        (&[], usize::MAX, BATCH_MAX),
        // A few lone ones, of which the last fills the room.
        (&[1; UNDER_WAY_MAX - 1], 3, 3),
        (&[1; UNDER_WAY_MAX], 1, 0),
        (&[1; UNDER_WAY_MAX], 3 * BATCH_MAX, 0),
        // Behind many, as many have to wait.
        (&[2, 2], 3, 0),
        (&[2, 2], 4, 4),
        (&[10], 9, 0),
        (&[10], 19, 19),
        (&[10, 10], 19, 0),
        (&[10, 10], 20, 20),
        // A full command is enough, however many calls are in progress.
        (&[BATCH_MAX, BATCH_MAX], BATCH_MAX - 1, 0),
        (&[BATCH_MAX, BATCH_MAX], BATCH_MAX, BATCH_MAX),
    ];
    for (under_way, waiting, wanted) in table {
        let mut batching = Batching::default();
        for &calls in under_way {
            assert_eq!(batching.go(calls), calls);
        }
        let go = batching.go(waiting);
        assert_eq!(go, wanted, "of {waiting} beside {under_way:?}");
        under_way.iter().chain((go > 0).then_some(&go)).for_each(|it| batching.came_back(*it));
        assert_eq!(batching, Batching::default());
        // After one answer too many, the count stays at zero.
        batching.came_back(7);
        assert_eq!(batching, Batching::default());
    }
}

/// The batching of one kind of command, as its callers see it.
#[derive(Default)]
struct History {
    batching: Batching,
    /// The number of calls in each command in progress.
    under_way: Vec<usize>,
    waiting: usize,
    came: usize,
    answered: usize,
}

impl History {
    fn a_call_comes(&mut self) {
        self.came += 1;
        self.waiting += 1;
        let is_lone =
            self.under_way.len() < UNDER_WAY_MAX && self.under_way.iter().all(|it| *it == 1);
        self.somebody_goes();
        assert!(!is_lone || self.waiting == 0, "it waits behind a few lone ones");
    }

    fn a_command_comes_back(&mut self, which: usize) {
        let calls = self.under_way.swap_remove(which);
        self.answered += calls;
        self.batching.came_back(calls);
        self.somebody_goes();
    }

    fn somebody_goes(&mut self) {
        let go = self.batching.go(self.waiting);
        assert!(go <= self.waiting && go <= BATCH_MAX, "{go} of {}", self.waiting);
        self.waiting -= go;
        if go > 0 {
            self.under_way.push(go);
        }
    }

    fn look(&self) {
        assert!(self.under_way.len() <= UNDER_WAY_MAX, "{:?}", self.under_way);
        let calls: usize = self.under_way.iter().sum();
        // Each waiting call is sent by the end of a command in progress.
        assert!(self.waiting == 0 || calls > 0, "{} wait for nothing", self.waiting);
        assert_eq!(self.answered + self.waiting + calls, self.came, "a call was lost");
    }

    fn at_random(chance: &mut Chance) -> History {
        let mut history = History::default();
        // Sometimes many calls come at once.
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
    let seed = Seed::fixed("histories of company", 0);
    for run in 0..300 {
        let seed = seed.number_of(run);
        let mut history = History::at_random(&mut Chance::new(seed));
        // When no more calls come, all are sent: each completed command sends some.
        let mut left = history.waiting + history.under_way.len();
        while !history.under_way.is_empty() {
            fullest = fullest.max(history.under_way[0]);
            history.a_command_comes_back(0);
            history.look();
            assert!(left > 0, "it does not end: seed {seed}");
            left -= 1;
        }
        assert_eq!((history.waiting, history.answered), (0, history.came), "seed {seed}");
        assert_eq!(history.batching, Batching::default(), "seed {seed}");
    }
    assert_eq!(fullest, BATCH_MAX, "the limit was never reached");
}

#[test]
fn calls_about_a_blocked_document_share_a_command() {
    // The name, whether this call met the document blocked, and a number.
    type Call = (&'static str, bool, u32);
    let apart = |calls: &[Call]| {
        let (groups, together) = apart(calls.to_vec(), |call| call.0, |call| call.1);
        let numbers = |calls: Vec<Call>| -> Vec<u32> { calls.iter().map(|call| call.2).collect() };
        (groups.into_iter().map(numbers).collect::<Vec<_>>(), numbers(together))
    };
    assert_eq!(apart(&[]), (vec![], vec![]));
    let nothing = [("b", false, 1), ("a", false, 2), ("b", false, 3)];
    assert_eq!(apart(&nothing), (vec![], vec![1, 2, 3]));
    let every = [("b", true, 1), ("a", true, 2), ("b", true, 3)];
    assert_eq!(apart(&every), (vec![vec![2], vec![1, 3]], vec![]));
    // One call is enough: the others about its document would only be blocked in turn.
    let one = [("b", false, 1), ("a", false, 2), ("b", true, 3), ("c", false, 4)];
    assert_eq!(apart(&one), (vec![vec![1, 3]], vec![2, 4]));
}

/// A look that finds all entries of a document does not show that their heartbeat was written.
#[test]
fn a_heartbeat_for_several_entries_is_not_confirmed_by_a_look() {
    let waiters = vec![("a", 1), ("a", 2), ("b", 3), ("c", 4), ("d", 5), ("d", 6)];
    let told =
        |matched| after_look(waiters.clone(), matched, |it| it.0, |it| it.1 != 3 && it.1 != 5);
    let gone = vec![("b", 3), ("d", 5)];
    // Two documents are complete. With one match, a call has joined `a` again.
    for matched in [0, 1] {
        let again = vec![("a", 1), ("a", 2), ("d", 6)];
        let wanted = AfterLook { gone: gone.clone(), again, confirmed: vec![("c", 4)] };
        assert_eq!(told(matched), wanted, "{matched}");
    }
    for matched in [2, 3] {
        let confirmed = vec![("a", 1), ("a", 2), ("c", 4)];
        let wanted = AfterLook { gone: gone.clone(), again: vec![("d", 6)], confirmed };
        assert_eq!(told(matched), wanted, "{matched}");
    }
}

#[test]
fn four_calls_with_little_time_go_alone_at_a_time() {
    let mut batching = Batching::default();
    for _ in 0..UNDER_WAY_MAX {
        assert!(batching.go_alone());
    }
    assert!(!batching.go_alone() && !batching.go_alone());
    // They do not count among those that share commands.
    assert!(batching.may_go(1));
    batching.alone_came_back();
    assert!(batching.go_alone() && !batching.go_alone());
}

#[test]
fn a_typical_command_is_the_average_of_the_last_few() {
    let mut batching = Batching::default();
    assert_eq!(batching.typical(), Duration::ZERO);
    batching.took(40 * MILLISECOND);
    assert_eq!(batching.typical(), 10 * MILLISECOND);
    batching.took(50 * MILLISECOND);
    assert_eq!(batching.typical(), 20 * MILLISECOND);
}

#[test]
fn a_call_is_too_late_when_a_command_takes_longer_than_it_has() {
    let attempt = 800 * MILLISECOND;
    // The time left, how long a command takes, and whether the call is too late.
    let table = [
        (Duration::ZERO, Duration::ZERO, true),
        (NANO, Duration::ZERO, false),
        (10 * MILLISECOND - NANO, 10 * MILLISECOND, true),
        (10 * MILLISECOND, 10 * MILLISECOND, false),
        // An eighth of an attempt is enough, however long a command takes.
        (100 * MILLISECOND - NANO, Duration::MAX, true),
        (100 * MILLISECOND, Duration::MAX, false),
    ];
    for (left, typical, wanted) in table {
        assert_eq!(is_too_late(left, typical, attempt), wanted, "{left:?} left of {typical:?}");
    }
}

#[test]
fn a_server_is_slow_that_answers_long_after_its_time() {
    let asked = 300 * MILLISECOND;
    assert!(!is_server_slow(asked, 2 * asked + BOUND_MIN));
    assert!(is_server_slow(asked, 2 * asked + BOUND_MIN + NANO));
}

#[test]
fn a_piece_has_two_thirds_of_the_time_of_the_whole() {
    assert_eq!(piece_time(3 * MILLISECOND), 2 * MILLISECOND);
}
