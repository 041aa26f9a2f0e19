//! How large a world is explored, and what is wrong in it on purpose.

use crate::rules::holder::Terms;
use crate::rules::time::Instant;
use crate::rules::timing::Timing;

/// A tick of the world's clock, in the milliseconds that the rules count.
pub(crate) const TICK_MS: u64 = 100;
/// The ttl, in ticks.
pub(crate) const TTL: i64 = 3;
/// The allowance, in ticks.
pub(crate) const ALLOWANCE: i64 = 1;
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
    /// told that it broke.
    pub leaves_nothing: bool,
    /// What is wrong on purpose.
    pub variant: Variant,
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
    /// What its clock counts in a tick, in milliseconds.
    pub rate: u64,
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

    /// The library's own timing for this ttl and this allowance.
    pub(crate) fn timing(&self) -> Timing {
        use std::time::Duration;
        let ticks = |count: i64| Duration::from_millis(TICK_MS * u64::try_from(count).unwrap_or(0));
        match Timing::new(ticks(TTL), ticks(ALLOWANCE), None) {
            Ok(timing) => timing,
            Err(defect) => unreachable!("the model's timing: {defect}"),
        }
    }

    pub(crate) fn terms() -> Terms {
        Terms { renews: true, max_hold: None }
    }
}
