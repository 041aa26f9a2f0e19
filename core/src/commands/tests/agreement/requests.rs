//! Acquires on a real server: the slow one, the fast ones, and the blind insert that goes out first under churn.

use std::sync::Arc;

use crate::rules::guesses::FastForm;
use crate::rules::timing::Timing;
use mongodb::error::{CommandError, Error, ErrorKind};

use super::real::{COLLECTION, Real, Replied};
use super::steps::{Answer, How};
use super::texts::{AcquireAttempt, duration, instant};
use crate::bson::Timestamp;
use crate::commands::Command;
use crate::commands::acquire::{AcquireReply, AcquireRequest, SlowAcquire};
use crate::commands::fast_acquire::{FastAcquire, FastAcquireMany, FastAdmit, who_was_granted};
use crate::commands::find::FindLeases;

impl Real {
    /// Sends an attempt: the fast one in a batch between attempts of other calls.
    pub(super) async fn acquire(&self, name: &str, how: How, attempt: &AcquireAttempt) -> Replied {
        let (_, attempt_no) = attempt.id.as_str().rsplit_once('.').expect("a call and an attempt");
        let (sent, attempt_no) = (attempt.sent, attempt_no.parse().expect("a number"));
        let request = request_for(name, attempt);
        let fast = |name: &str, form| FastAcquire {
            request: request_for(name, attempt),
            attempt_no,
            form,
            resends: 0,
            first_sent: None,
        };
        let reply = match how {
            How::Slow => {
                let predecessor = attempt.predecessor.clone();
                self.run(&SlowAcquire { request, attempt_no, predecessor }, sent).await?
            }
            How::Fast => self.run(&fast(name, FastForm::LookUp), sent).await?,
            How::FastWithOthers => {
                let names = ["before", "", "behind"].map(|which| format!("{name}{which}"));
                let acquires = names.each_ref().map(|name| fast(name, FastForm::LookUp)).to_vec();
                let command = FastAcquireMany { acquires };
                let taken = self.run(&command, sent).await?;
                let look = FindLeases { names: names.to_vec(), after: Some(taken.at) };
                let found = self.run(&look, sent).await?;
                who_was_granted(&command.acquires, &taken, found).swap_remove(1)
            }
            How::Admit => self.run(&FastAdmit { request, attempt_no }, sent).await?,
            How::Insert => {
                let insert = fast(name, FastForm::Insert);
                let command = insert.build(COLLECTION, instant(sent));
                let command = self.changed::<FastAcquire>(command);
                match self.database.run_command(command).await {
                    Ok(reply) => insert.decode(&reply, instant(sent))?,
                    // The name is taken.
                    Err(error) if is_duplicate_key(&error) => {
                        return Ok((Answer::Matched(false), None));
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        };
        Ok(answer(reply))
    }
}

fn is_duplicate_key(error: &Error) -> bool {
    matches!(*error.kind, ErrorKind::Command(CommandError { code: 11_000, .. }))
}

fn request_for(name: &str, request: &AcquireAttempt) -> Arc<AcquireRequest> {
    let (ttl, max_clock_skew) = (duration(request.ttl), duration(request.max_clock_skew));
    let timing = Timing::new(ttl, max_clock_skew, None).unwrap();
    Arc::new(AcquireRequest {
        name: name.to_owned(),
        value: request.value.clone(),
        call_id: request.id.call(),
        owner: request.details.owner.clone().into(),
        metadata: request.details.metadata.clone(),
        permits: request.permits,
        timing: Arc::new(timing),
        has_oplog: true,
        joins: request.joins,
    })
}

fn answer(reply: AcquireReply) -> (Answer, Option<Timestamp>) {
    match reply {
        AcquireReply::Granted(granted) => (Answer::Granted(granted.grant_id), granted.token),
        AcquireReply::Refused(refused) => {
            let left = refused.info.remaining.map(|left| left.as_millis());
            let left = left.map(|left| i64::try_from(left).unwrap());
            let ahead = refused.ahead.map(|ahead| usize::try_from(ahead).unwrap());
            (Answer::refused(ahead, left), None)
        }
        AcquireReply::UseSlowForm { .. } => (Answer::Unclear, None),
    }
}
