//! The sights that some state of a world with permits must show, or its claims would say nothing.

use crate::claimed::Condition;
use crate::permits::bounds::{PermitBounds, TTL};
use crate::permits::explore::{Permitted, believes};
use crate::permits::state::{Caller, Permitting, Says, Stage};
use crate::primary::FOREIGNER;

/// The sights that this world must show.
pub(crate) fn all(bounds: &PermitBounds) -> Vec<Condition<Permitted>> {
    let mut seen: Vec<Condition<Permitted>> =
        vec![("one holds after another has ended", |model, world| {
            let has_held = |number: &usize| {
                let caller = &world.clients[*number];
                caller.stage == Stage::Ended && caller.token > 0
            };
            believers(model, world) > 0 && (0..world.clients.len()).any(|it| has_held(&it))
        })];
    let numbers = || 0..bounds.clients.len();
    if !bounds.fit(numbers()) {
        seen.push(("a waiter is admitted by another's command", |_, world| admitted(world, 1)));
    }
    let fit = |one: usize, other: usize| one != other && bounds.fit([one, other]);
    if numbers().any(|one| numbers().any(|other| fit(one, other))) {
        seen.push(("two hold at once", |model, world| believers(model, world) >= 2));
    }
    // The release of one client makes room for two others.
    let excludes_pair = |one: usize| {
        let blocked = |other: usize| other != one && !bounds.fit([one, other]);
        numbers()
            .any(|other| blocked(other) && numbers().any(|third| third != one && fit(other, third)))
    };
    if numbers().any(excludes_pair) {
        seen.push(("one write admits two", |_, world| admitted(world, 2)));
    }
    // A waiter outlives a grant that was made before it joined.
    if bounds.waiter_ttl >= TTL && numbers().len() > 2 {
        seen.push(("a waiter is admitted by another's attempt", |_, world| {
            let has_left = |caller: &Caller| caller.stage == Stage::Ended;
            admitted(world, 1) && !world.clients.iter().any(has_left)
        }));
    }
    if bounds.renewals > 0 {
        seen.push(("a renewal is confirmed", |_, world| {
            world.answers.iter().any(|it| matches!(it.says, Says::Renewed { matched: true, .. }))
        }));
    }
    if bounds.ticks > TTL {
        seen.push(("one has lost and another holds", |model, world| {
            let holds = |number: usize| matches!(world.clients[number].stage, Stage::Holding(..));
            let has_lost = |number| holds(number) && !believes(&model.bounds, world, number);
            believers(model, world) > 0 && (0..world.clients.len()).any(has_lost)
        }));
    }
    if bounds.foreign_take_overs > 0 {
        seen.push(("another program holds", |_, world| {
            world.document.as_ref().is_some_and(|document| document.value == Some(FOREIGNER))
        }));
    }
    seen
}

fn believers(model: &Permitted, world: &Permitting) -> usize {
    (0..world.clients.len()).filter(|&client| believes(&model.bounds, world, client)).count()
}

/// Whether one write has admitted so many waiters, which have yet to hear of it.
fn admitted(world: &Permitting, count: usize) -> bool {
    let tokens = world.answers.iter().filter_map(|answer| match answer.says {
        Says::Admitted { token, .. } => Some(token),
        Says::Granted { .. } | Says::Refused { .. } | Says::Renewed { .. } => None,
    });
    let tokens: Vec<_> = tokens.collect();
    tokens.iter().any(|token| tokens.iter().filter(|other| *other == token).count() >= count)
}
