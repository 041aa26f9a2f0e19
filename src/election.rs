//! Election: elects one leader, whose work stops before its lease ends.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_core::Stream;
use futures_util::stream;
use mongo_lease_core::info::LeaseInfo;
use mongo_lease_core::rules::leader_notice;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::acquire::Acquire;
use crate::error::{Error, LostReason, Result};
use crate::lease::Lease;
use crate::lock::Lock;
use crate::manager::LeaseManager;
use crate::release::Released;
use crate::telemetry::Term;

/// How often an observer queries, by default.
const LOOK_EVERY_DEFAULT: Duration = Duration::from_secs(1);
/// The shortest time between two queries of an observer.
const LOOK_EVERY_MIN: Duration = Duration::from_millis(10);

/// An election: of all participants under one name, one is the leader.
///
/// The leader holds a [`Lease`]: while that is valid, there is no other leader, under the assumptions of every lease. A
/// leader whose process is stopped for longer than its ttl does not notice the end of its lease. So let its writes
/// check the lease's token, or be in transactions under the lease.
///
/// A leader that cannot renew its lease is told to stop [some time](Election::notice) before the lease ends, so
/// that it can finish while it is still the leader. Waiting is fair as for [`Acquire`](crate::Acquire), and a former
/// leader may be elected again. An election is cheap to clone and starts no tasks: everything happens within the
/// futures that it returns.
///
/// # Examples
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
#[derive(Clone, Debug)]
pub struct Election {
    leases: LeaseManager,
    name: String,
    /// The call for the leader's lease.
    campaign: Acquire,
    notice: Option<Duration>,
    look_every: Duration,
    /// Cancelled by [`Election::stop`], permanently.
    stopped: CancellationToken,
    /// Tells the newest leadership that was won here to stop.
    newest: Arc<Lock<CancellationToken>>,
}

/// The leadership of one term, with the leader's lease. Dropping it releases the leadership in the background;
/// [`release`](Leadership::release) also reports the outcome.
#[must_use = "a leadership that is dropped is given back at once"]
#[clippy::has_significant_drop]
#[derive(Debug)]
pub struct Leadership {
    lease: Lease,
    notice: Option<Duration>,
    /// The longest remaining time of the lease so far, in milliseconds. A lease that a predecessor handed off is short
    /// until its first renewal.
    whole_ms: AtomicU64,
    /// Cancelled when the leader is asked to step down, or the election is stopped.
    asked: CancellationToken,
    /// Set when the leader was told to stop. A renewal that succeeds later does not take this back.
    is_told: AtomicBool,
    /// The log tells when it begins and when it ends.
    _term: Term,
}

/// Why a leader has to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stop {
    /// The leader was asked to [step down](Election::step_down), or the election was [stopped](Election::stop).
    Asked,
    /// The lease could not be renewed, and ends soon.
    NearEnd,
    /// The lease is lost. There may be another leader at any moment.
    Lost(LostReason),
}

impl Election {
    /// Creates an election under this name, which is also the name of the leader's lease.
    pub fn new(leases: &LeaseManager, name: impl Into<String>) -> Election {
        let name = name.into();
        Election {
            leases: leases.clone(),
            campaign: leases.acquire(&name).wait_forever(),
            name,
            notice: None,
            look_every: LOOK_EVERY_DEFAULT,
            stopped: CancellationToken::new(),
            newest: Arc::default(),
        }
    }

    /// How long the leader's lease lasts without a renewal, and how long there is no leader after a leader's crash.
    /// From 100 ms to 366 days. Defaults to the manager's.
    pub fn ttl(mut self, ttl: Duration) -> Election {
        self.campaign = self.campaign.ttl(ttl);
        self
    }

    /// The label under which the leader is shown, as `label@host:pid`. At most 512 bytes. Defaults to the manager's.
    pub fn owner(mut self, label: impl Into<String>) -> Election {
        self.campaign = self.campaign.owner(label);
        self
    }

    /// [Metadata](Acquire::metadata) stored in the leader's lease, such as the address at which it can be
    /// reached. At most 4 KiB of BSON. Defaults to none.
    pub fn metadata(mut self, metadata: impl Serialize) -> Election {
        self.campaign = self.campaign.metadata(metadata);
        self
    }

    /// How long before the end of its lease a leader is told to stop, and how long its work may go on after it was
    /// asked to step down. Defaults to a sixth of the ttl. A time above half of the ttl counts as that half.
    pub fn notice(mut self, time: Duration) -> Election {
        self.notice = Some(time);
        self
    }

    /// How often [`observe`](Election::observe) queries the lease, at least 10 ms. Defaults to 1 s.
    pub fn look_every(mut self, period: Duration) -> Election {
        self.look_every = period.max(LOOK_EVERY_MIN);
        self
    }

    /// Takes part for one term: waits to be elected, without a time limit, runs `work` as the leader, and releases the
    /// leadership.
    ///
    /// The [`Leadership`] tells the work to stop: when the leader is asked to [step down](Election::step_down), when
    /// the election is [stopped](Election::stop), and when the lease could not be renewed. The work is dropped if it
    /// has not ended [some time](Election::notice) later, or when the lease is lost: always before another leader
    /// can be elected. Dropping stops the work at its next `await`; tasks that it has started elsewhere go on. The
    /// future is `Send` when the work's is. To lead again after a loss, call `run` again.
    ///
    /// # Errors
    /// - [`Error::Lost`] when the work was dropped. The reason is [`LostReason::Released`] when the leader was asked to
    ///   step down and did not in time, or the manager was shut down, and the reason of the loss otherwise.
    /// - [`Error::Stopped`] when the election was [stopped](Election::stop) before this term was won.
    /// - [`Error::ShutDown`] once the manager has been shut down.
    /// - Otherwise the errors of [`Acquire`](crate::Acquire), except [`Error::WaitTimeout`]: it waits even while the
    ///   database cannot be reached.
    ///
    /// # Cancel safety
    /// Dropping the future drops the work and releases the leadership.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(election: mongo_lease::Election) -> mongo_lease::Result<()> {
    /// use mongo_lease::{Error, Stop};
    ///
    /// loop {
    ///     match election.run(async |leadership| leadership.until_stop().await).await {
    ///         // `election.stop()`, while it led or while it waited; or the manager was shut down.
    ///         Ok(Stop::Asked) | Err(Error::Stopped | Error::ShutDown) => return Ok(()),
    ///         // The database was out of reach, or an operator has intervened: take part again.
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
        // Do not wait for the work once the lease is lost.
        if leadership.lease.is_valid() {
            // The work is done; a release that was not confirmed is retried in the background.
            let _ = leadership.release().await;
        }
        output
    }

    /// Waits to be elected, without a time limit.
    ///
    /// # Errors
    /// As [`run`](Election::run), except [`Error::Lost`].
    ///
    /// # Cancel safety
    /// Dropping the future is safe: a leadership that was won is released.
    pub async fn campaign(&self) -> Result<Leadership> {
        let lease = tokio::select! {
            biased;
            // Dropping a follower's call removes it from the queue, as for any other waiter.
            () = self.stopped.cancelled() => return Err(Error::Stopped),
            lease = self.campaign.clone() => lease?,
        };
        // The election's stop cancels this token too, and stays cancelled: a stop that comes in between cannot be
        // missed.
        let asked = self.stopped.child_token();
        self.newest.lock().clone_from(&asked);
        let _term = Term::begin(lease.name(), lease.granted_token());
        Ok(Leadership {
            lease,
            notice: self.notice,
            whole_ms: AtomicU64::new(0),
            asked,
            is_told: AtomicBool::new(false),
            _term,
        })
    }

    /// Ends this election permanently: for a process that is about to end, for example on SIGTERM.
    ///
    /// A leader that was elected here is told to stop, with [`Stop::Asked`]. A [`campaign`](Election::campaign) or a
    /// [`run`](Election::run) that has not won ends at once with [`Error::Stopped`], and so does every later one. The
    /// follower's queue entry is removed in the background, for which [`LeaseManager::shutdown`] waits. It affects all
    /// clones of this election, and no other one. It can be called at any time, and more than once.
    ///
    /// # Examples
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

    /// Asks the leader to give up its term, if it won it here or through a clone. It may be elected again. Work within
    /// [`run`](Election::run) ends its term by returning.
    ///
    /// Before the election is won, nothing happens: a process that is about to end calls [`stop`](Election::stop).
    pub fn step_down(&self) {
        self.newest.lock().cancel();
    }

    /// The current leader's lease; `None` when there is no leader.
    ///
    /// # Errors
    /// As [`LeaseManager::get`].
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn leader(&self) -> Result<Option<LeaseInfo>> {
        self.leases.get(&self.name).await
    }

    /// The current leader, now and at every change; `None` when there is no leader. Takes no part in the election.
    ///
    /// It queries the lease [every second](Election::look_every), by default. A shorter leadership may be missed, and a
    /// reported one may be over.
    ///
    /// # Errors
    /// The stream gives the errors of [`LeaseManager::get`] and continues after them, except [`Error::ShutDown`] and
    /// [`Error::InvalidName`], with which it ends.
    ///
    /// # Cancel safety
    /// Dropping the stream leaves nothing running. The future of its next item may be dropped.
    pub fn observe(&self) -> impl Stream<Item = Result<Option<LeaseInfo>>> + Send + use<> {
        let start = Some((self.clone(), Duration::ZERO, None::<Option<LeaseInfo>>));
        stream::unfold(start, |state| async move {
            let (election, mut delay, seen) = state?;
            loop {
                election.leases.clock().sleep(delay).await;
                delay = election.look_every;
                match election.leader().await {
                    Ok(leader) if seen.as_ref().is_some_and(|seen| is_same(seen, &leader)) => {}
                    Ok(leader) => {
                        let seen = Some(leader.clone());
                        return Some((Ok(leader), Some((election, delay, seen))));
                    }
                    Err(error) => {
                        let is_last = matches!(error, Error::ShutDown | Error::InvalidName { .. });
                        let state = (!is_last).then_some((election, delay, seen));
                        return Some((Err(error), state));
                    }
                }
            }
        })
    }
}

/// Whether both show the same grant: a renewal changes only its expiry.
fn is_same(seen: &Option<LeaseInfo>, now: &Option<LeaseInfo>) -> bool {
    let grant = |info: &LeaseInfo| (info.value.clone(), info.acquired_at, info.state.clone());
    seen.as_ref().map(grant) == now.as_ref().map(grant)
}

impl Leadership {
    /// The leader's lease. Its token fences the leader's writes, and [`Lease::transaction`] its transactions.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Whether the leader has to stop. Reads the clock and does not block.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.is_told.load(Ordering::Relaxed)
            || self.asked.is_cancelled()
            || self.lease.remaining() <= self.notice()
    }

    /// Waits until the leader has to stop, and returns why: it is asked to, or the remaining time of its lease is not
    /// more than [`Election::notice`].
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn until_stop(&self) -> Stop {
        let stop = tokio::select! {
            biased;
            reason = self.lease.lost() => Stop::Lost(reason),
            () = self.asked.cancelled() => Stop::Asked,
            () = self.near_end() => Stop::NearEnd,
        };
        self.is_told.store(true, Ordering::Relaxed);
        stop
    }

    /// Runs `work`, and tells it when it has to stop. Drops it if it has not ended [some time](Election::notice)
    /// after that, or when the lease is lost.
    ///
    /// # Errors
    /// [`Error::Lost`] when the work was dropped. The reason is [`LostReason::Released`] when the leader was asked to
    /// step down, and otherwise the reason of the loss, or the one with which the lease is about to end.
    ///
    /// # Cancel safety
    /// Dropping the future drops the work and keeps the leadership.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        let mut work = pin!(work);
        let stop = tokio::select! {
            biased;
            stop = self.until_stop() => stop,
            // `Lease::run` checks the lease again after the work: it may have ended during the last poll.
            output = self.lease.run(work.as_mut()) => return output,
        };
        if let Stop::Lost(reason) = stop {
            return Err(self.error(reason));
        }
        // The work has been told to stop. A renewal that succeeds now does not take this back.
        let clock = self.lease.clock();
        let last_moment = clock.now().after(self.notice());
        match clock.before(last_moment, self.lease.run(work)).await {
            Some(output) => output,
            None if stop == Stop::Asked => Err(self.error(LostReason::Released)),
            None => Err(self.error(self.lease.reason_for_end())),
        }
    }

    /// Ends the term: releases the leader's lease and reports the outcome, as [`Lease::release`].
    ///
    /// # Errors
    /// [`Error::Unknown`] or [`Error::MongoDb`] when the release was not confirmed.
    ///
    /// # Cancel safety
    /// Dropping the future lets the release continue in the background.
    pub async fn release(self) -> Result<Released> {
        self.lease.release().await
    }

    /// The remaining time of the lease at which the leader has to stop.
    fn notice(&self) -> Duration {
        let left_ms = u64::try_from(self.lease.remaining().as_millis()).unwrap_or(u64::MAX);
        let whole_ms = self.whole_ms.fetch_max(left_ms, Ordering::Relaxed).max(left_ms);
        leader_notice(self.notice, Duration::from_millis(whole_ms))
    }

    async fn near_end(&self) {
        loop {
            let spare = self.lease.remaining().saturating_sub(self.notice());
            if spare.is_zero() {
                return;
            }
            self.lease.clock().sleep(spare).await;
        }
    }

    fn error(&self, reason: LostReason) -> Error {
        Error::Lost { name: self.lease.name().to_owned(), reason }
    }
}
