//! Several blocked documents in one command.

use mongo_lease::Released;

use super::{By, names, setup, start_releases};
use crate::common::assert_done;
use crate::patience::{joined, until_nothing_is_left};

#[tokio::test]
async fn each_of_several_blocked_leases_is_found() {
    const BLOCKED: [usize; 5] = [0, 7, 8, 31, 59];
    let setup = setup().await;
    let held = setup.hold(&names("lease", 60)).await;
    let mut sessions = Vec::new();
    for number in BLOCKED {
        sessions.push(setup.hold_up(&held[number], By::Stranger).await);
    }
    let (mut blocked, mut others) = (Vec::new(), Vec::new());
    for (number, release) in start_releases(held).into_iter().enumerate() {
        if BLOCKED.contains(&number) { blocked.push(release) } else { others.push(release) }
    }
    for released in joined(others).await {
        assert_eq!(released.unwrap(), Released::Released);
    }
    assert!(blocked.iter().all(|release| !release.is_finished()));
    for mut session in sessions {
        session.abort_transaction().await.unwrap();
    }
    // A command may be cut off just when its documents become free. It is then sent again, and may find nothing.
    for released in joined(blocked).await {
        assert_done(released.unwrap(), "a blocked lease");
    }
    until_nothing_is_left(&setup.database).await;
}
