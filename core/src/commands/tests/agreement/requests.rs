//! Acquires on a real server: the slow one, the fast ones, and the blind insert that goes out first under churn.

use std::sync::Arc;

use crate::rules::guesses::FastForm;
use crate::rules::timing::Timing;
use mongodb::error::{CommandError, ErrorKind};

use super::real::{COLLECTION, Real, Replied};
use super::small;
use super::steps::Answer;
use super::texts::{call, duration, instant, metadata, owner, read_id, text};
use crate::bson::Timestamp;
use crate::commands::Command;
use crate::commands::acquire::{AcquireReply, AcquireRequest, SlowAcquire};
use crate::commands::fast_acquire::FastAdmit;
use crate::commands::fast_acquire::{FastAcquire, FastAcquireMany, who_was_granted};
use crate::commands::find::FindLeases;

impl Real {
    pub(super) async fn acquire(
        &self,
        name: &str,
        request: &small::AcquireAttempt,
        sent: i64,
    ) -> Replied {
        let command = SlowAcquire {
            request: request_for(name, request),
            attempt_no: u32::from(request.id.attempt),
            predecessor: request.predecessor.map(text),
        };
        Ok(answer(self.run(&command, sent).await?))
    }

    /// The fast acquire: alone, or with another call's attempt before it and one after it.
    pub(super) async fn fast_acquire(
        &self,
        name: &str,
        request: &small::AcquireAttempt,
        with_others: bool,
        sent: i64,
    ) -> Replied {
        let take = |name: &str| fast(name, request, FastForm::LookUp);
        if !with_others {
            return Ok(answer(self.run(&take(name), sent).await?));
        }
        let acquires =
            ["before", "", "behind"].map(|which| take(&format!("{name}{which}"))).to_vec();
        let command = FastAcquireMany { acquires };
        let taken = self.run(&command, sent).await?;
        let names = command.acquires.iter().map(|take| take.request.name.clone()).collect();
        let look = FindLeases { names, after: Some(taken.at) };
        let found = self.run(&look, sent).await?;
        let mut replies = who_was_granted(&command.acquires, &taken, found);
        Ok(answer(replies.swap_remove(1)))
    }

    pub(super) async fn fast_admit(
        &self,
        name: &str,
        request: &small::AcquireAttempt,
        sent: i64,
    ) -> Replied {
        let attempt = u32::from(request.id.attempt);
        let command = FastAdmit { request: request_for(name, request), attempt_no: attempt };
        Ok(answer(self.run(&command, sent).await?))
    }

    pub(super) async fn insert(
        &self,
        name: &str,
        request: &small::AcquireAttempt,
        sent: i64,
    ) -> Replied {
        let take = fast(name, request, FastForm::Insert);
        let sent = instant(sent);
        let command = self.changed::<FastAcquire>(take.build(COLLECTION, sent));
        match self.database.run_command(command).await {
            Ok(reply) => Ok(answer(take.decode(&reply, sent)?)),
            // The name is taken.
            Err(error) => {
                let kind = error.kind.as_ref();
                let ErrorKind::Command(CommandError { code: 11_000, .. }) = kind else {
                    panic!("{error}");
                };
                Ok((Answer::Matched(false), None))
            }
        }
    }
}

fn fast(name: &str, request: &small::AcquireAttempt, form: FastForm) -> FastAcquire {
    FastAcquire {
        request: request_for(name, request),
        attempt_no: u32::from(request.id.attempt),
        form,
        resends: 0,
        first_sent: None,
    }
}

fn request_for(name: &str, request: &small::AcquireAttempt) -> Arc<AcquireRequest> {
    let (ttl, max_clock_skew) = (duration(request.ttl), duration(request.max_clock_skew));
    let timing = Timing::new(ttl, max_clock_skew, None).unwrap();
    Arc::new(AcquireRequest {
        name: name.to_owned(),
        value: text(request.value),
        call_id: call(request.id.call),
        owner: owner(request.details).into(),
        metadata: metadata(request.details),
        permits: request.permits,
        timing: Arc::new(timing),
        has_oplog: true,
        joins: request.joins,
    })
}

fn answer(reply: AcquireReply) -> (Answer, Option<Timestamp>) {
    match reply {
        AcquireReply::Granted(granted) => {
            (Answer::Granted(read_id(granted.grant_id.as_str())), granted.token)
        }
        AcquireReply::Refused(refused) => {
            let left = refused.info.remaining.map(|left| left.as_millis());
            let left = left.map(|left| i64::try_from(left).unwrap());
            let ahead = refused.ahead.map(|ahead| usize::try_from(ahead).unwrap());
            (Answer::refused(ahead, left), None)
        }
        AcquireReply::UseSlowForm { .. } => (Answer::Unclear, None),
    }
}
