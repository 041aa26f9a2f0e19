//! Commands in a queue whose callers have gone.

use tokio::sync::oneshot;

use super::Waiting;

#[test]
fn callers_that_have_gone_neither_pile_up_nor_are_looked_for_at_each_command() {
    const WAIT: usize = 100;
    const GONE: usize = 10_000;
    let mut waiting = Waiting::default();
    let wait = |waiting: &mut Waiting| {
        let (sender, receiver) = oneshot::channel();
        waiting.push(sender);
        receiver
    };
    let _callers: Vec<_> = (0..WAIT).map(|_| wait(&mut waiting)).collect();
    let mut looks = 0;
    for _ in 0..GONE {
        let before = waiting.senders.len();
        drop(wait(&mut waiting));
        let is_swept = waiting.senders.len() <= before;
        looks += if is_swept { before } else { 0 };
        assert!((WAIT..=2 * WAIT).contains(&waiting.senders.len()), "{}", waiting.senders.len());
    }
    assert!(looks <= 3 * GONE, "{looks}");
}
