//! The claims about every state, and the sights that a world must show.

use mongo_lease_core::rules::waiter::{WaitAction, WaitEvent};
use mongo_lease_core::spec::{Expiry, LONG_AGO};

use crate::bounds::{Bounds, Clocks, Judges, LIFE, MAX_CLOCK_SKEW, POLL, TTL};
use crate::claimed::{Claimed, Condition};
use crate::explore::Explored;
use crate::seen;
use crate::server::{Value, holders_grant};
use crate::state::{Client, Command, Does, Held, Reply, Says, Stage, World};

/// A claim about every state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// At most one client believes that it holds. Only where clocks keep their bounds.
    OneBelieves,
    /// Each client that believes it holds is the one that the document names. Only where clocks keep their bounds.
    DocumentNamesBeliever,
    /// Tokens rise strictly in the order of grants of distinct callers.
    TokensRise,
    /// A release, or a cleanup, never ends another's lease. A call that leaves the queue may find it expired.
    ReleasesOnlyOwn,
    /// A cleanup never gives back a grant in which its holder believes.
    KeepsWhatIsHeld,
    /// A lease that was not valid once never is again.
    LossIsFinal,
    /// A guarded transaction commits only if nobody else has been granted the lease since.
    LoserCannotCommit,
    /// No transaction is committed twice.
    CommittedOnce,
    /// A holder renews before its validity ends, also while a transaction of its is open.
    RenewedInTransaction,
    /// When every command is answered and no client wants anything, nothing is held and the queue is empty.
    NothingStaysBehind,
    /// A renewal is never confirmed after somebody else has been granted the lease.
    LoserIsNotRenewed,
    /// No caller is granted a lease for which an earlier waiter waits.
    NobodyBarges,
    /// A release promotes the first live waiter.
    FirstIsPromoted,
    /// A waiter keeps its position as long as the queue is there.
    OrderIsKept,
    /// A heartbeat never shortens the life of an entry.
    SignsCount,
    /// Each waiter has an attempt without an answer, or sends one soon.
    NobodySleeps,
    /// Where all is prompt, nobody waits long for a lease that no live client has.
    WaitsEnd,
    /// A release that says *released* was sent while the document named its lease.
    ReleasedWasHeld,
    /// A release that says *not held* has ended nothing.
    NotHeldWasNotEnded,
    /// A release that says *released* ended the grant itself, and nobody else did.
    ReleasedWasEnded,
    /// Nothing is written to a document whose expiry is damaged.
    DamagedIsSpared,
}

impl Claim {
    /// Its name in the reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Claim::OneBelieves => "at most one believes that it holds",
            Claim::DocumentNamesBeliever => "who believes is whom the document names",
            Claim::TokensRise => "tokens rise in the order of grants",
            Claim::ReleasesOnlyOwn => "a release never ends another's lease",
            Claim::KeepsWhatIsHeld => "nothing is given back that is held",
            Claim::LossIsFinal => "loss is final",
            Claim::LoserCannotCommit => "who has lost cannot commit",
            Claim::CommittedOnce => "no transaction commits twice",
            Claim::RenewedInTransaction => "a holder with an open transaction renews in time",
            Claim::NothingStaysBehind => "nothing stays behind",
            Claim::LoserIsNotRenewed => "who has lost is not renewed",
            Claim::NobodyBarges => "nobody goes before who waits",
            Claim::FirstIsPromoted => "a lease is granted to the first waiter who lives",
            Claim::OrderIsKept => "the order of the line is kept",
            Claim::SignsCount => "a heartbeat shortens no waiter_ttl",
            Claim::NobodySleeps => "who waits asks again before long",
            Claim::WaitsEnd => "who lives does not wait for who has died",
            Claim::ReleasedWasHeld => "what is called released was held when the release was sent",
            Claim::NotHeldWasNotEnded => "what is called not held was not ended by the release",
            Claim::ReleasedWasEnded => "what is called released was ended by the release",
            Claim::DamagedIsSpared => "nothing is written to a damaged document",
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
            Claim::CommittedOnce => |_, world| !world.wrongs.committed_twice,
            Claim::RenewedInTransaction => renews_in_transaction,
            Claim::NothingStaysBehind => |_, world| !is_quiet(world) || nothing_held(world),
            Claim::LoserIsNotRenewed => |_, world| !world.wrongs.renewed_after_loss,
            Claim::NobodyBarges => |_, world| !world.wrongs.barged,
            Claim::FirstIsPromoted => |_, world| !world.wrongs.passed_over,
            Claim::OrderIsKept => |_, world| !world.wrongs.reordered,
            Claim::SignsCount => |_, world| !world.wrongs.shortened,
            Claim::ReleasedWasHeld => |_, world| !world.wrongs.released_unheld,
            Claim::NotHeldWasNotEnded => |_, world| !world.wrongs.ended_unsaid,
            Claim::ReleasedWasEnded => |_, world| !world.wrongs.released_unended,
            Claim::DamagedIsSpared => |_, world| !world.wrongs.wrote_damaged,
            Claim::NobodySleeps => |model, world| nobody_sleeps(&model.bounds, world),
            Claim::WaitsEnd => |model, world| {
                let since = world.idle_since;
                world.tick - since <= longest_wait(&model.bounds, world)
            },
        }
    }
}

impl Client {
    pub(crate) fn held(&self) -> Option<&Held> {
        match &self.stage {
            Stage::Holding(held) => Some(held),
            Stage::Acquiring
            | Stage::Bequeathed
            | Stage::Releasing(_)
            | Stage::Ended
            | Stage::Crashed => None,
        }
    }
}

/// Whether a client believes, by its own clock, that it holds.
pub(crate) fn believes(bounds: &Bounds, world: &World, client: usize) -> bool {
    let now = bounds.clock(client, world.tick);
    world.clients[client].held().is_some_and(|held| held.holder.is_valid(now))
}

pub(crate) fn believers(bounds: &Bounds, world: &World) -> impl Iterator<Item = usize> {
    (0..world.clients.len()).filter(move |&client| believes(bounds, world, client))
}

/// Whether each holder that has sent no renewal, and whose validity ends with this tick, has one to send. (A release
/// ends what it has to do.)
fn renews_in_transaction(model: &Explored, world: &World) -> bool {
    (0..world.clients.len()).all(|number| {
        let client = &world.clients[number];
        let ends = |held: &Held| {
            let next = model.bounds.clock(number, world.tick + 1);
            believes(&model.bounds, world, number) && !held.holder.is_valid(next)
        };
        let has_one = client.renewals < model.bounds.clients[number].renewals;
        let is_due = client.begun.is_some() && client.held().is_some_and(ends);
        client.renewals > 0 || !has_one || !is_due || model.would_act(world, number)
    })
}

fn is_named(world: &World, client: usize) -> bool {
    let named = world.server.document.as_ref().and_then(holders_grant);
    named.is_some() && named == world.clients[client].held().map(|held| held.id)
}

/// Whether every command is answered, and no client wants anything.
pub(crate) fn is_quiet(world: &World) -> bool {
    let wants_nothing = |client: &Client| match client.stage {
        Stage::Acquiring => client.started == 0,
        Stage::Ended => true,
        Stage::Bequeathed | Stage::Holding(_) | Stage::Releasing(_) | Stage::Crashed => false,
    };
    let nothing_under_way = world.commands.is_empty() && world.replies.is_empty();
    nothing_under_way && world.transaction.is_none() && world.clients.iter().all(wants_nothing)
}

fn nothing_held(world: &World) -> bool {
    let Some(document) = &world.server.document else {
        return true;
    };
    // A tombstone has expired for everybody, whatever else stands there.
    if document.expiry == Expiry::At(LONG_AGO) && document.queue.is_empty() {
        return true;
    }
    let is_clients = |value: Value| usize::from(value.0) < world.clients.len();
    !document.value.is_some_and(is_clients)
        && !document.queue.entries().any(|entry| is_clients(entry.value))
}

/// How long a waiter may wait for clients that have died.
///
/// A dead holder costs its ttl. A holder that died in the queue before the hand-off costs the life of an entry. Both
/// count with the maximum clock skew, and not less than the interval after which every waiter sends an attempt in any
/// case. A dead waiter in front costs the life of its entry. Each adds a tick, because the next attempt is sent after
/// the end.
fn longest_wait(bounds: &Bounds, world: &World) -> i64 {
    let holder = world.server.last_grant;
    let is_holder = |number: usize| holder.is_some_and(|grant| grant.client == Some(number));
    let has_taken = |number: usize| world.handed.iter().any(|handed| handed.client == number);
    let untaken = holder.is_some_and(|it| it.is_promotion && !it.client.is_some_and(has_taken));
    let died_in_line = |number: usize| {
        let has_died = world.clients[number].stage == Stage::Crashed;
        has_died && bounds.clients[number].waits.is_some() && !is_holder(number)
    };
    let term = if untaken { LIFE } else { TTL };
    let somebody_died = (0..world.clients.len()).any(died_in_line);
    let behind_it = if somebody_died { LIFE + 1 } else { 0 };
    (term + MAX_CLOCK_SKEW).max(bounds.recheck_every) + 1 + behind_it
}

/// Whether each waiter has a command under way, or has none left in this world, or has a next attempt that is no later
/// than it would be without any events.
fn nobody_sleeps(bounds: &Bounds, world: &World) -> bool {
    let is_awake = |(number, client): (usize, &Client)| {
        let (Some(line), Stage::Acquiring) = (&client.line, client.stage.clone()) else {
            return true;
        };
        if !line.stands || client.started >= bounds.clients[number].attempts {
            return true;
        }
        let is_asking = |command: &Command| {
            let asks = matches!(
                command.does,
                Does::Acquire { .. }
                    | Does::FastAcquire { .. }
                    | Does::Rest { .. }
                    | Does::LookAtTaken { .. }
            );
            command.client == number && asks
        };
        let is_answered = |reply: &Reply| {
            let is_answer = matches!(
                reply.says,
                Says::Granted { .. } | Says::Refused { .. } | Says::AskAgain { .. }
            );
            reply.client == number && is_answer
        };
        if line.asking.is_some() {
            return world.commands.iter().any(is_asking) || world.replies.iter().any(is_answered);
        }
        let now = bounds.clock(number, world.tick);
        let others = i64::try_from(bounds.clients.len()).unwrap_or(i64::MAX);
        let longest = match line.has_no_stream {
            true => POLL.saturating_mul(others),
            false => bounds.recheck_every,
        };
        match line.waiter.clone().on(&bounds.timing(), now, WaitEvent::Timer) {
            WaitAction::WakeAt(at) => at <= now.after(Bounds::ticks(longest)),
            WaitAction::Acquire | WaitAction::TakePromotion(_) | WaitAction::GiveUp => true,
        }
    };
    world.clients.iter().enumerate().all(is_awake)
}

/// The claims that are made of a world.
fn claims(bounds: &Bounds) -> Vec<Claim> {
    let mut claims = vec![
        Claim::TokensRise,
        Claim::ReleasesOnlyOwn,
        Claim::LossIsFinal,
        Claim::LoserCannotCommit,
        Claim::LoserIsNotRenewed,
    ];
    if matches!(bounds.clocks, Clocks::Bounded { .. }) {
        claims.extend([Claim::OneBelieves, Claim::DocumentNamesBeliever, Claim::KeepsWhatIsHeld]);
    }
    if bounds.has_line() && bounds.max_waiting > 1 {
        claims.extend([Claim::OrderIsKept, Claim::NobodySleeps]);
        if matches!(bounds.clocks, Clocks::Bounded { .. }) {
            claims.extend([Claim::NobodyBarges, Claim::FirstIsPromoted, Claim::SignsCount]);
        }
    }
    if bounds.clients.iter().any(|client| client.guards > 0) {
        claims.push(Claim::CommittedOnce);
    }
    if bounds.guards_last && matches!(bounds.clocks, Clocks::Bounded { .. }) {
        claims.push(Claim::RenewedInTransaction);
    }
    if bounds.damages_expiry {
        claims.push(Claim::DamagedIsSpared);
    }
    if bounds.is_prompt {
        claims.push(Claim::WaitsEnd);
    }
    if bounds.cuts > 0 {
        claims.push(Claim::NotHeldWasNotEnded);
        if matches!(bounds.clocks, Clocks::Bounded { .. }) {
            claims.push(Claim::ReleasedWasHeld);
        }
        if bounds.judges == Judges::WhenAnswered {
            claims.push(Claim::ReleasedWasEnded);
        }
    }
    if bounds.leaves_nothing {
        claims.push(Claim::NothingStaysBehind);
    }
    claims
}

impl Claimed for Explored {
    fn claims(&self) -> Vec<Condition<Explored>> {
        claims(&self.bounds).into_iter().map(|claim| (claim.name(), claim.condition())).collect()
    }

    fn sights(&self) -> Vec<Condition<Explored>> {
        seen::all(&self.bounds)
    }
}
