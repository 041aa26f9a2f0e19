//! Waiting in line: order, hand-off, and what it costs.

use std::time::{Duration, Instant};

use mongo_lease::Event;
use mongo_lease_testbed::Server;

use crate::common::{builder, migrated};
use crate::patience::{Listener, soon};

#[tokio::test]
async fn managers_are_granted_in_the_order_in_which_they_came() {
    let server = Server::start();
    let database = migrated(&server).await;
    let holder = builder(&database).build().await.unwrap();
    let lease = holder.acquire("a").await.unwrap();
    let (sender, mut granted) = tokio::sync::mpsc::unbounded_channel();
    for number in 0..5 {
        let leases = builder(&database).build().await.unwrap();
        let mut events = Listener::of(&leases);
        let sender = sender.clone();
        tokio::spawn(async move {
            let lease = leases.acquire("a").await.unwrap();
            sender.send((number, lease.token().unwrap(), Instant::now())).unwrap();
            lease.release().await.unwrap();
        });
        events.find(|event| matches!(event, Event::Queued { .. }).then_some(())).await;
        events.find(|event| matches!(event, Event::Watching).then_some(())).await;
    }
    let before = server.command_counts().await;
    let mut started = Instant::now();
    let mut newest = lease.token().unwrap();
    lease.release().await.unwrap();
    for number in 0..5 {
        let (next, token, at) = soon("a grant", granted.recv()).await.unwrap();
        eprintln!("{number}: {:?}", at - started);
        started = at;
        assert_eq!(next, number);
        assert!(token > newest);
        newest = token;
    }
    let after = server.command_counts().await;
    eprintln!("{before:?}\n{after:?}");
    let _ = Duration::ZERO;
}
