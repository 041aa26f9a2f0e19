//! Acquires on a real server, and the blind insert that goes out first under churn.

use std::sync::Arc;

use mongo_lease_core::rules::guesses::FastForm;
use mongo_lease_core::rules::timing::Timing;
use mongo_lease_core::spec;
use mongodb::error::{CommandError, ErrorKind};

use super::real::{Real, Replied, call, duration, instant, text};
use super::short::answer;
use super::small;
use super::steps::Answer;
use super::texts::{metadata, owner};
use crate::commands::Command;
use crate::commands::acquire::{AcquireRequest, QueueOptions};
use crate::commands::fast_acquire::FastAcquire;

impl Real {
    pub(super) async fn insert(
        &self,
        name: &str,
        request: &small::AcquireRequest,
        sent: i64,
    ) -> Replied {
        let attempt = u32::from(request.id.attempt);
        let take = FastAcquire {
            request: request_for(name, request),
            attempt,
            form: FastForm::Insert,
            resends: 0,
            first_sent: None,
        };
        let sent = instant(sent);
        let command = self.changed::<FastAcquire>(take.build("locks", sent));
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

pub(super) fn request_for(name: &str, request: &small::AcquireRequest) -> Arc<AcquireRequest> {
    let joins = |joins: spec::QueueOptions| QueueOptions {
        life: duration(joins.life),
        queue_max: u32::try_from(joins.queue_max).unwrap(),
    };
    let (ttl, max_clock_skew) = (duration(request.ttl), duration(request.max_clock_skew));
    let timing = Timing::new(ttl, max_clock_skew, None).unwrap();
    Arc::new(AcquireRequest {
        name: name.to_owned(),
        value: text(request.value),
        call_id: call(request.id.call),
        owner: owner(request.details).into(),
        metadata: metadata(request.details),
        timing: Arc::new(timing),
        has_oplog: true,
        joins: request.joins.map(joins),
    })
}
