//! Election: one leader, who stops before its lease does.

use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_core::Stream;
use futures_util::stream;
use mongodb::bson::Document;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::clock;
use crate::error::{Error, LostReason, Result};
use crate::info::LeaseInfo;
use crate::lease::Lease;
use crate::manager::LeaseManager;
use crate::release::Released;

/// By default a leader stops when this part of its ttl is left, or is given so long to step down.
const STOP_SHARE: u32 = 6;
/// A renewal comes after a third of the ttl, and may take a while: one who stops earlier than half of the ttl before
/// the end would stop while all is well.
const STOP_SHARE_MAX: u32 = 2;
/// How often an observer looks.
const LOOK_EVERY_DEFAULT: Duration = Duration::from_secs(1);
/// And how often at the most.
const LOOK_EVERY_MIN: Duration = Duration::from_millis(10);

/// An election: of all that take part under one name, one leads.
///
/// Who leads holds a [`Lease`], and what is promised of that holds here: while it is valid, there is no other leader,
/// provided that the clocks of the replica set's members are within the manager's maximum clock skew of each other. A
/// leader whose process is stopped for longer than its ttl does not notice that; let what it writes to check the
/// lease's token, or guard its transactions.
///
/// A leader that cannot renew its lease is told [some time](Election::stop_before) before the lease ends, so that it
/// can come to an orderly end while it still leads.
///
/// It is cheap to clone, and starts no tasks: everything happens within the futures that it gives.
///
/// # Fairness
///
/// As for [`Acquire`](crate::Acquire). A former leader may be elected again.
///
/// # Examples
///
/// ```no_run
/// # async fn example(leases: mongo_lease::LeaseManager) -> mongo_lease::Result<()> {
/// use mongo_lease::Election;
///
/// # async fn one_piece_of_work() {}
/// let election = Election::new(&leases, "leader:billing").owner("node-1");
/// election
///     .run(async |leadership| {
///         while !leadership.is_stopping() {
///             one_piece_of_work().await;
///         }
///     })
///     .await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "nobody is elected until `run` or `campaign` is called"]
#[derive(Clone)]
pub struct Election {
    leases: LeaseManager,
    name: String,
    ttl: Option<Duration>,
    owner: Option<String>,
    metadata: Document,
    stop_before: Option<Duration>,
    look_every: Duration,
    /// Cancelled by [`Election::stop`], for good.
    stopped: CancellationToken,
    /// How the newest leadership that was won here is told to stop.
    newest: Arc<Mutex<CancellationToken>>,
}

/// What the leader has in hands.
///
/// Dropping it gives the leadership back in the background; [`resign`](Leadership::resign) does so and says what came
/// of it.
#[must_use = "a leadership that is dropped is given back at once"]
#[clippy::has_significant_drop]
pub struct Leadership {
    lease: Lease,
    /// As it was asked for.
    stop_before: Option<Duration>,
    /// The most that was seen to be left of the lease, in milliseconds. One that was handed on from a predecessor is
    /// short at first, until its first renewal.
    whole_ms: AtomicU64,
    /// It was asked to step down, or the election was stopped.
    asked: CancellationToken,
    /// It is to stop, for whatever reason.
    stopping: CancellationToken,
    /// Whoever has a token hears of the end, also when the leadership is only dropped.
    _stops_with_us: DropGuard,
}

/// Why a leader has to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stop {
    /// It was asked to [step down](Election::step_down), or the election was [stopped](Election::stop).
    Asked,
    /// The lease could not be renewed, and ends soon.
    NearEnd,
    /// The lease is lost. There may be another leader any moment.
    Lost(LostReason),
}

impl Election {
    /// An election under this name, which is the name of the leader's lease.
    pub fn new(leases: &LeaseManager, name: impl Into<String>) -> Election {
        Election {
            leases: leases.clone(),
            name: name.into(),
            ttl: None,
            owner: None,
            metadata: Document::new(),
            stop_before: None,
            look_every: LOOK_EVERY_DEFAULT,
            stopped: CancellationToken::new(),
            newest: Arc::default(),
        }
    }

    /// How long the leader's lease lasts without a renewal: after a crash there is no leader for so long. From 100 ms
    /// to 366 days. Defaults to the manager's.
    pub fn ttl(mut self, ttl: Duration) -> Election {
        self.ttl = Some(ttl);
        self
    }

    /// The label under which the leader is shown, as `label@host:pid`. At most 512 bytes. Defaults to the manager's.
    pub fn owner(mut self, label: impl Into<String>) -> Election {
        self.owner = Some(label.into());
        self
    }

    /// What to attach to the leader's lease, such as the address at which it can be reached. At most 4 KiB of BSON.
    /// Defaults to nothing.
    pub fn metadata(mut self, metadata: Document) -> Election {
        self.metadata = metadata;
        self
    }

    /// How long before the end of its lease a leader is told to stop; and how long it may take to step down when it
    /// is asked to. Then its work is dropped. Defaults to a sixth of the ttl, and is half of it at most: where it is
    /// longer, that half counts.
    pub fn stop_before(mut self, time: Duration) -> Election {
        self.stop_before = Some(time);
        self
    }

    /// How often [`observe`](Election::observe) looks, at least 10 ms. Defaults to 1 s.
    pub fn look_every(mut self, period: Duration) -> Election {
        self.look_every = period.max(LOOK_EVERY_MIN);
        self
    }

    /// Takes part for one term: waits to be elected, as long as it takes, does `work` as the leader, and gives the
    /// leadership back.
    ///
    /// The work is told to stop by the [`Leadership`]: when it is asked to [step down](Election::step_down), when the
    /// election is [stopped](Election::stop), and when the lease could not be renewed. It is dropped when it has not
    /// ended [some time](Election::stop_before) later, or when the lease is lost: before anybody else can lead. Being
    /// dropped stops it at its next `await`; what it has started elsewhere goes on. The future is `Send` when the
    /// work's is.
    ///
    /// To lead again after a loss, call it again, as in the example.
    ///
    /// # Errors
    ///
    /// - [`Error::Lost`] when the work was dropped: with [`LostReason::Released`] when it was asked to step down and
    ///   did not in time, or the manager was shut down, and with the reason of the loss otherwise.
    /// - [`Error::Stopped`] when the election was [stopped](Election::stop) before this term was won.
    /// - [`Error::ShutDown`] once the manager has been shut down: the normal end of a process that shuts it down
    ///   without stopping the election first.
    /// - As [`Acquire`](crate::Acquire) otherwise; but it waits as long as it takes, also while the database is out of
    ///   reach.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work, and gives the leadership back.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(election: mongo_lease::Election) -> mongo_lease::Result<()> {
    /// use mongo_lease::{Error, Stop};
    ///
    /// loop {
    ///     match election.run(async |leadership| leadership.until_stop().await).await {
    ///         // `election.stop()`, while it led or while it waited; or the manager was shut down.
    ///         Ok(Stop::Asked) | Err(Error::Stopped | Error::ShutDown) => return Ok(()),
    ///         // The database was out of reach, or an operator has intervened: stand again.
    ///         Ok(_) | Err(Error::Lost { .. }) => continue,
    ///         Err(error) => return Err(error),
    ///     }
    /// }
    /// # }
    /// ```
    pub async fn run<T, W>(&self, work: W) -> Result<T>
    where
        W: AsyncFnOnce(&Leadership) -> T,
    {
        let leadership = self.campaign().await?;
        let output = leadership.run(work(&leadership)).await;
        // What is lost already is not waited for.
        if leadership.lease.is_valid() {
            // The work is done; a release that was not confirmed is tried again in the background.
            let _ = leadership.resign().await;
        }
        output
    }

    /// Waits to be elected, as long as it takes.
    ///
    /// # Errors
    ///
    /// As [`run`](Election::run), but for [`Error::Lost`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future is safe: a leadership that was won is given back.
    pub async fn campaign(&self) -> Result<Leadership> {
        let lease = tokio::select! {
            biased;
            // A follower leaves the queue by being dropped, as any other waiter does.
            () = self.stopped.cancelled() => return Err(Error::Stopped),
            lease = self.win() => lease?,
        };
        // Also cancelled by the election's stop, which stays: a stop that comes between cannot be missed.
        let asked = self.stopped.child_token();
        self.newest.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&asked);
        let stopping = asked.child_token();
        Ok(Leadership {
            lease,
            stop_before: self.stop_before,
            whole_ms: AtomicU64::new(0),
            asked,
            _stops_with_us: stopping.clone().drop_guard(),
            stopping,
        })
    }

    /// Waits for the leader's lease.
    async fn win(&self) -> Result<Lease> {
        let mut ask = self.leases.acquire(&self.name).wait_forever();
        ask = ask.metadata(self.metadata.clone());
        if let Some(ttl) = self.ttl {
            ask = ask.ttl(ttl);
        }
        if let Some(owner) = &self.owner {
            ask = ask.owner(owner);
        }
        ask.await
    }

    /// Ends this election's part in it, for good: for a process that is to end, as by SIGTERM.
    ///
    /// A leader that was elected here is told to stop, as [`Stop::Asked`]. A [`campaign`](Election::campaign) or a
    /// [`run`](Election::run) that has not won ends at once with [`Error::Stopped`], and so does every later one. The
    /// follower's place in the queue is given up in the background;
    /// [`LeaseManager::shutdown`](crate::LeaseManager::shutdown) waits for that.
    ///
    /// It acts on all clones of this election, and on no other election of the same name. It can be called from any
    /// thread, at any time, and more than once.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(leases: mongo_lease::LeaseManager, sigterm: impl Future<Output = ()> + Send + 'static) {
    /// use mongo_lease::{Election, Error, Stop};
    ///
    /// let election = Election::new(&leases, "leader:billing");
    /// let to_stop = election.clone();
    /// tokio::spawn(async move {
    ///     sigterm.await;
    ///     to_stop.stop();
    /// });
    /// match election.run(async |leadership| leadership.until_stop().await).await {
    ///     Ok(Stop::Asked) => println!("stopped while it led"),
    ///     Err(Error::Stopped) => println!("stopped before it led"),
    ///     other => println!("{other:?}"),
    /// }
    /// # }
    /// ```
    pub fn stop(&self) {
        self.stopped.cancel();
    }

    /// Asks the leader to give up this term, if it was elected by this election or a clone of it; it may be elected
    /// again. Before the election is won there is no term, and nothing happens: a process that is to end calls
    /// [`stop`](Election::stop). A leader in another process is not asked.
    pub fn step_down(&self) {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner).cancel();
    }

    /// Who leads: nothing when nobody does.
    ///
    /// # Errors
    ///
    /// As [`LeaseManager::get`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn leader(&self) -> Result<Option<LeaseInfo>> {
        self.leases.get(&self.name).await
    }

    /// Who leads, now and whenever that changes: nothing when nobody does. It takes no part in the election.
    ///
    /// It looks [every second](Election::look_every), by default. Who leads for less than that may not be seen, and
    /// what is seen may be over. When the database does not answer, it says so each time, and looks again. It ends
    /// when the manager is shut down.
    ///
    /// # Errors
    ///
    /// The stream gives the errors of [`LeaseManager::get`], and goes on behind them, but for [`Error::ShutDown`] and
    /// [`Error::InvalidName`], with which it ends.
    ///
    /// # Cancel safety
    ///
    /// Dropping the stream leaves nothing behind. The future of its next item may be dropped.
    pub fn observe(&self) -> impl Stream<Item = Result<Option<LeaseInfo>>> + Send + use<> {
        let watch = Watch { election: self.clone(), seen: None, is_first: true, has_ended: false };
        stream::unfold(watch, |mut watch| async move { Some((watch.next().await?, watch)) })
    }
}

/// What an observer remembers.
struct Watch {
    election: Election,
    seen: Option<Option<LeaseInfo>>,
    is_first: bool,
    has_ended: bool,
}

impl Watch {
    async fn next(&mut self) -> Option<Result<Option<LeaseInfo>>> {
        while !self.has_ended {
            if !std::mem::take(&mut self.is_first) {
                clock::sleep_until(clock::now().after(self.election.look_every)).await;
            }
            match self.election.leader().await {
                Ok(leader) => {
                    let has_changed = self.seen.as_ref().is_none_or(|seen| !is_same(seen, &leader));
                    self.seen = Some(leader.clone());
                    if has_changed {
                        return Some(Ok(leader));
                    }
                }
                Err(error) => {
                    self.has_ended = matches!(error, Error::ShutDown | Error::InvalidName { .. });
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

/// Whether it is the same grant: what is renewed changes its expiry alone.
fn is_same(seen: &Option<LeaseInfo>, now: &Option<LeaseInfo>) -> bool {
    let grant = |info: &LeaseInfo| (info.value.clone(), info.acquired_at, info.state.clone());
    seen.as_ref().map(grant) == now.as_ref().map(grant)
}

impl Leadership {
    /// The leader's lease: its token fences what the leader writes, and [`Lease::guard`] its transactions.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Asks the leader, which is oneself, to give up this term.
    pub fn step_down(&self) {
        self.asked.cancel();
    }

    /// Whether the leader has to stop. Reads the clock, and waits for nothing.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stopping.is_cancelled() || self.lease.remaining() <= self.stop_before()
    }

    /// Waits until the leader has to stop, and says why: it was asked to, or what is left of its lease is not more
    /// than [`Election::stop_before`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn until_stop(&self) -> Stop {
        let stop = tokio::select! {
            biased;
            reason = self.lease.lost() => Stop::Lost(reason),
            () = self.asked.cancelled() => Stop::Asked,
            () = self.near_end() => Stop::NearEnd,
        };
        self.stopping.cancel();
        stop
    }

    /// A token that is cancelled when the leader has to stop, for handing on to the work: while
    /// [`run`](Leadership::run) or [`until_stop`](Leadership::until_stop) is being waited for, which is always so in
    /// [`Election::run`].
    #[must_use]
    pub fn stop_token(&self) -> CancellationToken {
        // A child: whoever gets it may cancel it, and that must not stop the leader.
        self.stopping.child_token()
    }

    /// Runs `work`, tells it when it has to stop, and drops it when it has not ended
    /// [some time](Election::stop_before) later, or when the lease is lost.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] when the work was dropped: with [`LostReason::Released`] when it was asked to step down, and
    /// with the reason of the loss, or [`LostReason::Expired`], otherwise.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work. The leadership is kept.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        let mut work = pin!(work);
        let stop = tokio::select! {
            biased;
            stop = self.until_stop() => stop,
            // It looks once more behind the work: the end may have come in the middle of the last poll.
            output = self.lease.run(work.as_mut()) => return output,
        };
        if let Stop::Lost(reason) = stop {
            return Err(self.error(reason));
        }
        // It is told. A renewal that comes through now does not take that back.
        let last_moment = clock::now().after(self.stop_before());
        match clock::before(last_moment, self.lease.run(work)).await {
            Some(output) => output,
            None if stop == Stop::Asked => Err(self.error(LostReason::Released)),
            None => Err(self.error(LostReason::Expired)),
        }
    }

    /// Steps down: gives the leadership back, and says what came of it. As [`Lease::release`].
    ///
    /// # Errors
    ///
    /// [`Error::Unknown`] or [`Error::MongoDb`] when the release was not confirmed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future lets the release go on in the background.
    pub async fn resign(self) -> Result<Released> {
        self.lease.release().await
    }

    /// What is left of the lease when the leader has to stop.
    fn stop_before(&self) -> Duration {
        let left_ms = u64::try_from(self.lease.remaining().as_millis()).unwrap_or(u64::MAX);
        let whole_ms = self.whole_ms.fetch_max(left_ms, Ordering::Relaxed).max(left_ms);
        let whole = Duration::from_millis(whole_ms);
        self.stop_before.unwrap_or(whole / STOP_SHARE).min(whole / STOP_SHARE_MAX)
    }

    async fn near_end(&self) {
        loop {
            let spare = self.lease.remaining().saturating_sub(self.stop_before());
            if spare.is_zero() {
                return;
            }
            clock::sleep_until(clock::now().after(spare)).await;
        }
    }

    fn error(&self, reason: LostReason) -> Error {
        Error::Lost { name: self.lease.name().to_owned(), reason }
    }
}

impl fmt::Debug for Election {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Election").field("name", &self.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for Leadership {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Leadership")
            .field("lease", &self.lease)
            .field("is_stopping", &self.is_stopping())
            .finish_non_exhaustive()
    }
}
