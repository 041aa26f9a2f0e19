//! Which lanes get a slot, for every number of slots.

use mongo_lease_core::rules::slots::{LANES_MIN, Lane, Slots};
use mongo_lease_core_tests::Chance;

fn fill(slots: &mut Slots, lane: Lane) -> usize {
    (0..).take_while(|_| slots.occupy(lane)).count()
}

/// The lanes for blocked documents have a slot of their own beside acquires, too.
#[test]
fn whatever_others_have_one_slot_is_left_for_what_is_critical() {
    for all in LANES_MIN..200 {
        for lane in Lane::ALL.into_iter().filter(|lane| *lane != Lane::Release) {
            let mut slots = Slots::new(all);
            let others = [Lane::Acquire, Lane::BlockedAcquire, Lane::BlockedCritical];
            for other in others.into_iter().filter(|other| *other != lane) {
                fill(&mut slots, other);
            }
            assert!(slots.occupy(lane), "{lane:?} of {all}");
        }
        // In whichever order the others come.
        for first in Lane::ALL {
            let mut slots = Slots::new(all);
            let others = Lane::ALL.into_iter().filter(|lane| *lane != Lane::Critical);
            for other in std::iter::once(first).chain(others).filter(|it| *it != Lane::Critical) {
                fill(&mut slots, other);
            }
            assert!(slots.occupy(Lane::Critical), "after {first:?} of {all}");
        }
    }
}

#[test]
fn releases_leave_a_slot_for_what_is_critical_and_one_for_acquires() {
    for all in LANES_MIN..200 {
        let mut slots = Slots::new(all);
        assert_eq!(fill(&mut slots, Lane::Release), all - 2);
        assert!(slots.occupy(Lane::Acquire) && slots.occupy(Lane::Critical));
        // Slots that the others give back are left for them again.
        slots.give_back(Lane::Acquire);
        slots.give_back(Lane::Critical);
        assert!(!slots.occupy(Lane::Release));
        // Beside those that use theirs, releases have all the rest.
        let mut slots = Slots::new(all);
        assert!(slots.occupy(Lane::Acquire) && slots.occupy(Lane::Critical));
        assert_eq!(fill(&mut slots, Lane::Release), all - 2);
    }
}

/// Otherwise acquires or commands on blocked documents could keep a release waiting for ever.
#[test]
fn releases_may_have_each_slot_that_the_lanes_behind_them_may_have() {
    for all in LANES_MIN..12 {
        for seed in 0..200 {
            let mut chance = Chance::new(seed);
            let mut slots = Slots::new(all);
            let mut taken: Vec<Lane> = Vec::new();
            for _ in 0..200 {
                let may = |lane| { slots }.occupy(lane);
                let has_acquire = taken.contains(&Lane::Acquire);
                let goes_behind = may(Lane::BlockedAcquire) || has_acquire && may(Lane::Acquire);
                assert!(!goes_behind || may(Lane::Release), "{all}: {taken:?}");
                let lane = Lane::ALL[usize::try_from(chance.below(5)).unwrap()];
                if chance.below(3) > 0 {
                    taken.extend(slots.occupy(lane).then_some(lane));
                } else if !taken.is_empty() {
                    let place = usize::try_from(chance.below(taken.len() as u64)).unwrap();
                    slots.give_back(taken.swap_remove(place));
                }
            }
        }
    }
}

#[test]
fn blocked_documents_have_few_slots() {
    let [critical, blocked_critical, release, acquire, blocked_acquire] =
        Lane::ALL.map(|lane| fill(&mut Slots::new(10), lane));
    assert_eq!((critical, release, acquire), (10, 8, 7));
    assert_eq!((blocked_critical, blocked_acquire), (1, 1));
    // With more slots, each lane for blocked documents has more of them, but never more than a quarter.
    for all in 16..200 {
        let blocked = [Lane::BlockedCritical, Lane::BlockedAcquire];
        let blocked = blocked.map(|lane| fill(&mut Slots::new(all), lane));
        assert!(blocked.iter().all(|slots| (2..=all / 4).contains(slots)), "{blocked:?} of {all}");
    }
}

#[test]
fn with_few_slots_there_are_no_lanes() {
    for all in 1..LANES_MIN {
        assert!(Slots::new(all).are_few());
        for lane in Lane::ALL {
            assert_eq!(fill(&mut Slots::new(all), lane), all);
        }
    }
    assert!(!Slots::new(LANES_MIN).are_few());
    assert_eq!(fill(&mut Slots::new(0), Lane::Critical), 0);
}

#[test]
fn at_random_no_more_are_taken_than_there_are() {
    for seed in 0..200 {
        let mut chance = Chance::new(seed);
        let all = 1 + usize::try_from(chance.below(20)).unwrap();
        let mut slots = Slots::new(all);
        let mut taken: Vec<Lane> = Vec::new();
        for _ in 0..300 {
            let lane = Lane::ALL[usize::try_from(chance.below(5)).unwrap()];
            if chance.below(2) == 0 {
                taken.extend(slots.occupy(lane).then_some(lane));
            } else if let Some(lane) = taken.pop() {
                slots.give_back(lane);
            }
            assert!(taken.len() <= all);
        }
        taken.into_iter().for_each(|lane| slots.give_back(lane));
        assert_eq!(slots, Slots::new(all));
    }
}

#[test]
fn acquires_leave_more_slots_than_blocked_documents_can_have() {
    for all in LANES_MIN..200 {
        let of = |lane| fill(&mut Slots::new(all), lane);
        let blocked = of(Lane::BlockedAcquire) + of(Lane::BlockedCritical);
        assert!(of(Lane::Acquire) + blocked < all, "{all}");
    }
}

#[test]
fn two_lanes_are_for_commands_that_make_leases() {
    let of_acquires: Vec<Lane> = Lane::ALL.into_iter().filter(|lane| lane.is_acquire()).collect();
    assert_eq!(of_acquires, [Lane::Acquire, Lane::BlockedAcquire]);
}
