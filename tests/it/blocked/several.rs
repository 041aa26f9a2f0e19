//! Several blocked documents in one command.

use std::time::Instant;

use mongo_lease::Released;

use super::{By, names, setup};
use crate::common::assert_done;
use crate::patience::{bounded, until_nothing_is_left};

#[tokio::test]
async fn each_of_several_blocked_leases_is_found() {
    const BLOCKED: [usize; 5] = [0, 7, 8, 31, 59];
    let setup = setup().await;
    let held = setup.hold(&names("lease", 60)).await;
    let mut sessions = Vec::new();
    for number in BLOCKED {
        sessions.push(setup.hold_up(&held[number], By::Stranger).await);
    }
    let started = Instant::now();
    let releasing: Vec<_> = held.into_iter().map(|lease| tokio::spawn(lease.release())).collect();
    let (mut blocked, mut others) = (Vec::new(), Vec::new());
    for (number, release) in releasing.into_iter().enumerate() {
        if BLOCKED.contains(&number) { blocked.push(release) } else { others.push(release) }
    }
    for release in others {
        assert_eq!(bounded(release).await.unwrap().unwrap(), Released::Released);
    }
    eprintln!("55 of 60 releases were answered after {:?}", started.elapsed());
    assert!(blocked.iter().all(|release| !release.is_finished()));
    for mut session in sessions {
        session.abort_transaction().await.unwrap();
    }
    // A command may be cut off just when its documents become free. It is then sent again, and may find nothing.
    for release in blocked {
        assert_done(bounded(release).await.unwrap().unwrap(), "a blocked lease");
    }
    until_nothing_is_left(&setup.database).await;
}
