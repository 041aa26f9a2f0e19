//! The plan of a round: its options and its faults, made from the seed before anything runs.

use std::fmt;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// How long a round lasts until its faults are over, in milliseconds: ten minutes.
pub const ROUND_MS: u64 = 600_000;
/// The library allows for clocks of clients that are wrong by less than a hundredth.
const DRIFT_MAX: i32 = 9_500;
/// How late a majority is at most, in milliseconds.
const LATE_MAX_MS: u64 = 15_000;
/// How long there are no faults at the beginning.
const CALM_MS: u64 = 1_000;

/// The options of a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// From this everything else in the round is drawn.
    pub seed: u64,
    /// How many processes, each with one manager.
    pub processes: usize,
    /// How many calls of exclusive leases, and of permits, each makes at a time.
    pub tasks: (usize, usize),
    /// How many exclusive leases all compete for.
    pub names: u64,
    /// An option of the managers, in milliseconds.
    pub max_clock_skew_ms: u64,
    /// An option of the managers, in milliseconds.
    pub waiter_ttl_ms: u64,
    /// Every so many-th manager makes tombstones; 0: none.
    pub tombstones: usize,
    /// Every so many-th manager has no change stream; 0: none.
    pub no_stream: usize,
    /// An option of the managers.
    pub in_flight_max: usize,
    /// By how many millionths a process's clock is too fast or too slow at most.
    pub drift: i32,
    /// How far the servers' dates are off at most, either way, in milliseconds; 0: within the maximum clock skew.
    pub dates_off_ms: u64,
    /// Whether holders write in transactions.
    pub has_transactions: bool,
    /// In the order of their beginnings.
    pub faults: Vec<Fault>,
}

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// When it begins, in milliseconds of the round.
    pub at_ms: u64,
    /// How long it lasts, in milliseconds.
    pub lasts_ms: u64,
    /// Its kind.
    pub kind: Kind,
}

/// Whom a fault meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whom {
    /// Everybody.
    All,
    /// One process.
    One(usize),
}

/// The kinds of faults. Percentages are of a hundred messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The server carries out and answers nothing.
    ServerHangs,
    /// Nothing passes between these and the server; what was sent passes afterwards.
    LinkHangs(Whom),
    /// Messages are lost.
    Loss {
        /// Whose messages.
        whom: Whom,
        /// Of a hundred requests.
        requests: u64,
        /// Of a hundred replies.
        replies: u64,
    },
    /// Messages are late.
    Late {
        /// Whose messages.
        whom: Whom,
        /// By how much at most.
        by_ms: u64,
    },
    /// Requests arrive twice.
    Doubled {
        /// Whose requests.
        whom: Whom,
        /// Of a hundred requests.
        percent: u64,
    },
    /// Commands are refused as by a server that is no primary.
    Refused {
        /// Of a hundred commands.
        percent: u64,
    },
    /// There is no primary. The next one's date is ahead of the clients' clocks by a part of the most that two dates
    /// differ by: from -500 to 500 thousandths.
    Primary {
        /// In thousandths of that.
        ahead: i64,
    },
    /// No write is confirmed by a majority; some are carried out all the same.
    NoMajority {
        /// Of a hundred writes.
        carried_out: u64,
    },
    /// Commands are cut off at their time limit.
    CutOff {
        /// Of a hundred commands.
        percent: u64,
    },
    /// Of a command with several statements the first are carried out, and the connection breaks.
    Torn {
        /// Of a hundred such commands.
        percent: u64,
    },
    /// The primary has writes that no other member has, until another one takes over: all of them are undone then.
    RollBack,
    /// The same for longer, up to fifteen seconds, with a failover in the end or without one: then a majority has all
    /// of them.
    LateMajority {
        /// Whether they are undone.
        is_undone: bool,
    },
    /// Writes wait for a lock. Each counts by the server's date before that.
    Lock,
    /// Commands take long, and few are carried out at a time.
    Slow {
        /// How long a command takes: half of it at least, and one and a half at most.
        takes_ms: u64,
        /// How many at a time.
        slots: usize,
    },
    /// Change streams break.
    Cursor,
    /// A process is stopped, and goes on.
    Stop(usize),
    /// A process dies, and another one takes its place.
    Kill(usize),
    /// A manager is shut down, and another process takes its place.
    ShutDown(usize),
    /// Another program overwrites stored numbers.
    Damage,
    /// A process makes so many calls at once.
    Burst {
        /// The process.
        process: usize,
        /// How many calls.
        calls: u64,
    },
}

impl Kind {
    /// Its name in the history: the checker knows three of them, and takes the others for faults of the database.
    pub fn name(self) -> &'static str {
        use mongo_lease_checker::history::{CURSOR, KILL_WORKER, OVERLOAD};
        match self {
            Kind::ServerHangs => "server-hangs",
            Kind::LinkHangs(_) => "link-hangs",
            Kind::Loss { .. } => "loss",
            Kind::Late { .. } => "late",
            Kind::Doubled { .. } => "doubled",
            Kind::Refused { .. } => "refused",
            Kind::Primary { .. } => "primary",
            Kind::NoMajority { .. } => "no-majority",
            Kind::CutOff { .. } => "cut-off",
            Kind::Torn { .. } => "torn",
            Kind::RollBack => "roll-back",
            Kind::LateMajority { .. } => "late-majority",
            Kind::Lock => "lock",
            Kind::Slow { .. } => "slow",
            Kind::Cursor => CURSOR,
            Kind::Stop(_) => "stop",
            Kind::Kill(_) => KILL_WORKER,
            Kind::ShutDown(_) => "shut-down",
            Kind::Damage => "damage",
            Kind::Burst { .. } => OVERLOAD,
        }
    }
}

/// The time in which a process hears that its connection is broken, in milliseconds.
pub(crate) const BREAKS_MS: u64 = 4_000;
/// How late the second one of two equal requests arrives at most, in milliseconds.
pub(crate) const SECOND_MS: u64 = 3_000;
/// The time that a burst's calls take beside the fault, in milliseconds: their ttl and their wait.
const BURST_MS: u64 = 4_000;

impl Fault {
    /// When the last message that it has touched is answered or given up, in milliseconds of the round. Until then such
    /// a message occupies one of its manager's slots, which may be two.
    pub(crate) fn over_ms(&self) -> u64 {
        let under_way = match self.kind {
            Kind::Loss { .. } => BREAKS_MS,
            // A request and its reply.
            Kind::Late { by_ms, .. } => 2 * by_ms,
            Kind::Doubled { .. } => SECOND_MS,
            Kind::Slow { takes_ms, .. } => takes_ms * 3 / 2,
            Kind::Burst { .. } => BURST_MS,
            Kind::ServerHangs
            | Kind::LinkHangs(_)
            | Kind::Refused { .. }
            | Kind::Primary { .. }
            | Kind::NoMajority { .. }
            | Kind::CutOff { .. }
            | Kind::Torn { .. }
            | Kind::RollBack
            | Kind::LateMajority { .. }
            | Kind::Lock
            | Kind::Cursor
            | Kind::Stop(_)
            | Kind::Kill(_)
            | Kind::ShutDown(_)
            | Kind::Damage => 0,
        };
        self.at_ms + self.lasts_ms + under_way
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fault { at_ms, lasts_ms, kind } = self;
        let (seconds, millis) = (at_ms / 1_000, at_ms % 1_000);
        write!(formatter, "{seconds:>4}.{millis:03} s  {lasts_ms:>5} ms  {kind:?}")
    }
}

impl Plan {
    /// Whether the managers in this seat have a change stream.
    pub(crate) fn has_stream(&self, seat: usize) -> bool {
        self.no_stream == 0 || !seat.is_multiple_of(self.no_stream)
    }

    /// The plan of this seed.
    pub fn new(seed: u64) -> Plan {
        let mut random = StdRng::seed_from_u64(seed);
        let any = &mut random;
        let processes = 10;
        let mut plan = Plan {
            seed,
            processes,
            tasks: (any.random_range(1..=2), 1),
            names: any.random_range(2..=12),
            max_clock_skew_ms: if any.random_bool(0.5) { 0 } else { any.random_range(20..=1_000) },
            waiter_ttl_ms: any.random_range(1_000..=3_000),
            tombstones: any.random_range(0..=2),
            no_stream: any.random_range(0..=3) * 3,
            in_flight_max: any.random_range(2..=32),
            drift: [0, 500, DRIFT_MAX][any.random_range(0..3)],
            dates_off_ms: 0,
            // Not drawn from the row of the others, which would change.
            has_transactions: StdRng::seed_from_u64(seed ^ 0x7478).random_bool(0.5),
            faults: Vec::new(),
        };
        plan.faults = faults(any, &plan);
        plan
    }
}

impl Plan {
    /// How far a server's date is off at most, in milliseconds.
    pub(crate) fn date_error_ms(&self) -> u64 {
        self.dates_off_ms.max(self.max_clock_skew_ms / 2)
    }

    /// Whether anything but a shutdown goes wrong between these milliseconds of the round.
    pub(crate) fn is_faulted(&self, from_ms: u64, to_ms: u64) -> bool {
        let others = self.faults.iter().filter(|it| !matches!(it.kind, Kind::ShutDown(_)));
        let mut ends = others.map(|it| (it.at_ms, it.over_ms()));
        ends.any(|(begins, ends)| begins <= to_ms && from_ms <= ends)
    }
}

/// The faults, one after the other, and sometimes two at once.
fn faults(random: &mut StdRng, plan: &Plan) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut late = StdRng::seed_from_u64(!plan.seed);
    let mut at_ms = CALM_MS;
    let mut bursts = 0;
    loop {
        // Now and then nothing happens for long: some promises hold only then.
        at_ms += match random.random_range(0..6) {
            0 => random.random_range(9_000..25_000),
            _ => random.random_range(200..9_000),
        };
        let mut fault =
            Fault { at_ms, lasts_ms: random.random_range(50..5_500), kind: kind(random, plan) };
        // Drawn from a row of its own: the others stay what they were when a seed broke a promise.
        if late.random_bool(0.07) {
            fault.kind = Kind::LateMajority { is_undone: late.random_bool(0.5) };
            fault.lasts_ms = late.random_range(300..LATE_MAX_MS);
        }
        if at_ms + fault.lasts_ms >= ROUND_MS {
            return faults;
        }
        let is_burst = matches!(fault.kind, Kind::Burst { .. });
        bursts += usize::from(is_burst);
        // The longest of them costs as much as a minute of all else.
        if !is_burst || bursts <= 2 {
            faults.push(fault);
        }
        if random.random_bool(0.7) {
            at_ms += fault.lasts_ms;
        }
    }
}

fn kind(random: &mut StdRng, plan: &Plan) -> Kind {
    let process = random.random_range(0..plan.processes);
    let whom = if random.random_bool(0.4) { Whom::All } else { Whom::One(process) };
    let percent = [5, 20, 50, 100][random.random_range(0..4)];
    match random.random_range(0..38) {
        0..2 => Kind::ServerHangs,
        2..5 => Kind::LinkHangs(whom),
        5..7 => Kind::Loss { whom, requests: percent, replies: 0 },
        7..10 => Kind::Loss { whom, requests: percent / 4, replies: percent },
        10..12 => Kind::Late { whom, by_ms: random.random_range(20..3_000) },
        12..13 => Kind::Doubled { whom, percent },
        13..14 => Kind::Refused { percent },
        14..17 => Kind::Primary { ahead: random.random_range(-500..=500) },
        17..19 => Kind::NoMajority { carried_out: percent },
        19..21 => Kind::CutOff { percent },
        21..22 => {
            Kind::Slow { takes_ms: random.random_range(5..900), slots: random.random_range(1..9) }
        }
        22..24 => Kind::Cursor,
        24..27 => Kind::Stop(process),
        27..29 => Kind::Kill(process),
        29..30 => Kind::ShutDown(process),
        30..31 => Kind::Damage,
        31..33 => Kind::Torn { percent },
        33..35 => Kind::RollBack,
        35..37 => Kind::Lock,
        _ => Kind::Burst { process, calls: 1 << random.random_range(5..14) },
    }
}
