//! The short form of an acquire on a real server; and what both forms are answered.

use super::asks::ask_for;
use super::real::{COLLECTION, Real, read_id};
use super::server;
use super::steps::Answer;
use crate::commands::acquire::Reply;
use crate::commands::inspect::Look;
use crate::commands::take::{Take, TakeMany, who_was_granted};
use crate::rules::churn::Ask as First;
use crate::rules::token::Token;
use crate::runner::Lane;

impl Real {
    /// The short form: alone, or with another's attempt before it and one behind it.
    pub(super) async fn take_shortly(
        &self,
        name: &str,
        asks: &server::Ask,
        with_others: bool,
        sent: i64,
    ) -> (Answer, Option<Token>) {
        let attempt = u32::from(asks.id.attempt);
        let take = |name: &str| Take {
            ask: ask_for(name, asks),
            attempt,
            first: First::LookUp,
            resends: 0,
        };
        if !with_others {
            return answer(self.run(&take(name), sent).await);
        }
        let takes = ["before", "", "behind"].map(|which| take(&format!("{name}{which}"))).to_vec();
        let collection = COLLECTION.to_owned();
        let command = TakeMany { collection: collection.clone(), takes };
        let taken = self.run(&command, sent).await;
        let names = command.takes.iter().map(|take| take.ask.name.clone()).collect();
        let look = Look { collection, names, lane: Lane::Acquire, after: Some(taken.at) };
        let found = self.run(&look, sent).await;
        let mut replies = who_was_granted(&command.takes, &taken, found);
        answer(replies.swap_remove(1))
    }
}

pub(super) fn answer(reply: Reply) -> (Answer, Option<Token>) {
    match reply {
        Reply::Granted(granted) => (Answer::Granted(read_id(&granted.grant_id)), granted.token),
        Reply::Refused(refused) => {
            let left = refused.info.remaining.map(|left| left.as_millis());
            let left = left.map(|left| i64::try_from(left).unwrap());
            let ahead = refused.ahead.map(|ahead| usize::try_from(ahead).unwrap());
            (Answer::refused(ahead, left), None)
        }
        Reply::AskAgain { .. } => (Answer::Unclear, None),
    }
}
