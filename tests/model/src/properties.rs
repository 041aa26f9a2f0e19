//! What is claimed of every state, and what must be seen in some.

use stateright::Property;

use crate::bounds::{Bounds, Clocks};
use crate::explore::Explored;
use crate::server::Which;
use crate::state::{Client, Does, Held, Says, Stage, World};

/// A claim about every state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// At most one client believes that it holds. Only where clocks keep their bounds.
    OneBelieves,
    /// Who believes is the one whom the document names. Only where clocks keep their bounds.
    DocumentNamesBeliever,
    /// Tokens rise strictly in the order of grants of distinct callers.
    TokensRise,
    /// A release, or a giving back, never deletes another's lease.
    ReleasesOnlyOwn,
    /// Nothing is given back in which its holder believes.
    KeepsWhatIsHeld,
    /// A lease that was not valid once never is again.
    LossIsFinal,
    /// A guarded transaction commits only if nobody else has been granted the lease since.
    LoserCannotCommit,
    /// When all is answered and nobody wants anything, nothing is held.
    NothingStaysBehind,
}

impl Claim {
    /// Its name in the reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Claim::OneBelieves => "at most one believes that it holds",
            Claim::DocumentNamesBeliever => "who believes is whom the document names",
            Claim::TokensRise => "tokens rise in the order of grants",
            Claim::ReleasesOnlyOwn => "a release never deletes another's lease",
            Claim::KeepsWhatIsHeld => "nothing is given back that is held",
            Claim::LossIsFinal => "loss is final",
            Claim::LoserCannotCommit => "who has lost cannot commit",
            Claim::NothingStaysBehind => "nothing stays behind",
        }
    }

    fn condition(self) -> fn(&Explored, &World) -> bool {
        match self {
            Claim::OneBelieves => |model, world| believers(&model.bounds, world).count() <= 1,
            Claim::DocumentNamesBeliever => {
                |model, world| believers(&model.bounds, world).all(|client| is_named(world, client))
            }
            Claim::TokensRise => |_, world| !world.wrongs.tokens_out_of_order,
            Claim::ReleasesOnlyOwn => |_, world| !world.wrongs.released_anothers,
            Claim::KeepsWhatIsHeld => |_, world| !world.wrongs.released_what_is_held,
            Claim::LossIsFinal => |_, world| !world.wrongs.valid_again,
            Claim::LoserCannotCommit => |_, world| !world.wrongs.committed_after_loss,
            Claim::NothingStaysBehind => |_, world| !is_quiet(world) || nothing_held(world),
        }
    }
}

impl Client {
    pub(crate) fn held(&self) -> Option<&Held> {
        match &self.stage {
            Stage::Holding(held) => Some(held),
            Stage::Asking | Stage::Releasing(_) | Stage::Ended | Stage::Crashed => None,
        }
    }
}

/// Whether a client believes, by its own clock, that it holds.
pub(crate) fn believes(bounds: &Bounds, world: &World, client: usize) -> bool {
    let now = bounds.clock(client, world.tick);
    world.clients[client].held().is_some_and(|held| held.holder.is_valid(now))
}

fn believers(bounds: &Bounds, world: &World) -> impl Iterator<Item = usize> {
    (0..world.clients.len()).filter(move |&client| believes(bounds, world, client))
}

fn is_named(world: &World, client: usize) -> bool {
    let named = world.server.document.and_then(|document| document.holders_grant());
    named.is_some() && named == world.clients[client].held().map(|held| held.id)
}

/// Everything is answered, and nobody wants anything.
fn is_quiet(world: &World) -> bool {
    let wants_nothing = |client: &Client| match client.stage {
        Stage::Asking => client.started == 0,
        Stage::Ended => true,
        Stage::Holding(_) | Stage::Releasing(_) | Stage::Crashed => false,
    };
    let nothing_under_way = world.commands.is_empty() && world.replies.is_empty();
    nothing_under_way && world.transaction.is_none() && world.clients.iter().all(wants_nothing)
}

fn nothing_held(world: &World) -> bool {
    let value = world.server.document.and_then(|document| document.value);
    value.is_none_or(|value| usize::from(value.0) >= world.clients.len())
}

/// The claims that are made of a world.
pub(crate) fn claims(bounds: &Bounds) -> Vec<Claim> {
    let mut claims = vec![
        Claim::TokensRise,
        Claim::ReleasesOnlyOwn,
        Claim::LossIsFinal,
        Claim::LoserCannotCommit,
    ];
    if matches!(bounds.clocks, Clocks::Bounded { .. }) {
        claims.extend([Claim::OneBelieves, Claim::DocumentNamesBeliever, Claim::KeepsWhatIsHeld]);
    }
    if bounds.leaves_nothing {
        claims.push(Claim::NothingStaysBehind);
    }
    claims
}

/// All properties: the claims, and what must be seen, or the claims would say nothing.
pub(crate) fn all(bounds: &Bounds) -> Vec<Property<Explored>> {
    let always = |claim: Claim| Property::always(claim.name(), claim.condition());
    let mut properties: Vec<_> = claims(bounds).into_iter().map(always).collect();
    properties.extend(seen(bounds));
    properties
}

fn seen(bounds: &Bounds) -> Vec<Property<Explored>> {
    let mut seen = vec![
        Property::sometimes("somebody is granted", |_, world: &World| {
            world.clients.iter().any(|client| client.held().is_some())
        }),
        Property::sometimes("it is granted to another after the first", |_, world: &World| {
            world.handed.len() > 1
        }),
        Property::sometimes("something is given back", |_, world: &World| {
            let gives_back = |does: &Does| matches!(does, Does::Release { which: Which::Call(..) });
            world.commands.iter().any(|command| gives_back(&command.does))
        }),
    ];
    let is_bounded = matches!(bounds.clocks, Clocks::Bounded { .. });
    if is_bounded {
        seen.push(Property::sometimes(
            "one has lost and another holds",
            |model: &Explored, world: &World| {
                let holds = believers(&model.bounds, world).count() > 0;
                let is_lost = |client: usize| !believes(&model.bounds, world, client);
                let mut clients = world.clients.iter().enumerate();
                holds && clients.any(|(number, client)| client.held().is_some() && is_lost(number))
            },
        ));
    }
    if is_bounded && bounds.clients.iter().any(|client| client.renewals > 0) {
        seen.push(Property::sometimes(
            "a renewal is confirmed",
            |model: &Explored, world: &World| {
                let validity = model.bounds.timing().validity();
                let is_renewed = |(number, client): (usize, &Client)| {
                    client.held().is_some_and(|held| {
                        let granted = model.bounds.clock(number, held.sent).after(validity);
                        held.holder.renewed_until() > granted
                    })
                };
                world.clients.iter().enumerate().any(is_renewed)
            },
        ));
    }
    if bounds.clients.iter().any(|client| client.guards > 0) {
        seen.push(Property::sometimes("a guard passes", |_, world: &World| {
            world.transaction.is_some()
        }));
        seen.push(Property::sometimes("a guard is refused", |_, world: &World| {
            world.replies.iter().any(|reply| reply.says == Says::NotGuarded)
        }));
    }
    seen
}
