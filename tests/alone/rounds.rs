//! Rounds that a machine which is busy for a moment may disturb, and that are repeated then.

use crate::patience::until;
use crate::spy::Spy;

/// The names of the commands that `round` sends. A machine that is busy for a moment cuts off one or the other, which
/// is then sent again: such a round is repeated.
pub(crate) async fn undisturbed(spy: &Spy, round: impl AsyncFn()) -> Vec<String> {
    let names = async || {
        drop((spy.names(), spy.failures()));
        round().await;
        spy.failures().is_empty().then(|| spy.names())
    };
    until("a round without a failure", names).await
}
