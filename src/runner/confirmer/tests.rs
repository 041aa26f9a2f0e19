//! Which writes a majority read is to show, and who is told of them.

use std::time::Duration;

use mongo_lease_core::commands::{GrantKey, SharedSnapshot, Trace, Written};
use mongo_lease_core::rules::Instant;
use mongodb::bson::Timestamp;
use tokio::sync::oneshot::{self, Receiver, error::TryRecvError};

use super::{Asked, AwaitedWrites, Confirmer, GRANTS_MAX};

const SECOND: Duration = Duration::from_secs(1);

/// When the first write is sent.
const SENT: Instant = Instant::from_micros(5_000_000);

fn time(number: u32) -> Timestamp {
    Timestamp { time: number, increment: 0 }
}

/// A measurement, which nobody waits for. It has a second.
fn measurement(sent: Instant) -> AwaitedWrites {
    let deadline = sent.after(SECOND);
    AwaitedWrites { traces: Vec::new(), sent, deadline, has_written: true, sender: None }
}

/// The writes of a command about so many grants, and their caller.
fn writes(sent: Instant, grants: usize) -> (AwaitedWrites, Receiver<Vec<SharedSnapshot>>) {
    let (sender, caller) = oneshot::channel();
    let traces = vec![Trace::Prolonged(GrantKey::new("a", "own", &"own.1".into()), sent); grants];
    (AwaitedWrites { traces, sender: Some(sender), ..measurement(sent) }, caller)
}

fn tell(confirmer: &Confirmer, asked: Asked, now: Instant) {
    confirmer.tell(asked, &Written { found: Vec::new(), until: None }, now);
}

#[test]
fn a_read_shows_the_oldest_write_and_those_sent_within_a_quarter_of_the_delay() {
    // How long the oldest has waited, when each was sent after it, and how many one read shows, in milliseconds.
    for (delay, sent, shown) in [
        (0, vec![0, 0, 1], 2),
        (400, vec![0, 100, 101], 2),
        (800, vec![0, 200, 200, 201], 3),
        // At most a quarter of a second.
        (8_000, vec![0, 250, 251], 2),
    ] {
        let confirmer = Confirmer::default();
        let mut callers = Vec::new();
        for (number, sent) in (1..).zip(&sent) {
            let (awaited, caller) = writes(SENT.after(Duration::from_millis(*sent)), 1);
            confirmer.add(time(number), awaited, SENT.after(Duration::from_millis(delay)));
            callers.push(caller);
        }
        let (read, asked) = confirmer.next(SENT).expect("they wait");
        let asked: Vec<_> = asked.into_keys().map(|(time, _)| time).collect();
        assert_eq!(asked, (1..=shown).map(time).collect::<Vec<_>>(), "{delay} ms {sent:?}");
        assert_eq!(read.after, time(shown));
    }
}

#[test]
fn a_read_is_about_a_bounded_number_of_grants_or_one_command() {
    // The grants of the commands, and how many commands each read shows.
    for (grants, reads) in [
        (vec![1, 1, 1], vec![3]),
        (vec![1_000, 1_000, 1], vec![2, 1]),
        (vec![1, GRANTS_MAX], vec![1, 1]),
        (vec![GRANTS_MAX + 1, 1, 1], vec![1, 2]),
    ] {
        let confirmer = Confirmer::default();
        let mut callers = Vec::new();
        for (number, grants) in (1..).zip(&grants) {
            let (writes, caller) = writes(SENT, *grants);
            confirmer.add(time(number), writes, SENT);
            callers.push(caller);
        }
        let read = || confirmer.next(SENT).map(|(_, asked)| asked.len());
        assert_eq!(std::iter::from_fn(read).collect::<Vec<_>>(), reads, "{grants:?}");
    }
}

#[test]
fn nothing_is_read_for_callers_that_have_gone_or_have_no_time_left() {
    let (in_time, too_late) = (SENT.after(SECOND / 2), SENT.after(SECOND));
    for (has_gone, now, is_read) in
        [(false, in_time, true), (true, in_time, false), (false, too_late, false)]
    {
        let confirmer = Confirmer::default();
        let (writes, mut caller) = writes(SENT, 1);
        assert!(confirmer.add(time(1), writes, SENT), "somebody has to read");
        if has_gone {
            caller.close();
        }
        assert_eq!(confirmer.next(now).is_some(), is_read, "{has_gone}, {now:?}");
        let another = self::writes(SENT, 1).0;
        assert_eq!(confirmer.add(time(2), another, SENT), !is_read, "one task reads");
    }
}

#[test]
fn the_delay_is_measured_by_one_command_at_a_time_until_that_is_stopped() {
    let confirmer = Confirmer::default();
    assert!(confirmer.may_measure() && !confirmer.is_late());
    let (writes, _caller) = writes(SENT, 1);
    confirmer.add(time(1), writes, SENT);
    let (_, asked) = confirmer.next(SENT).expect("somebody waits");
    assert!(confirmer.may_measure(), "that one is no measurement");
    confirmer.put_back(asked);

    confirmer.add(time(2), measurement(SENT), SENT);
    assert!(!confirmer.may_measure());
    let (_, asked) = confirmer.next(SENT).expect("both wait");
    assert!(asked.len() == 2 && !confirmer.may_measure());
    tell(&confirmer, asked, SENT.after(SECOND / 4));
    assert_eq!((confirmer.delay(), confirmer.is_late()), (SECOND / 4, true));
    assert!(confirmer.next(SENT).is_none() && confirmer.may_measure());
    confirmer.confirmed_in_time();
    assert!(!confirmer.is_late());

    confirmer.add(time(3), measurement(SENT), SENT);
    confirmer.stop_measuring();
    assert!(confirmer.next(SENT).is_none() && !confirmer.may_measure());
}

#[test]
fn a_late_answer_is_told_to_those_that_wait_still() {
    let confirmer = Confirmer::default();
    let [(first, mut told), (second, mut told_before)] = [(); 2].map(|()| writes(SENT, 1));
    confirmer.add(time(1), first, SENT);
    confirmer.add(time(2), second, SENT);
    let (_, mut asked) = confirmer.next(SENT).expect("both wait");
    let keys: Vec<_> = asked.keys().copied().collect();
    let before = asked.split_off(&keys[1]);
    confirmer.put_back(asked);
    tell(&confirmer, before, SENT);
    assert!(told.try_recv().is_err() && told_before.try_recv().is_ok());
    tell(&confirmer, confirmer.take(&keys), SENT);
    assert!(told.try_recv().is_ok() && confirmer.next(SENT).is_none());
}

#[test]
fn a_confirmer_that_gives_up_tells_its_callers_and_begins_anew() {
    let confirmer = Confirmer::default();
    let (writes, mut caller) = writes(SENT, 1);
    confirmer.add(time(1), writes, SENT);
    confirmer.add(time(2), measurement(SENT), SENT);
    confirmer.give_up();
    assert_eq!(caller.try_recv(), Err(TryRecvError::Closed));
    assert!(confirmer.may_measure() && confirmer.add(time(3), measurement(SENT), SENT));
}
