//! Confirms writes that were applied, and that no majority has yet.
//!
//! One majority read at a time, for as many writes as it holds. It waits for the oldest of them, and for those that
//! were made soon after it. So one slot of a manager waits for majorities. A read that is not answered keeps its slot
//! beside that.

use std::pin::Pin;
use std::time::Duration;

use mongo_lease_core::commands::{
    Command, Reliance, SharedSnapshot, Trace, Unconfirmed, Written, are_shown,
};
use mongo_lease_core::rules::{Instant, RETRY};
use mongodb::bson::Timestamp;
use tokio::sync::oneshot;

use super::confirmer::{AwaitedWrites, WriteKey};
use super::{AttemptResult, AttemptTime, Pending, Runner};
use crate::failure::not_confirmed;
use crate::mistake::{Mistake, is_made};

/// How long one read waits. If a majority takes longer, the next read waits on. A read that a failover has left without
/// an answer delays the others by no more than this.
const READ_TIME: Duration = Duration::from_secs(2);
/// The same where all commands share few slots.
const READ_TIME_IN_FEW_SLOTS: Duration = Duration::from_millis(300);

/// How much longer a read is waited for that is not answered, if the one beside it is not answered either.
const HANGING_TIME: Duration = Duration::from_secs(8);

/// How long a measurement of a late majority may take.
const MEASURE_TIME: Duration = Duration::from_secs(30);

impl Runner {
    /// How long a write has lately taken from its sending to its confirmation by a majority.
    pub(crate) fn majority_delay(&self) -> Duration {
        self.shared.confirmer.delay()
    }

    /// Measures how late the majority is, by a command that was sent at `sent`. Nobody relies on its write, if it has
    /// one.
    pub(super) fn measure(&self, at: Timestamp, sent: Instant, has_written: bool) {
        let deadline = sent.after(MEASURE_TIME);
        let waiting =
            AwaitedWrites { traces: Vec::new(), sent, deadline, has_written, sender: None };
        let now = self.clock().now();
        if self.shared.confirmer.may_measure() && self.shared.confirmer.add(at, waiting, now) {
            self.spawn(self.clone().read_until_all_are_told());
        }
    }

    /// The reply of a command that was sent at `sent`, when a majority has its writes. Otherwise they are maybe
    /// applied: a failover has undone them, or no majority has had them by the deadline.
    pub(crate) async fn confirmed<C: Command>(
        &self,
        command: &C,
        reply: C::Reply,
        unconfirmed: Unconfirmed,
        sent: Instant,
        deadline: Instant,
    ) -> AttemptResult<C::Reply> {
        let Reliance::Writes(traces) = command.relies_on(&reply) else {
            return Err(not_confirmed(unconfirmed));
        };
        let found = self.shown(traces.clone(), unconfirmed.clone(), sent, deadline).await?;
        let are_shown = are_shown(&traces, &found, self.clock().now());
        match are_shown || is_made(Mistake::AnyAnswerConfirms) {
            true => Ok(reply),
            false => Err(not_confirmed(unconfirmed)),
        }
    }

    /// The leases of these writes as a majority has them, as soon as it has all writes up to these.
    pub(crate) async fn shown(
        &self,
        traces: Vec<Trace>,
        unconfirmed: Unconfirmed,
        sent: Instant,
        deadline: Instant,
    ) -> AttemptResult<Vec<SharedSnapshot>> {
        let (sender, receiver) = oneshot::channel();
        let sender = Some(sender);
        let waiting = AwaitedWrites { traces, sent, deadline, has_written: true, sender };
        if self.shared.confirmer.add(unconfirmed.at, waiting, self.clock().now()) {
            self.spawn(self.clone().read_until_all_are_told());
        }
        match self.clock().before(deadline, receiver).await {
            Some(Ok(found)) => Ok(found),
            Some(Err(_)) | None => Err(not_confirmed(unconfirmed)),
        }
    }

    /// Boxed, because a read is an attempt too.
    fn read_until_all_are_told(self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            let confirmer = &self.shared.confirmer;
            let (mut delays, mut silent) = (None, None::<SilentRead>);
            while let Some((look, asked)) = confirmer.next(self.clock().now()) {
                let has_few = self.shared.pace.is_some();
                let time = if has_few { READ_TIME_IN_FEW_SLOTS } else { READ_TIME };
                let deadline = self.clock().now().after(time);
                let mut read = self.start(look, AttemptTime::from(deadline), |_, _| ());
                match self.clock().before(deadline, &mut read).await {
                    Some(Ok(written)) => {
                        delays = None;
                        confirmer.tell(asked, &written, self.clock().now());
                    }
                    Some(Err(failure)) if failure.ends_all_reads() => return confirmer.give_up(),
                    // It is not answered, and keeps its slot. More than two like it would take all slots.
                    None => {
                        let keys = asked.keys().copied().collect();
                        confirmer.put_back(asked);
                        if let Some(earlier) = silent.replace(SilentRead { read, keys }) {
                            self.hear(earlier).await;
                        }
                    }
                    // It has waited for its time.
                    Some(Err(failure))
                        if failure.is_blocked()
                            && deadline.since(self.clock().now()) < time / 2 =>
                    {
                        confirmer.put_back(asked);
                    }
                    Some(Err(_)) => {
                        confirmer.put_back(asked);
                        let delays =
                            delays.get_or_insert_with(|| Box::new(self.clock().jittered(RETRY)));
                        self.clock().sleep(delays.next().unwrap_or(RETRY.longest)).await;
                    }
                }
            }
        })
    }

    /// Waits for the answer of a read that is late.
    async fn hear(&self, silent: SilentRead) {
        let until = self.clock().now().after(HANGING_TIME);
        if let Some(Ok(written)) = self.clock().before(until, silent.read).await {
            let asked = self.shared.confirmer.take(&silent.keys);
            self.shared.confirmer.tell(asked, &written, self.clock().now());
        }
    }
}

/// A read that was not answered in its time.
struct SilentRead {
    read: Pending<Written>,
    /// The writes that it was to show.
    keys: Vec<WriteKey>,
}
