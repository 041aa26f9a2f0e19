//! First attempts of acquire calls, alone or together.

use crate::combining::Combine;
use crate::commands::acquire::Reply;
use crate::commands::inspect::Look;
use crate::commands::take::{Take, TakeMany, who_was_granted};
use crate::error::Failure;
use crate::rules::churn::Ask as First;
use crate::rules::time::Instant;
use crate::runner::{Answered, Lane, Runner};

/// First attempts at leases of one collection.
pub(crate) struct Takes {
    pub(crate) collection: String,
}

impl Combine for Takes {
    type Item = Take;
    type Reply = Reply;

    async fn carry_out(
        &self,
        runner: &Runner,
        takes: Vec<Take>,
        deadline: Instant,
    ) -> Vec<Answered<Reply>> {
        if let [take] = takes.as_slice() {
            return vec![or_ask_again(take, runner.attempt(take, deadline).await)];
        }
        match self.take_together(runner, &takes, deadline).await {
            Ok(replies) => replies.into_iter().map(Ok).collect(),
            Err(failure) => takes.iter().map(|_| Err(failure.clone())).collect(),
        }
    }
}

impl Takes {
    async fn take_together(
        &self,
        runner: &Runner,
        takes: &[Take],
        deadline: Instant,
    ) -> Result<Vec<Reply>, Failure> {
        let collection = self.collection.clone();
        let command = TakeMany { collection, takes: takes.to_vec() };
        let taken = runner.attempt(&command, deadline).await?;
        let look = Look {
            collection: self.collection.clone(),
            names: takes.iter().map(|take| take.ask.name.clone()).collect(),
            lane: Lane::Ask,
            after: Some(taken.at),
        };
        // What was granted is not known where the look fails: each finds out by itself.
        let found = runner.attempt(&look, deadline).await.map_err(|it| it.or_maybe(true))?;
        Ok(who_was_granted(takes, &taken, found))
    }
}

/// An insert that has found the name taken has done nothing, nor has one that a router refused because it names no
/// shard: the whole form may go out at once.
fn or_ask_again(take: &Take, answer: Answered<Reply>) -> Answered<Reply> {
    const DUPLICATE_KEY: i32 = 11_000;
    const SHARD_KEY_NOT_FOUND: i32 = 61;
    match answer {
        Err(failure)
            if take.first == First::Insert
                && matches!(failure.server_code(), Some(DUPLICATE_KEY | SHARD_KEY_NOT_FOUND)) =>
        {
            Ok(Reply::AskAgain { maybe_granted: false })
        }
        answer => answer,
    }
}
