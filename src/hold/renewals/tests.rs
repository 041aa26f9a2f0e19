//! Which leases share a command, when they are renewed again, and what a look at their documents means for them.

use futures_util::{FutureExt, StreamExt};
use mongo_lease_core::format::SHARED_VALUE;
use mongo_lease_core::rules::{HoldAction, HoldEvent, Instant, Permits};
use mongodb::bson::{DateTime, Document, doc};

use super::{Batch, Due, NumberedHolding, WrittenBy, after_look_at_holders, batches};
use crate::clock::MemoryClock;
use crate::hold::AgendaKey;
use crate::hold::tests::{TTL, granted, seen};
use crate::telemetry::{Event, Events};

/// Leases of these names, which are due. Those in upper case are due alone.
fn due(names: &str, permits: Permits, clock: &MemoryClock) -> Vec<Due> {
    let due = |(number, name): (u32, char)| {
        let (key, alone) = (AgendaKey(number.into()), name.is_uppercase());
        let name = name.to_lowercase().to_string();
        // Their renewals have as much time as those of others: they share commands with them.
        let ttl = TTL * (number + 1);
        Due { member: (key, granted((&name, number), permits, ttl, clock, &Events::new())), alone }
    };
    (0..).zip(names.chars()).map(due).collect()
}

fn one_batch(names: &str, permits: Permits, clock: &MemoryClock) -> Batch {
    let mut all: Vec<_> = batches(due(names, permits, clock), clock.now()).collect();
    assert_eq!(all.len(), 1);
    all.remove(0)
}

fn names(batch: &Batch) -> String {
    batch.names().collect()
}

#[tokio::test(start_paused = true)]
async fn a_document_that_a_transaction_may_hold_has_a_command_of_its_own() {
    let clock = MemoryClock::new();
    let mut all = due("aBc", Permits::EXCLUSIVE, &clock);
    all.extend(due("rPqpRo", Permits::SHARED, &clock));
    let shown = |it: &Batch| (names(it), it.documents(), it.is_blocked, it.is_shared);
    let shown: Vec<_> = batches(all, clock.now()).map(|batch| shown(&batch)).collect();
    // Leases that several hold are in one document, if they have one name.
    let wanted = [
        ("b", 1, true, false),
        ("ac", 2, false, false),
        ("pp", 1, true, true),
        ("rr", 1, true, true),
        ("oq", 2, false, true),
    ];
    let wanted = wanted.map(|(names, documents, is_blocked, is_shared)| {
        (names.to_owned(), documents, is_blocked, is_shared)
    });
    assert_eq!(shown, wanted);
}

#[tokio::test(start_paused = true)]
async fn a_blocked_command_is_split_until_one_document_is_left() {
    let batch = one_batch("pqp", Permits::SHARED, &MemoryClock::new());
    assert_eq!(batch.documents(), 2);
    let pieces = batch.pieces().unwrap_or_else(|_| panic!("it has two documents"));
    assert_eq!(pieces.iter().map(names).collect::<Vec<_>>(), ["pp", "q"]);
    for piece in pieces {
        let wanted = names(&piece);
        assert_eq!(piece.pieces().map_err(|it| names(&it)).err(), Some(wanted));
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewal_is_repeated_after_a_part_of_the_shortest_interval() {
    // Whether it was refused, and which part of the interval it waits at least. It waits twice as long at most.
    for (is_refused, part) in [(false, 20), (true, 4)] {
        for seed in 0..20 {
            let delay = || {
                let clock = MemoryClock::simulated(0, seed);
                one_batch("ab", Permits::EXCLUSIVE, &clock).retry_after(is_refused)
            };
            let (first, delay, again) = (TTL / 3 / part, delay(), delay());
            assert!(delay >= first && delay <= first * 2, "{is_refused}: {delay:?}");
            assert_eq!(delay, again, "a simulation repeats itself");
        }
    }
}

/// A lease in a document that a renewal has written or not, as the test tells of it.
struct Looked {
    name: &'static str,
    /// Whether its holder is in the document, and this command has written it.
    found: Option<bool>,
    is_released: bool,
    becomes: &'static str,
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_again_without_the_one_that_hindered_it() {
    let look = |name, found, is_released, becomes| Looked { name, found, is_released, becomes };
    let leases = [
        look("written", Some(true), false, "renewed"),
        look("written", Some(true), false, "renewed"),
        look("damaged", Some(false), false, "failed"),
        look("damaged", Some(false), false, "failed"),
        look("robbed", None, false, "lost"),
        look("robbed", Some(false), false, "again"),
        // The read may have missed its release.
        look("left", Some(false), true, ""),
        look("left", Some(false), false, "again"),
    ];
    let (clock, events) = (MemoryClock::new(), Events::new());
    let mut heard = Box::pin(events.listen());
    let members: Vec<NumberedHolding> = (0..)
        .zip(&leases)
        .map(|(number, it)| {
            let holding = granted((it.name, number), Permits::SHARED, TTL, &clock, &events);
            (AgendaKey(number.into()), holding)
        })
        .collect();
    clock.advance(TTL / 3);
    let sent = clock.now().whole_micros();
    for ((_, holding), lease) in members.iter().zip(&leases) {
        assert_eq!(holding.on(HoldEvent::Timer, None), HoldAction::Renew { alone: false });
        if lease.is_released {
            assert!(holding.end());
        }
    }
    let documents = leases.iter().map(|it| document(it.name, &leases, sent)).collect();
    let due = members.iter().map(|it| Due { member: it.clone(), alone: false }).collect();
    let batch = batches(due, sent).next().unwrap();
    let (outcomes, again) = after_look_at_holders(&batch, &seen(documents), &WrittenBy::this(sent));

    let mut became = vec![String::new(); leases.len()];
    let mut note = |number: AgendaKey, what: &str| {
        became[usize::try_from(number.0).unwrap()].push_str(what);
    };
    again.iter().for_each(|(number, _)| note(*number, "again"));
    for (number, next) in outcomes {
        let event = heard.next().now_or_never().flatten();
        let what = match (next, event) {
            (HoldAction::WakeAt(_), Some(Event::Renewed { .. })) => "renewed",
            (HoldAction::WakeAt(_), Some(Event::RenewalFailed { .. })) => "failed",
            (HoldAction::Lost(_), Some(Event::Lost { .. })) => "lost",
            _ => "something else",
        };
        note(number, what);
    }
    assert_eq!(became, leases.map(|it| it.becomes));
    assert_eq!(heard.next().now_or_never(), None);
}

/// The document of this name. The holders have the echo of this command, or an earlier one.
fn document(name: &str, leases: &[Looked], sent: Instant) -> Document {
    let echo = |is_written: bool| i64::try_from(sent.as_micros()).unwrap() - i64::from(!is_written);
    let of_name = (0..).zip(leases).filter(|(_, it)| it.name == name);
    let holders = of_name.filter_map(|(number, it): (u32, &Looked)| {
        let echo = echo(it.found?);
        Some(doc! { "value": number.to_string(), "id": format!("{number}.1"), "sentMicros": echo })
    });
    doc! {
        "name": name,
        "value": SHARED_VALUE,
        "expiresAt": DateTime::from_millis(1),
        "holders": holders.collect::<Vec<_>>(),
        "now": DateTime::from_millis(0),
    }
}
