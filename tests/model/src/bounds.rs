//! Bounds of a world: how large it is explored, and which deliberate mistake it contains.

use std::time::Duration;

use mongo_lease_core::rules::holder::HoldOptions;
use mongo_lease_core::rules::time::Instant;
use mongo_lease_core::rules::timing::Timing;

use crate::server::Off;

/// A tick of the world's clock, in milliseconds, the unit of the rules.
pub(crate) const TICK_MS: u64 = 100;
/// The ttl, in ticks.
pub(crate) const TTL: i64 = 3;
/// The maximum clock skew, in ticks.
pub(crate) const MAX_CLOCK_SKEW: i64 = 1;
/// How long a queue entry lives after a heartbeat, in ticks.
pub(crate) const LIFE: i64 = 2;
/// How long the first waiter waits before it sends another attempt without a stream event, in ticks.
pub(crate) const POLL: i64 = 1;
/// The milliseconds that a client's correct clock counts in a tick.
pub const RATE_EXACT: u64 = TICK_MS;
/// The slowest clock that the margin covers: 1% slow.
pub const RATE_SLOW: u64 = TICK_MS - 1;

/// A world: its clients, its clocks, and what may happen to it.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// The clients. Each makes one acquire call, with a value of its own.
    pub clients: Vec<ClientBounds>,
    /// How clocks go.
    pub clocks: Clocks,
    /// Whether a client may be told that a connection broke while its command has yet to be carried out.
    pub breaks_early: bool,
    /// Whether a client may crash.
    pub crashes: bool,
    /// Whether a foreign program (the usual hand-written lock) may acquire the lease once, and release it.
    pub foreigner: bool,
    /// How often the primary may be lost before other members have its writes.
    pub rollbacks: u8,
    /// Whether the world claims that nothing is left at its end. Not claimed where a client crashes, or where a client
    /// is told that a connection broke while its command goes on.
    pub leaves_nothing: bool,
    /// The state in which the world begins.
    pub begins: Begins,
    /// How often a change stream may break, and lose the events that it has not delivered yet.
    pub broken_streams: u8,
    /// Whether a waiting call may be dropped at any moment, and not only at its deadline.
    pub drops: bool,
    /// Whether each write after a promotion reaches the stream as the whole document, and so repeats the promotion.
    pub replaces: bool,
    /// Whether all that can be done is done before time advances.
    pub is_prompt: bool,
    /// How often an answer may be lost. `None`: any number of times.
    pub losses: Option<u8>,
    /// The most entries of the queue.
    pub max_waiting: u32,
    /// How long a waiter waits at most before it sends another attempt, in ticks.
    pub recheck_every: i64,
    /// Which command a call's first attempt is.
    pub first: First,
    /// Whether a guard may be the last operation of its transaction. Otherwise each is the first.
    pub guards_last: bool,
    /// Whether a release makes a tombstone. Otherwise it deletes.
    pub tombstones: bool,
    /// How many batches may be cut off. A document that somebody's transaction blocks delays all later statements of
    /// the batch until the command's time limit.
    pub cuts: u8,
    /// When a lease that is gone after its release was cut off counts as released: the moment at which it had to be
    /// valid.
    pub judges: Judges,
    /// Whether the primary answers before a majority has the write, and a read confirms it.
    pub confirms: bool,
    /// How often another program may damage the numbers of the grant.
    pub damages: u8,
    /// Whether it damages the expiry in place of the numbers.
    pub damages_expiry: bool,
    /// The deliberate mistake, if any.
    pub variant: Variant,
}

/// Which command a call's first attempt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// A slow acquire, as all later attempts are.
    Whole,
    /// A fast-path acquire: it grants a free lease without a queue, and else changes nothing.
    Short,
    /// A fast-path acquire in a batch with other calls' attempts. Its writes go on behind this one's, the reply
    /// contains the time of the last one, and a query behind it reads whether the lease was granted.
    Together,
}

/// When a caller checks by its own clock whether a lease that is gone was valid until its release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judges {
    /// When its release is first sent.
    WhenSent,
    /// When the query is answered.
    WhenAnswered,
}

/// The bounds of one client.
#[derive(Clone, Copy, Debug)]
pub struct ClientBounds {
    /// The most attempts of its call.
    pub attempts: u8,
    /// The most renewals.
    pub renewals: u8,
    /// The most guarded transactions.
    pub guards: u8,
    /// Whether it may wait for the answer to its release. Otherwise it drops its lease.
    pub releases: bool,
    /// How many milliseconds its clock counts in a tick.
    pub rate: u64,
    /// How it waits in the queue. `None`: it makes attempts and does not wait.
    pub waits: Option<Waits>,
}

/// How a client waits in the queue.
#[derive(Clone, Copy, Debug)]
pub struct Waits {
    /// How long it waits, in ticks.
    pub ticks: i64,
    /// The most heartbeats, beside those that its attempts imply.
    pub beats: u8,
    /// The call before it in the local queue of the same process.
    pub follows: Option<usize>,
}

/// The state in which a world begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begins {
    /// The collection is empty.
    Empty,
    /// The first client holds the lease.
    Held,
    /// The first client holds the lease, and the waiters have joined the queue in their order.
    InLine,
}

/// How clocks go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clocks {
    /// Within the stated bounds: `ticks` long, with members' clocks at most `skew` apart.
    Bounded {
        /// After this many ticks time stands still.
        ticks: i64,
        /// How far a member's clock may be ahead of another's, in ticks.
        skew: i64,
    },
    /// Without bounds: clients' clocks stand still, the server's clock shows anything at any time, and operators delete
    /// leases while they are held.
    Unbounded,
}

/// A deliberate mistake. The search must find each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Nothing: the protocol as it is built.
    AsBuilt,
    /// A renewal overwrites the expiry.
    PlainSetInRenewal,
    /// A renewal prolongs for the ttl in the document.
    RenewalForStoredTtl,
    /// A repeated acquire overwrites the expiry.
    PlainSetInRepeatedAcquire,
    /// Validity counts from when the reply comes.
    ValidityFromReply,
    /// The server answers a repeated command from its stored result, with its newest time.
    RetriedToken,
    /// Two calls use one value.
    ValueUsedTwice,
    /// The guard matches name and value, whatever the grant.
    GuardWithoutGrantId,
    /// The guard changes nothing, so that a take-over does not conflict with it.
    GuardThatWritesNothing,
    /// A transaction is committed without a guard.
    CommitWithoutGuard,
    /// The guard follows the commit, in a transaction of its own.
    GuardAfterCommit,
    /// A commit without an answer is repeated with its guard, as a transaction of its own.
    GuardWithRepeatedCommit,
    /// A transaction holds renewals back for as long as it is open.
    HeldBackForEver,
    /// Writes are acknowledged before a majority has them.
    AcknowledgedByOne,
    /// The read that confirms a write shows what the primary alone has.
    ConfirmedByPrimary,
    /// The read that confirms a write shows the id of the grant, whatever the echo.
    ConfirmedWithoutEcho,
    /// A release matches the name alone.
    ReleaseByName,
    /// A grant to a late attempt, made while the lease was held, is forgotten when the lease ends.
    LateGrantForgotten,
    /// A lease is given back and its call is not told: a later grant to another attempt then stays.
    CallNotSettled,
    /// A renewal that is confirmed after the loss brings the lease back.
    LossRevoked,
    /// An attempt without an answer is given back at once, also while its caller holds.
    GivenBackAtOnce,
    /// A renewal matches the value, whatever the grant.
    RenewalWithoutGrantId,
    /// A promoted waiter takes the promotion for a grant to its newest attempt.
    PromotionWithoutGrantId,
    /// A promotion is valid from when the client hears of it.
    PromotionFromHearing,
    /// A promotion is valid for the waiter's own term, whatever the server made of its entry.
    PromotionForOwnTerm,
    /// A promotion counts from `$$NOW`, also where that is older than the newest heartbeat.
    PromotionFromNow,
    /// A take-over by a waiter counts from `$$NOW` in the same way.
    TakeOverFromNow,
    /// A heartbeat overwrites the time from which the entry counts, and keeps the newest echo.
    PlainBeatAt,
    /// A heartbeat overwrites the time until which the entry lives.
    PlainLife,
    /// A newcomer is granted a free lease although others wait.
    Barging,
    /// A release that finds no live waiter leaves the lease as it is.
    FreesNothing,
    /// A waiter that leaves the queue only removes its entry, and does not end its lease.
    LeaverEndsNothing,
    /// A waiter that left the queue does not leave again when a late attempt has added its entry anew.
    LeavesOnce,
    /// A repeated attempt moves its entry to the end of the queue.
    AskedAgainAtTheEnd,
    /// A release ends a lease whose document is damaged.
    DamagedReleased,
    /// The last waiter is promoted.
    LastPromoted,
    /// A late attempt is admitted as if its caller's own lease were free.
    OwnLeaseIsFree,
    /// A waiter without an event waits until there is one, also past the end of the lease.
    WaitsToBeTold,
    /// No waiter is told that a stream has broken.
    BrokenStreamUnnoticed,
    /// A batched fast-path acquire is believed without the query behind it.
    TakenWithoutLook,
    /// The query behind a batched fast-path acquire does not have to see that command's own writes.
    LookBefore,
    /// The look after a batch takes a grant of another attempt of the call, which may be carried out later.
    TakenFromOtherAttempt,
    /// A tombstone has expired, and still names the holder.
    TombstoneAsItWas,
    /// A grant that a piece of a batch finds is valid from the sending of the piece.
    ValidityFromPiece,
    /// A piece of a batch has the identity of the attempt that was cut off.
    PieceWithOldId,
    /// A batch that is cut off is answered before it is over, and goes on.
    CutOffGoesOn,
    /// A lease that is gone after its release was cut off counts as released, whether it was valid or not.
    GoneIsReleased,
    /// A caller that is to check when the query is answered checks when its release is sent.
    JudgedWhenSent,
    /// A lease that still stands after a batch of releases was cut off is not released again.
    CutOffForgotten,
}

impl Variant {
    /// Whether a waiter relies on a promotion for its own term, whatever its expiry is. Each of the others is a mistake
    /// beside that: the expiry alone would make up for it.
    pub(crate) fn trusts_promotions(self) -> bool {
        matches!(
            self,
            Variant::PromotionForOwnTerm
                | Variant::PromotionFromHearing
                | Variant::PromotionFromNow
                | Variant::PlainBeatAt
        )
    }
}

impl Bounds {
    pub(crate) fn skew(&self) -> i64 {
        match self.clocks {
            Clocks::Bounded { skew, .. } => skew,
            Clocks::Unbounded => 0,
        }
    }

    /// A client's own clock. Each starts at another time, and they are never compared.
    pub(crate) fn clock(&self, client: usize, tick: i64) -> Instant {
        const MS: u64 = 1_000_000;
        let offset = 1_000 * (client as u64 + 1);
        let ticks = u64::try_from(tick).unwrap_or(0);
        Instant::from_nanos((offset + ticks * self.clients[client].rate) * MS)
    }

    /// The library's own timing for this ttl and this maximum clock skew.
    pub(crate) fn timing(&self) -> Timing {
        match Timing::new(Bounds::ticks(TTL), Bounds::ticks(MAX_CLOCK_SKEW), None) {
            Ok(timing) => timing,
            Err(defect) => unreachable!("the model's timing: {defect:?}"),
        }
    }

    /// The protections of the commands that this mistake switches off.
    pub(crate) fn protections(&self) -> Off {
        let is = |variant| self.variant == variant;
        Off {
            renewed: is(Variant::PlainSetInRenewal),
            renewed_for: is(Variant::RenewalForStoredTtl),
            granted_again: is(Variant::PlainSetInRepeatedAcquire),
            heartbeat_at: is(Variant::PlainBeatAt),
            entry_expires_at: is(Variant::PlainLife),
            promoted_from: is(Variant::PromotionFromNow),
            taken_over_from: is(Variant::TakeOverFromNow),
            order: is(Variant::Barging),
            may_write: is(Variant::DamagedReleased),
            frees: is(Variant::FreesNothing),
            leaver_ends: is(Variant::LeaverEndsNothing),
            position: is(Variant::AskedAgainAtTheEnd),
            in_order: is(Variant::LastPromoted),
            own_lease: is(Variant::OwnLeaseIsFree),
            empties_tombstones: is(Variant::TombstoneAsItWas),
        }
    }

    /// Whether a transaction that has not guarded yet may be committed.
    pub(crate) fn commits_unguarded(&self) -> bool {
        matches!(self.variant, Variant::CommitWithoutGuard | Variant::GuardAfterCommit)
    }

    /// Whether any client of this world waits in the queue.
    pub(crate) fn has_line(&self) -> bool {
        self.clients.iter().any(|client| client.waits.is_some())
    }

    /// Whether anything reads the sending time of a grant.
    pub(crate) fn reads_sent(&self) -> bool {
        self.cuts > 0 || self.confirms
    }

    /// `count` ticks as a duration.
    pub(crate) fn ticks(count: i64) -> Duration {
        Duration::from_millis(TICK_MS * u64::try_from(count).unwrap_or(0))
    }

    /// The time that a server's clock shows at this tick, in milliseconds.
    pub(crate) fn server_ms(tick: i64) -> i64 {
        tick.saturating_mul(i64::try_from(TICK_MS).unwrap_or(i64::MAX))
    }

    pub(crate) fn terms() -> HoldOptions {
        HoldOptions { renews: true, max_hold: None }
    }
}
