//! How large a world is explored, and what is wrong in it on purpose.

use std::time::Duration;

use crate::rules::holder::HoldOptions;
use crate::rules::time::Instant;
use crate::rules::timing::Timing;
use crate::server::{Build, Write};

/// A tick of the world's clock, in the milliseconds that the rules count.
pub(crate) const TICK_MS: u64 = 100;
/// The ttl, in ticks.
pub(crate) const TTL: i64 = 3;
/// The maximum clock skew, in ticks.
pub(crate) const MAX_CLOCK_SKEW: i64 = 1;
/// How long an entry in line counts after a sign of life, in ticks.
pub(crate) const LIFE: i64 = 2;
/// After how long the first in line looks again where no stream tells, in ticks.
pub(crate) const POLL: i64 = 1;
/// How a client's clock that goes as it should counts a tick.
pub const RATE_EXACT: u64 = TICK_MS;
/// The slowest clock that the margin covers: one in a hundred.
pub const RATE_SLOW: u64 = TICK_MS - 1;

/// A world: its clients, its clocks, and what may happen to it.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Each of them makes one acquire call, with a value of its own.
    pub clients: Vec<ClientBounds>,
    /// How clocks go.
    pub clocks: Clocks,
    /// Whether a client may be told that a connection broke while its command has yet to be carried out.
    pub breaks_early: bool,
    /// Whether a client may crash.
    pub crashes: bool,
    /// Whether a program with the usual recipe may take the lease once, and give it up.
    pub foreigner: bool,
    /// How often the primary may be lost before others have what it wrote.
    pub rollbacks: u8,
    /// Whether it is a claim that nothing stays behind. Not where a client crashes, or is told that a connection broke
    /// whose command goes on.
    pub leaves_nothing: bool,
    /// How far the world has come when it begins.
    pub begins: Begins,
    /// How often a change stream may break, with what it has not told yet.
    pub broken_streams: u8,
    /// Whether a call that waits may be dropped at any moment, and not at its deadline alone.
    pub drops: bool,
    /// Whether each write after a promotion comes to the stream as the whole document, and tells of it again.
    pub replaces: bool,
    /// Whether all that can be done is done before time goes on.
    pub is_prompt: bool,
    /// How often an answer may be lost. Nothing: any number of times.
    pub losses: Option<u8>,
    /// The most entries of the queue.
    pub queue_max: usize,
    /// After what time who waits asks again in any case, in ticks.
    pub poll_floor: i64,
    /// Of which form a call's first attempt is.
    pub first: First,
    /// Whether a release makes a tombstone. Else it deletes.
    pub tombstones: bool,
    /// How many batches may be cut off: a document that somebody's transaction holds lets none of the statements behind
    /// it through before the command's time is over.
    pub cuts: u8,
    /// Until when a lease has to have been valid that is gone after its release was cut off, to count as released.
    pub judges: Judges,
    /// What is wrong on purpose.
    pub variant: Variant,
}

/// Of which form a call's first attempt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// As all that follow it.
    Whole,
    /// Short: it grants what nobody has and nobody is in line for, and else does nothing.
    Short,
    /// Short, and in one command with other calls' attempts: its writes go on behind this one's, the reply tells the
    /// time of the last one, and a look behind it tells whether it was granted.
    Together,
}

/// When a caller judges by its own clock whether a lease that is gone was its own until its release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judges {
    /// When its release is first sent.
    WhenSent,
    /// When the look is answered.
    WhenAnswered,
}

/// What one client may do.
#[derive(Clone, Copy, Debug)]
pub struct ClientBounds {
    /// The most attempts of its call.
    pub attempts: u8,
    /// The most renewals.
    pub renewals: u8,
    /// The most guarded transactions.
    pub guards: u8,
    /// Whether it may wait for what its release is answered. Else it drops its lease.
    pub releases: bool,
    /// What its clock counts in a tick, in milliseconds.
    pub rate: u64,
    /// How it waits in line. Nothing: it asks, and does not wait.
    pub waits: Option<Waits>,
}

/// How a client waits in line.
#[derive(Clone, Copy, Debug)]
pub struct Waits {
    /// For so many ticks.
    pub ticks: i64,
    /// The most signs of life beside those that it gives by asking.
    pub beats: u8,
    /// The call of the same process that is before it in that process's own line.
    pub follows: Option<usize>,
}

/// How far a world has come when it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begins {
    /// There is nothing.
    Empty,
    /// The first client holds the lease.
    Held,
    /// The first client holds the lease, and those who wait have joined the line in their order.
    InLine,
}

/// How clocks go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clocks {
    /// Within the stated bounds: for so many ticks, with members' clocks at most so far apart.
    Bounded {
        /// After this many ticks time stands still.
        ticks: i64,
        /// How far a member's clock may be ahead of another's, in ticks.
        skew: i64,
    },
    /// Without any: clients' clocks stand still, the server's shows anything at any time, and leases are removed by
    /// operators while they are held.
    Unbounded,
}

/// What is wrong on purpose. Each must be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Nothing: the protocol as it is built.
    AsBuilt,
    /// A renewal overwrites the expiry.
    PlainSetInRenewal,
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
    /// Writes are acknowledged before a majority has them.
    AcknowledgedByOne,
    /// A release matches the name alone.
    ReleaseByName,
    /// What a late attempt was granted while the lease was held is forgotten when it ends.
    LateGrantForgotten,
    /// A lease is given back without its call being told: what a late attempt is granted then stays.
    CallNotSettled,
    /// A renewal that is confirmed after the loss brings the lease back.
    LossRevoked,
    /// An attempt of which nothing was heard is given back at once, also while its caller holds.
    GivenBackAtOnce,
    /// A renewal matches the value, whatever the grant.
    RenewalWithoutGrantId,
    /// Who is promoted takes it for a grant to its newest attempt.
    PromotionWithoutGrantId,
    /// A promotion is valid from when it is heard of.
    PromotionFromHearing,
    /// A promotion counts from `$$NOW`, also where that is older than the newest sign of life.
    PromotionFromNow,
    /// So does a take-over from the line.
    TakeOverFromNow,
    /// A sign of life overwrites since when the entry counts, and keeps the newest echo.
    PlainBeatAt,
    /// A sign of life overwrites until when the entry counts.
    PlainLife,
    /// Who comes is granted what is free, whoever waits.
    Barging,
    /// A lease that is handed on to nobody stays as it is.
    HandedOnToNobody,
    /// Who leaves the line only leaves it.
    LeaverHandsNothingOn,
    /// Who leaves the line does not do so again when a late attempt has joined it anew.
    LeavesOnce,
    /// Who asks again goes to the end of the line.
    AskedAgainAtTheEnd,
    /// The last in line is promoted.
    LastPromoted,
    /// Who is told nothing waits until it is told.
    WaitsToBeTold,
    /// Nobody is told that a stream has broken.
    BrokenStreamUnnoticed,
    /// A command with many attempts is believed without the look behind it.
    TakenWithoutLook,
    /// The look behind a command with many attempts does not have to see that command's own writes.
    LookBefore,
    /// A tombstone has expired, and is the holder's still.
    TombstoneAsItWas,
    /// What a piece of a batch finds granted is valid from the piece's sending.
    ValidityFromPiece,
    /// A piece of a batch has the identity of the attempt that was cut off.
    PieceWithOldId,
    /// A batch that is cut off is answered before it is over, and goes on.
    CutOffGoesOn,
    /// A lease that is gone after its release was cut off counts as released, whether it was valid or not.
    GoneIsReleased,
    /// A caller that is to judge when the look is answered judges when its release is sent.
    JudgedWhenSent,
    /// What stands after a batch of releases was cut off is not released again.
    CutOffForgotten,
}

impl Bounds {
    pub(crate) fn skew(&self) -> i64 {
        match self.clocks {
            Clocks::Bounded { skew, .. } => skew,
            Clocks::Unbounded => 0,
        }
    }

    /// A client's own clock. Each began somewhere else, and they are never compared.
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

    /// What of the commands is switched off.
    pub(crate) fn build(&self) -> Build {
        let is = |variant| self.variant == variant;
        let plain = |variant| if is(variant) { Write::Plain } else { Write::Max };
        Build {
            again: plain(Variant::PlainSetInRepeatedAcquire),
            heartbeat: (plain(Variant::PlainBeatAt), plain(Variant::PlainLife)),
            promotes_from_beat: !is(Variant::PromotionFromNow),
            takes_over_from_beat: !is(Variant::TakeOverFromNow),
            keeps_turns: !is(Variant::Barging),
            frees: !is(Variant::HandedOnToNobody),
            leaver_hands_on: !is(Variant::LeaverHandsNothingOn),
            keeps_places: !is(Variant::AskedAgainAtTheEnd),
            promotes_first: !is(Variant::LastPromoted),
            tombstones_are_nobodys: !is(Variant::TombstoneAsItWas),
        }
    }

    /// Whether anybody waits in line in this world.
    pub(crate) fn has_line(&self) -> bool {
        self.clients.iter().any(|client| client.waits.is_some())
    }

    /// Whether anything is read from what a grant says about its sending.
    pub(crate) fn reads_sent(&self) -> bool {
        self.cuts > 0
    }

    /// So many ticks, in the library's terms.
    pub(crate) fn ticks(count: i64) -> Duration {
        Duration::from_millis(TICK_MS * u64::try_from(count).unwrap_or(0))
    }

    pub(crate) fn terms() -> HoldOptions {
        HoldOptions { renews: true, max_hold: None }
    }
}
