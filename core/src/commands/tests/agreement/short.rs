//! The fast-path acquire on a real server, and the answers to both forms.

use mongo_lease_core::rules::guesses::FastForm;
use mongo_lease_core::rules::slots::Lane;

use super::real::{Real, Replied, read_id};
use super::requests::request_for;
use super::small;
use super::steps::Answer;
use crate::commands::acquire::AcquireReply;
use crate::commands::fast_acquire::{FastAcquire, FastAcquireMany, who_was_granted};
use crate::commands::find::FindLeases;
use crate::token::Token;

impl Real {
    /// The fast-path acquire: alone, or with another call's attempt before it and one after it.
    pub(super) async fn take_shortly(
        &self,
        name: &str,
        request: &small::AcquireRequest,
        with_others: bool,
        sent: i64,
    ) -> Replied {
        let attempt = u32::from(request.id.attempt);
        let take = |name: &str| FastAcquire {
            request: request_for(name, request),
            attempt,
            form: FastForm::LookUp,
            resends: 0,
            first_sent: None,
        };
        if !with_others {
            return Ok(answer(self.run(&take(name), sent).await?));
        }
        let acquires =
            ["before", "", "behind"].map(|which| take(&format!("{name}{which}"))).to_vec();
        let command = FastAcquireMany { acquires };
        let taken = self.run(&command, sent).await?;
        let names = command.acquires.iter().map(|take| take.request.name.clone()).collect();
        let look = FindLeases { names, lane: Lane::Acquire, after: Some(taken.at) };
        let found = self.run(&look, sent).await?;
        let mut replies = who_was_granted(&command.acquires, &taken, found);
        Ok(answer(replies.swap_remove(1)))
    }
}

pub(super) fn answer(reply: AcquireReply) -> (Answer, Option<Token>) {
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
        AcquireReply::UseFullForm { .. } => (Answer::Unclear, None),
    }
}
