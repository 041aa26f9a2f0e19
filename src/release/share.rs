//! The commands that end a lease which several may hold. Each is about one document.

use mongo_lease_core::commands::permits::{
    DeleteLastHolder, ReleaseAndAdmit, ReleasePermit, ReleaseScope,
};
use mongo_lease_core::commands::release::{GrantMatch, ReleaseTarget};
use mongo_lease_core::commands::renew::GrantKey;
use mongo_lease_core::commands::reply::Deleted;

use crate::batch::alone::Alone;
use crate::batch::releases::EndReply;
use crate::clock;
use crate::failure::Failure;
use crate::retry::{self, Answer, RetryPolicy};
use crate::runner::Earlier;

/// One of these commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShareStep {
    /// Deletes the document behind the only holder.
    DeleteLast,
    /// Ends one grant, where nobody waits.
    EndOne,
    /// Ends a grant of either form, and admits the waiters that fit then.
    EndAndAdmit(ReleaseScope),
}

/// Sends the command until it is answered.
pub(super) async fn end_share(
    alone: &Alone,
    target: &ReleaseTarget,
    step: ShareStep,
    policy: RetryPolicy,
) -> Result<Answer<EndReply>, Failure> {
    let name = &target.name;
    let key = match &target.grant {
        GrantMatch::Grant(id) => Some(GrantKey::new(name, &target.value, id)),
        GrantMatch::Any | GrantMatch::Call { .. } => None,
    };
    let answer = match (step, key) {
        (ShareStep::DeleteLast, Some(key)) => {
            retry::run_alone(alone, name, DeleteLastHolder { key }, policy).await?
        }
        (ShareStep::EndOne, Some(key)) => {
            let values = clock::tombstone_values()?;
            retry::run_alone(alone, name, ReleasePermit { key, values }, policy).await?
        }
        // They name one grant. The general form, which follows them, knows the others too.
        (ShareStep::DeleteLast | ShareStep::EndOne, None) => {
            Answer { reply: Deleted { count: 0, at: None }, earlier: Earlier::NotApplied }
        }
        (ShareStep::EndAndAdmit(scope), _) => {
            let (target, values) = (target.clone(), clock::tombstone_values()?);
            let command = ReleaseAndAdmit { target, scope, values };
            retry::run_alone(alone, name, command, policy).await?
        }
    };
    let reply = match answer.reply.count {
        0 => EndReply::NotEnded(Earlier::NotApplied),
        _ => EndReply::Ended,
    };
    Ok(Answer { reply, earlier: answer.earlier })
}
