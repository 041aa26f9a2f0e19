//! The sights that some state of a world must show, or its claims would say nothing.

use mongo_lease_core::spec::{Expiry, LONG_AGO};

use crate::bounds::{Bounds, ClientBounds, Clocks, First, MAX_CLOCK_SKEW, TTL};
use crate::claimed::Condition;
use crate::client::value_of;
use crate::explore::Explored;
use crate::properties::{believers, believes, is_quiet};
use crate::releases::Ending;
use crate::server::GrantMatch;
use crate::state::{Client, Does, Held, Says, Stage, World};

/// The sights that this world must show.
pub(crate) fn all(bounds: &Bounds) -> Vec<Condition<Explored>> {
    let mut seen: Vec<Condition<Explored>> = vec![
        ("somebody is granted", |_, world| {
            world.clients.iter().any(|client| client.held().is_some())
        }),
        ("it is granted to another after the first", |_, world| world.handed.len() > 1),
    ];
    let is_bounded = matches!(bounds.clocks, Clocks::Bounded { .. });
    if is_bounded && bounds.clients.iter().any(|client| client.renewals > 0) {
        seen.push(("a renewal is confirmed", renewal_is_confirmed));
    }
    if bounds.clients.iter().any(|client| client.guards > 0) {
        seen.push(("a guard passes", |_, world| world.transaction.is_some()));
        seen.push(("a guard is refused", |_, world| {
            world.replies.iter().any(|reply| reply.says == Says::NotGuarded)
        }));
    }
    if bounds.guards_last {
        seen.push(("a guard that comes last passes", |_, world| {
            let client = world.transaction.as_ref().map(|transaction| transaction.client);
            client.is_some_and(|client| world.clients[client].begun.is_some())
        }));
        seen.push(("a guard that comes last conflicts", |_, world| {
            world.replies.iter().any(|reply| reply.says == Says::Conflicted)
        }));
    }
    if bounds.first != First::Whole {
        seen.push(("the short form cannot tell", |_, world| {
            let asks_again = |says| matches!(says, Says::AskAgain { .. });
            world.replies.iter().any(|reply| asks_again(reply.says))
        }));
    }
    if bounds.damages_expiry {
        seen.push(("a damaged document is there at the end", |_, world| {
            let document = world.server.document.as_ref();
            is_quiet(world) && document.is_some_and(|it| it.expiry == Expiry::Damaged)
        }));
    }
    if bounds.damages > 0 && !bounds.damages_expiry && !bounds.has_line() {
        seen.push(("a renewal is confirmed after a damage", |model, world| {
            world.damages > 0 && renewal_is_confirmed(model, world)
        }));
    }
    if bounds.cuts > 0 {
        seen.extend(of_cuts(bounds));
    }
    if bounds.confirms {
        seen.push(("what was applied is undone", |_, world| {
            let is_undone = |does: &Does| matches!(does, Does::Confirm { is_undone: true, .. });
            world.commands.iter().any(|command| is_undone(&command.does))
        }));
        seen.push(("what was applied is confirmed after a primary was lost", |_, world| {
            world.rollbacks > 0 && world.clients.iter().any(|client| client.held().is_some())
        }));
    }
    if bounds.tombstones {
        seen.push(("a release makes a tombstone", |_, world| is_tombstone(world)));
    }
    match bounds.has_line() {
        true => seen.extend(of_lines(bounds)),
        false => seen.extend(of_attempts(grants_run_out(bounds))),
    }
    seen
}

/// Whether the world lasts until somebody else may be granted an expired lease.
fn grants_run_out(bounds: &Bounds) -> bool {
    match bounds.clocks {
        Clocks::Bounded { ticks, skew } => ticks + skew >= TTL + MAX_CLOCK_SKEW,
        Clocks::Unbounded => false,
    }
}

fn of_cuts(bounds: &Bounds) -> Vec<Condition<Explored>> {
    let mut seen: Vec<Condition<Explored>> = Vec::new();
    if bounds.first == First::Together {
        seen.push(("what was granted before the batch was cut off is taken", |_, world| {
            let first = |held: &Held| held.id.attempt == 1;
            world.cuts > 0 && world.clients.iter().any(|client| client.held().is_some_and(first))
        }));
        seen.push(("what a piece was granted is taken", |_, world| {
            let piece = |held: &Held| held.id.attempt > 10;
            world.clients.iter().any(|client| client.held().is_some_and(piece))
        }));
        return seen;
    }
    seen.push(("a release was cut off, and the lease is gone", |_, world| {
        world.replies.iter().any(|reply| reply.says == Says::Gone)
    }));
    if bounds.cuts < 2 {
        return seen;
    }
    seen.push(("a release is cut off twice", |_, world| {
        let looks = |does: &Does| matches!(does, Does::LookAtEnded { .. });
        world.cuts > 1 && world.commands.iter().any(|command| looks(&command.does))
    }));
    seen
}

fn is_tombstone(world: &World) -> bool {
    world.server.document.as_ref().is_some_and(|it| it.expiry == Expiry::At(LONG_AGO))
}

fn of_attempts(grants_run_out: bool) -> Vec<Condition<Explored>> {
    let mut seen: Vec<Condition<Explored>> = vec![("something is given back", |_, world| {
        let gives_back =
            |does: &Does| matches!(does, Does::End { which: GrantMatch::Call { .. }, .. });
        world.commands.iter().any(|command| gives_back(&command.does))
    })];
    if grants_run_out {
        seen.push(("one has lost and another holds", |model, world| {
            let holds = believers(&model.bounds, world).count() > 0;
            let is_lost = |client: usize| !believes(&model.bounds, world, client);
            let mut clients = world.clients.iter().enumerate();
            holds && clients.any(|(number, client)| client.held().is_some() && is_lost(number))
        }));
    }
    seen
}

fn of_lines(bounds: &Bounds) -> Vec<Condition<Explored>> {
    let mut seen: Vec<Condition<Explored>> = Vec::new();
    if bounds.max_waiting == 1 {
        seen.push(("the queue is full", |_, world| {
            let is_full = |says| matches!(says, Says::Refused { ahead: None, .. });
            world.replies.iter().any(|reply| is_full(reply.says))
        }));
        return seen;
    }
    seen.push(("a promotion is taken", |_, world| {
        world.clients.iter().any(|client| client.held().is_some_and(|held| held.was_promoted))
    }));
    if bounds.damages > 0 {
        seen.push(("who was promoted holds after a damage", |_, world| {
            let was_promoted =
                |client: &Client| client.held().is_some_and(|held| held.was_promoted);
            world.damages > 0 && world.clients.iter().any(was_promoted)
        }));
    }
    let asks_again = |client: &ClientBounds| client.waits.is_some() && client.attempts > 1;
    if !bounds.clients.iter().any(asks_again) {
        return seen;
    }
    if has_rivals(bounds) && grants_run_out(bounds) && !bounds.is_prompt {
        // It calls the first of those before it.
        seen.push(("another's attempt finds the lease free", |_, world| {
            let is_free = |says| {
                matches!(says, Says::Refused { ahead: Some(1..), remaining: Some(..=0), .. })
            };
            world.replies.iter().any(|reply| is_free(reply.says))
        }));
    }
    seen.push(("who waits asks, and is granted", |model, world| {
        world.clients.iter().zip(&model.bounds.clients).any(|(client, bounds)| {
            let was_granted = client.held().is_some_and(|held| !held.was_promoted);
            was_granted && bounds.waits.is_some() && client.started > 1
        })
    }));
    let some_end = bounds.clients.iter().any(|client| client.waits.is_some_and(|it| it.ticks < 10));
    if bounds.drops || some_end && !bounds.is_prompt {
        seen.push(("who gives up was promoted meanwhile", |model, world| {
            world.commands.iter().any(|command| {
                let by = Ending::HELD_OR_QUEUED;
                let leaves = matches!(command.does, Does::End { by: it, .. } if it == by);
                leaves && holds_by_document(model, world, command.client)
            })
        }));
    }
    seen.extend(of_mishaps(bounds));
    seen
}

/// Whether a waiter that keeps its entry has another behind it that sends an attempt of its own.
fn has_rivals(bounds: &Bounds) -> bool {
    let keeps = |client: &ClientBounds| client.waits.is_some_and(|waits| waits.beats > 0);
    let asks = |client: &ClientBounds| {
        client.waits.is_some_and(|waits| waits.follows.is_none()) && client.attempts > 1
    };
    let first = bounds.clients.iter().position(keeps);
    first.is_some_and(|first| bounds.clients[first + 1..].iter().any(asks))
}

fn of_mishaps(bounds: &Bounds) -> Vec<Condition<Explored>> {
    let mut seen: Vec<Condition<Explored>> = Vec::new();
    if bounds.crashes {
        seen.push(("one that has died is passed over", |model, world| {
            let was_promoted =
                |client: &Client| client.held().is_some_and(|held| held.was_promoted);
            let never_held =
                |number: usize| world.handed.iter().all(|handed| handed.client != number);
            let waited = |number: usize| model.bounds.clients[number].waits.is_some();
            let has_died = |number: usize| world.clients[number].stage == Stage::Crashed;
            let taken = world.clients.iter().position(was_promoted);
            taken.is_some_and(|taken| {
                (0..taken).any(|number| waited(number) && has_died(number) && never_held(number))
            })
        }));
    }
    if bounds.broken_streams > 0 {
        seen.push(("who was promoted is not told", |model, world| {
            world.clients.iter().enumerate().any(|(number, client)| {
                let is_deaf = client.line.as_ref().is_some_and(|line| line.has_no_stream);
                is_deaf && holds_by_document(model, world, number)
            })
        }));
    }
    if bounds.clients.iter().any(|client| client.waits.is_some_and(|it| it.follows.is_some())) {
        seen.push(("a place is left to the next one", |_, world| {
            world.clients.iter().any(|client| client.stage == Stage::Bequeathed)
        }));
        seen.push(("who has left its place is promoted", |model, world| {
            let is_left = |number: &usize| world.clients[*number].stage == Stage::Bequeathed;
            let mut left = (0..world.clients.len()).filter(is_left);
            left.any(|number| holds_by_document(model, world, number))
        }));
    }
    seen
}

fn holds_by_document(model: &Explored, world: &World, client: usize) -> bool {
    let value = world.server.document.as_ref().and_then(|document| document.value);
    value == Some(value_of(&model.bounds, client))
}

fn renewal_is_confirmed(model: &Explored, world: &World) -> bool {
    let validity = model.bounds.timing().validity();
    let is_renewed = |(number, client): (usize, &Client)| {
        client.held().is_some_and(|held| {
            let granted = model.bounds.clock(number, held.sent).after(validity);
            held.holder.renewed_until() > granted
        })
    };
    world.clients.iter().enumerate().any(is_renewed)
}
