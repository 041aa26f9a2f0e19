//! The holders and their times, on the machine's one clock, and the checks on them.

use std::collections::HashMap;

use crate::clock::Micros;

/// The program of a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Rust,
    Mongoose,
}

/// One holder's time.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    pub(crate) side: Side,
    pub(crate) name: String,
    /// When its call began.
    pub(crate) wanted: Micros,
    /// When it heard that it had been granted the lease.
    pub(crate) from: Micros,
    /// When it began to release, or when its validity ended.
    pub(crate) to: Micros,
    /// How many may hold while it does.
    pub(crate) limit: usize,
}

/// Pairs that held one lease at the same time, beside each other or with others more than the smallest limit of them.
pub(crate) fn two_at_once(holds: &[Hold]) -> Vec<(Hold, Hold)> {
    let mut of_name: HashMap<&str, Vec<&Hold>> = HashMap::new();
    // A holder that hears of its grant after the expiry has never held.
    for hold in holds.iter().filter(|hold| hold.from < hold.to) {
        of_name.entry(&hold.name).or_default().push(hold);
    }
    let mut found = Vec::new();
    for holds in of_name.values_mut() {
        holds.sort_by_key(|hold| hold.from);
        let mut beside: Vec<&Hold> = Vec::new();
        for hold in holds.iter().copied() {
            beside.retain(|before| before.to > hold.from);
            let limit = beside.iter().map(|before| before.limit).min().unwrap_or(usize::MAX);
            if let Some(before) = beside.first()
                && beside.len() >= limit.min(hold.limit)
            {
                found.push(((*before).clone(), hold.clone()));
            }
            beside.push(hold);
        }
    }
    found
}

/// Whether one side wanted the lease while the other held it.
pub(crate) fn is_contested(holds: &[Hold]) -> bool {
    holds.iter().any(|waited| {
        let had_it = |other: &&Hold| other.side != waited.side && other.from < waited.from;
        holds.iter().filter(had_it).any(|other| waited.wanted < other.to)
    })
}

fn hold(side: Side, [wanted, from, to]: [Micros; 3]) -> Hold {
    Hold { side, name: "a".to_owned(), wanted, from, to, limit: 1 }
}

/// A permit of two.
fn permit([from, to]: [Micros; 2]) -> Hold {
    Hold { limit: 2, ..hold(Side::Rust, [0, from, to]) }
}

#[test]
fn the_judge_lets_permits_hold_together_and_beside_no_lock() {
    let lock = hold(Side::Mongoose, [0, 50, 60]);
    assert!(two_at_once(&[permit([10, 40]), permit([20, 50]), lock.clone()]).is_empty());
    assert_eq!(two_at_once(&[permit([10, 40]), permit([20, 51]), lock.clone()]).len(), 1);
    assert_eq!(two_at_once(&[lock, permit([59, 70])]).len(), 1);
    assert_eq!(two_at_once(&[permit([10, 40]), permit([20, 40]), permit([39, 50])]).len(), 1);
    let reader = Hold { limit: 1_000, ..permit([39, 50]) };
    assert_eq!(two_at_once(&[permit([10, 40]), permit([20, 40]), reader]).len(), 1, "the smallest");
}

#[test]
fn the_judge_finds_two_at_once_and_only_those() {
    let one = hold(Side::Rust, [0, 10, 100]);
    let at_its_end = hold(Side::Mongoose, [0, 100, 110]);
    let before_its_end = hold(Side::Mongoose, [0, 99, 110]);
    let within = hold(Side::Rust, [0, 20, 30]);
    let of_nothing = hold(Side::Mongoose, [0, 50, 40]);
    let of_another = Hold { name: "b".to_owned(), ..within.clone() };

    assert!(two_at_once(&[at_its_end, one.clone(), of_nothing, of_another]).is_empty());
    assert_eq!(two_at_once(&[before_its_end.clone(), one.clone()]).len(), 1);
    assert_eq!(two_at_once(&[before_its_end, within, one]).len(), 2, "behind a short one, too");
}

#[test]
fn a_round_is_contested_when_one_side_waited_for_the_other() {
    let first = hold(Side::Rust, [0, 10, 100]);
    let waited = hold(Side::Mongoose, [50, 105, 110]);
    let came_later = hold(Side::Mongoose, [101, 105, 110]);
    let own_side = hold(Side::Rust, [50, 105, 110]);

    assert!(is_contested(&[first.clone(), waited]));
    assert!(!is_contested(&[first.clone(), came_later]));
    assert!(!is_contested(&[first, own_side]));
}
