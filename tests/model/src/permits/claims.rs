//! The claims about every state of a world with permits.

use mongo_lease_core::spec::{Expiry, Holder};

use crate::claimed::{Claimed, Condition};
use crate::permits::explore::{Permitted, believes};
use crate::permits::primary::{grants_in, value_of};
use crate::permits::sights;
use crate::permits::state::{Caller, Permitting, Stage};
use crate::server::{Document, Value};

/// A claim about every state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermitClaim {
    /// The clients that believe they hold fit together.
    BelieversFit,
    /// The document names each client that believes it holds, by its grant.
    DocumentNamesBelievers,
    /// The holders in the document fit together, the expired ones included.
    HoldersFit,
    /// No call holds twice, and none holds and waits.
    OneGrantEach,
    /// A document that several hold expires with the last of its holders.
    ExpiresWithLast,
    /// Nobody is admitted before a live waiter that stands before it.
    NobodyPasses,
    /// After a release or a full attempt, the first live waiter does not fit.
    NobodySleeps,
    /// Where a release makes the lease end earlier, the first waiter is told or admitted.
    EarlierEndIsTold,
    /// Of two that do not fit together, the later holder has the greater token.
    TokensRise,
    /// When every command is answered and no client wants anything, the document names no client.
    NothingStaysBehind,
}

impl PermitClaim {
    const ALL: [PermitClaim; 10] = [
        PermitClaim::BelieversFit,
        PermitClaim::DocumentNamesBelievers,
        PermitClaim::HoldersFit,
        PermitClaim::OneGrantEach,
        PermitClaim::ExpiresWithLast,
        PermitClaim::NobodyPasses,
        PermitClaim::NobodySleeps,
        PermitClaim::EarlierEndIsTold,
        PermitClaim::TokensRise,
        PermitClaim::NothingStaysBehind,
    ];

    /// Its name in the reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            PermitClaim::BelieversFit => "those who believe that they hold fit together",
            PermitClaim::DocumentNamesBelievers => "the document names each who believes",
            PermitClaim::HoldersFit => "the holders in the document fit together",
            PermitClaim::OneGrantEach => "no call holds twice, or holds and waits",
            PermitClaim::ExpiresWithLast => "the document expires with its last holder",
            PermitClaim::NobodyPasses => "nobody is admitted before a live waiter",
            PermitClaim::NobodySleeps => "no first waiter that fits is left waiting",
            PermitClaim::EarlierEndIsTold => "the first waiter is told of an earlier end",
            PermitClaim::TokensRise => "tokens rise where holders exclude each other",
            PermitClaim::NothingStaysBehind => "nothing stays behind",
        }
    }

    fn condition(self) -> fn(&Permitted, &Permitting) -> bool {
        match self {
            PermitClaim::BelieversFit => |model, world| model.bounds.fit(believers(model, world)),
            PermitClaim::DocumentNamesBelievers => document_names_believers,
            PermitClaim::HoldersFit => |model, world| {
                let holders = sharers(world).map(|holder| usize::from(holder.grant.value.0));
                model.bounds.fit(holders)
            },
            PermitClaim::OneGrantEach => |_, world| one_grant_each(world),
            PermitClaim::ExpiresWithLast => |_, world| {
                let last = sharers(world).map(|holder| holder.expires_at).max();
                let expiry = world.document.as_ref().map(|document| document.expiry);
                last.is_none_or(|last| expiry == Some(Expiry::At(last)))
            },
            PermitClaim::NobodyPasses => |_, world| !world.seen.passed_over,
            PermitClaim::NobodySleeps => |_, world| !world.seen.sleeps,
            PermitClaim::EarlierEndIsTold => |_, world| !world.seen.untold,
            PermitClaim::TokensRise => |_, world| !world.seen.tokens_out_of_order,
            PermitClaim::NothingStaysBehind => |_, world| !is_quiet(world) || names_nobody(world),
        }
    }
}

fn believers<'a>(model: &'a Permitted, world: &'a Permitting) -> impl Iterator<Item = usize> + 'a {
    (0..world.clients.len()).filter(|&client| believes(&model.bounds, world, client))
}

fn document_names_believers(model: &Permitted, world: &Permitting) -> bool {
    let named = grants_in(world.document.as_ref());
    believers(model, world).all(|client| {
        let Stage::Holding(_, id, _) = &world.clients[client].stage else {
            return false;
        };
        named.contains(&(value_of(client), *id))
    })
}

fn sharers(world: &Permitting) -> impl Iterator<Item = Holder<crate::server::Small>> {
    world.document.iter().flat_map(Document::sharers)
}

fn one_grant_each(world: &Permitting) -> bool {
    let held = grants_in(world.document.as_ref());
    let mut holding: Vec<Value> = held.into_iter().map(|(value, _)| value).collect();
    let count = holding.len();
    holding.sort_unstable();
    holding.dedup();
    let waits = |value: &Value| {
        let queue = world.document.as_ref().map(|document| &document.queue);
        queue.is_some_and(|queue| queue.position(value).is_some())
    };
    holding.len() == count && !holding.iter().any(waits)
}

/// Whether every command is answered, and no client wants anything.
fn is_quiet(world: &Permitting) -> bool {
    let wants_nothing = |caller: &Caller| match caller.stage {
        Stage::Acquiring => caller.started == 0,
        Stage::Ended => true,
        Stage::Holding(..) | Stage::Crashed => false,
    };
    let nothing_under_way = world.orders.is_empty() && world.answers.is_empty();
    nothing_under_way && world.clients.iter().all(wants_nothing)
}

fn names_nobody(world: &Permitting) -> bool {
    let waiting = world.document.iter().flat_map(|document| document.queue.entries());
    grants_in(world.document.as_ref()).is_empty() && waiting.count() == 0
}

impl Claimed for Permitted {
    fn claims(&self) -> Vec<Condition<Permitted>> {
        let claims = PermitClaim::ALL.into_iter();
        claims.map(|claim| (claim.name(), claim.condition())).collect()
    }

    fn sights(&self) -> Vec<Condition<Permitted>> {
        sights::all(&self.bounds)
    }
}
