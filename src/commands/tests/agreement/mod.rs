//! Compares the specification of the commands with a real server: random sequences of the library's commands must give
//! the same answers and documents on both.
//!
//! Nothing here waits for time to pass: leases last for hours, and an expired one was set back by hours. So times that
//! differ by less than the length of this test count as equal.
//!
//! `MONGO_LEASE_SEED=<number>` repeats the sequences of an earlier run. `MONGO_LEASE_MODEL_SEQUENCES=<number>` is how
//! many there are (400).

mod queue;
mod real;
mod requests;
mod short;
mod small;
mod steps;
mod texts;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, resume_unwind};

use futures_util::FutureExt;
use futures_util::stream::{self, StreamExt};
use mongo_lease_testbed::{Seed, Server};

use real::Real;
use small::{Document, GrantMatch, Promoted, Small};
use steps::{Answer, Step};

use crate::rules::tests::chance::Chance;
use crate::spec::Types;

const SEQUENCES: u64 = 400;
/// Sequences in which specification and server once differed.
const ONCE_DIFFERENT: [u64; 1] = [1_340_596_276_018_216_436];
const STEPS: usize = 24;
/// How many sequences run at once.
const SIDE_BY_SIDE: usize = 8;

#[tokio::test]
async fn the_server_does_what_the_specification_says() {
    let seed = Seed::fresh("the specification against a real server");
    let count = std::env::var("MONGO_LEASE_MODEL_SEQUENCES").ok();
    let count = count.map_or(SEQUENCES, |text| text.parse().expect("a number of sequences"));
    let database = Server::shared().database().await;
    let real = Real::new(&database).await;
    let numbers = (0..count).map(|number| seed.number_of(number));
    let mut sequences = stream::iter(numbers.chain(ONCE_DIFFERENT).enumerate())
        .map(|(place, number)| compare(&real, place, number))
        .buffer_unordered(SIDE_BY_SIDE);
    let mut counts: BTreeMap<&str, u64> = KINDS.into_iter().map(|kind| (kind, 0)).collect();
    while let Some(kinds) = sequences.next().await {
        kinds.into_iter().for_each(|kind| *counts.entry(kind).or_default() += 1);
    }
    eprintln!("{counts:#?}");
    // If nothing is ever granted, or never refused, the comparison shows nothing. In 400 sequences the rarest kind
    // comes some 55 times, with a standard deviation of 8; a shorter run may miss it.
    let has_seen_all = counts.values().all(|&seen| seen > 20);
    assert!(has_seen_all || count < SEQUENCES, "some are rare: {counts:#?}");
    database.drop_database().await.unwrap();
}

/// The kinds of results that have to occur often enough.
const KINDS: [&str; 16] = [
    "granted",
    "granted what the predecessor had",
    "in line first",
    "in line behind others",
    "no room, or not to wait",
    "matched",
    "not matched",
    "done",
    "promoted",
    "ended for want of a successor",
    "nudged",
    "kept, for somebody waits",
    "taken shortly",
    "taken shortly with others",
    "refused shortly",
    "left to the whole form",
];

/// The kinds of results of one step.
fn kinds(
    step: &Step,
    answer: Answer,
    before: Option<&Document>,
    after: Option<&Document>,
) -> Vec<&'static str> {
    let mut kinds = vec![match answer {
        Answer::Unclear => "left to the whole form",
        Answer::Granted(_) => "granted",
        Answer::Refused { ahead: Some(0), .. } => "in line first",
        Answer::Refused { ahead: Some(_), .. } => "in line behind others",
        Answer::Refused { ahead: None, .. } => "no room, or not to wait",
        Answer::Matched(true) => "matched",
        Answer::Matched(false) => "not matched",
        Answer::Done => "done",
    }];
    let told = |document: Option<&Document>| document.and_then(|document| document.promoted);
    match (step, answer, told(after)) {
        (Step::Acquire(request), Answer::Granted(_), _) => {
            let had = before.and_then(|document| document.value);
            kinds.extend((had.is_some() && had == request.predecessor).then_some(KINDS[1]));
        }
        (Step::FastAcquire { with_others, .. }, Answer::Granted(_), _) => {
            kinds.push(if *with_others { "taken shortly with others" } else { "taken shortly" });
        }
        (Step::FastAcquire { .. }, Answer::Refused { .. }, _) => kinds.push("refused shortly"),
        (Step::HandOff { .. }, Answer::Matched(true), _)
            if after.is_some_and(|it| it.value == Some(Small::nobody())) =>
        {
            kinds.push("ended for want of a successor");
        }
        (_, _, Some(Promoted::Entry { .. })) if told(after) != told(before) => {
            kinds.push("promoted");
        }
        (Step::ReleaseLater { .. }, Answer::Matched(true), Some(Promoted::Recheck { .. })) => {
            kinds.push("nudged");
        }
        (&Step::Release { value, which: GrantMatch::Any }, Answer::Matched(false), _)
            if before.is_some_and(|it| it.value == Some(value)) =>
        {
            kinds.push("kept, for somebody waits");
        }
        (_, _, _) => {}
    }
    kinds
}

/// Compares one sequence, on a name of its own. As a seed, its number makes it the first one.
async fn compare(real: &Real, place: usize, seed: u64) -> Vec<&'static str> {
    let mut chance = Chance::new(seed);
    let name = format!("${place}-{seed}");
    let mut document: Option<Document> = None;
    let mut seen = Vec::new();
    let mut taken: Vec<Step> = Vec::new();
    let mut newest_token = None;
    for sent in 1..=STEPS {
        let sent = i64::try_from(sent).expect("a small number");
        let step = Step::choose(&mut chance, document.as_ref());
        taken.push(step.clone());
        let before = document;
        let (after, expected) = step.clone().in_the_spec(before.clone(), real.now(), sent);
        let context = || format!("{}={seed}: {taken:#?}, before {before:#?}", Seed::VARIABLE);
        let both = async { (real.take(&name, &step, sent).await, real.document(&name).await) };
        let ((answer, token), found) = match AssertUnwindSafe(both).catch_unwind().await {
            Ok(both) => both,
            Err(panic) => {
                eprintln!("the server did not answer: {}", context());
                resume_unwind(panic)
            }
        };
        assert_eq!(answer, expected, "{}", context());
        assert!(real.is_same(&found, &after), "{found:#?} is not {after:#?}: {}", context());
        if let Some(token) = token {
            assert!(newest_token < Some(token), "the token did not rise: {}", context());
            newest_token = Some(token);
        }
        seen.extend(kinds(&step, answer, before.as_ref(), after.as_ref()));
        document = after;
    }
    seen
}
