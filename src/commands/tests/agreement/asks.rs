//! What acquire calls ask for, on a real server; and the insert that goes out first under churn.

use std::sync::Arc;

use mongodb::error::{CommandError, ErrorKind};

use super::real::{COLLECTION, OWNER, Real, call, duration, instant, read_id, text};
use super::steps::Answer;
use super::{line, server};
use crate::commands::acquire::{Ask, Joins, Reply};
use crate::commands::take::Take;
use crate::rules::churn::Ask as First;
use crate::rules::timing::Timing;
use crate::rules::token::Token;
use crate::runner::Command;

impl Real {
    pub(super) async fn insert(
        &self,
        name: &str,
        asks: &server::Ask,
        sent: i64,
    ) -> (Answer, Option<Token>) {
        let attempt = u32::from(asks.id.attempt);
        let take = Take { ask: ask_for(name, asks), attempt, first: First::Insert, resends: 0 };
        let sent = instant(sent);
        match self.database.run_command(take.build(sent)).await {
            Ok(reply) => match take.decode(&reply, sent).unwrap() {
                Reply::Granted(granted) => {
                    (Answer::Granted(read_id(&granted.grant_id)), granted.token)
                }
                answer @ (Reply::Refused(_) | Reply::AskAgain { .. }) => {
                    panic!("an insert was answered {answer:?}")
                }
            },
            // The name is taken, by whomever.
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

pub(super) fn ask_for(name: &str, asks: &server::Ask) -> Arc<Ask> {
    let joins = |joins: server::Joins| Joins {
        life: duration(joins.life),
        queue_max: u32::try_from(joins.queue_max).unwrap(),
    };
    Arc::new(Ask {
        collection: COLLECTION.to_owned(),
        name: name.to_owned(),
        value: text(asks.value),
        call_id: call(asks.id.call),
        owner: OWNER.to_owned(),
        metadata: line::metadata(),
        timing: Timing::new(duration(asks.ttl), duration(asks.max_clock_skew), None).unwrap(),
        has_oplog: true,
        joins: asks.joins.map(joins),
    })
}
