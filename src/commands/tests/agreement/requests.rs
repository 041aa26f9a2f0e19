//! Acquires on a real server, and the blind insert that goes out first under churn.

use std::sync::Arc;

use mongodb::error::{CommandError, ErrorKind};

use super::real::{Real, call, duration, instant, read_id, text};
use super::small;
use super::steps::Answer;
use super::texts::{metadata, owner};
use crate::commands::Command;
use crate::commands::acquire::{AcquireReply, AcquireRequest, QueueOptions};
use crate::commands::fast_acquire::FastAcquire;
use crate::rules::churn::FastForm;
use crate::rules::timing::Timing;
use crate::rules::token::Token;
use crate::spec;

impl Real {
    pub(super) async fn insert(
        &self,
        name: &str,
        request: &small::AcquireRequest,
        sent: i64,
    ) -> (Answer, Option<Token>) {
        let attempt = u32::from(request.id.attempt);
        let take = FastAcquire {
            request: request_for(name, request),
            attempt,
            form: FastForm::Insert,
            resends: 0,
        };
        let sent = instant(sent);
        match self.database.run_command(take.build("locks", sent)).await {
            Ok(reply) => match take.decode(&reply, sent).unwrap() {
                AcquireReply::Granted(granted) => {
                    (Answer::Granted(read_id(granted.grant_id.as_str())), granted.token)
                }
                answer @ (AcquireReply::Refused(_) | AcquireReply::UseFullForm { .. }) => {
                    panic!("an insert was answered {answer:?}")
                }
            },
            // The name is taken.
            Err(error) => {
                let kind = error.kind.as_ref();
                let ErrorKind::Command(CommandError { code: 11_000, .. }) = kind else {
                    panic!("{error}");
                };
                (Answer::Matched(false), None)
            }
        }
    }
}

pub(super) fn request_for(name: &str, request: &small::AcquireRequest) -> Arc<AcquireRequest> {
    let joins = |joins: spec::QueueOptions| QueueOptions {
        life: duration(joins.life),
        queue_max: u32::try_from(joins.queue_max).unwrap(),
    };
    Arc::new(AcquireRequest {
        name: name.to_owned(),
        value: text(request.value),
        call_id: call(request.id.call),
        owner: owner(request.details),
        metadata: metadata(request.details),
        timing: Timing::new(duration(request.ttl), duration(request.max_clock_skew), None).unwrap(),
        has_oplog: true,
        joins: request.joins.map(joins),
    })
}
