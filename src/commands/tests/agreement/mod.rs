//! The model of the server that the model checker explores, compared with a real server: random sequences of the
//! commands that the library sends, and the same answers and documents from both.
//!
//! Nothing here waits for time to pass: leases are given hours, and what has run out was set back by hours. So times
//! that differ by the length of this test are the same time.
//!
//! `MONGO_LEASE_MODEL_SEED=<number>` runs the sequences of an earlier run again.

mod real;
// The model checker uses more of it.
#[allow(dead_code)]
#[path = "../../../../tests/model/src/server.rs"]
mod server;
mod steps;

use futures_util::stream::{self, StreamExt};
use mongo_lease_testbed::Server;

use real::Real;
use server::Document;
use steps::{Answer, Chance, Step};

const SEQUENCES: u64 = 300;
const STEPS: usize = 20;
/// Sequences under way at once.
const SIDE_BY_SIDE: usize = 8;

#[tokio::test]
async fn the_model_of_the_server_answers_as_the_server_does() {
    let seed = match std::env::var("MONGO_LEASE_MODEL_SEED") {
        Ok(text) => text.parse().expect("a seed is a number"),
        Err(_) => crate::clock::now().as_nanos(),
    };
    eprintln!("MONGO_LEASE_MODEL_SEED={seed}");
    let database = Server::shared().database().await;
    let real = Real::new(&database).await;
    let mut sequences = stream::iter(0..SEQUENCES)
        .map(|number| compare(&real, seed, number))
        .buffer_unordered(SIDE_BY_SIDE);
    let mut counts = [0; Answer::KINDS];
    while let Some(answers) = sequences.next().await {
        answers.iter().for_each(|answer| counts[answer.kind()] += 1);
    }
    eprintln!("answers by kind: {counts:?}");
    // Where nothing is ever granted, or never refused, both agree on nothing.
    assert!(counts.iter().all(|&count| count > 100), "some answers are rare: {counts:?}");
    database.drop_database().await.unwrap();
}

/// One sequence, on a name of its own.
async fn compare(real: &Real, seed: u64, number: u64) -> Vec<Answer> {
    let mut chance = Chance::new(seed.wrapping_add(number));
    let name = format!("${seed}-{number}");
    let mut document: Option<Document> = None;
    let mut answers = Vec::new();
    let mut taken: Vec<Step> = Vec::new();
    let mut newest_token = None;
    for sent in 1..=STEPS {
        let sent = i64::try_from(sent).expect("a small number");
        let step = Step::choose(&mut chance, document);
        taken.push(step);
        let before = document;
        let (after, expected) = step.in_the_model(before, real.now(), sent);
        document = after;
        let (answer, token) = real.take(&name, step, sent).await;
        let found = real.document(&name).await;
        let context = || format!("seed {seed}, sequence {number}: {taken:#?}, before {before:#?}");
        assert_eq!(answer, expected, "{}", context());
        assert!(real.is_same(found, document), "{found:#?} is not {document:#?}: {}", context());
        if let Some(token) = token {
            assert!(newest_token < Some(token), "the token did not rise: {}", context());
            newest_token = Some(token);
        }
        answers.push(answer);
    }
    answers
}
