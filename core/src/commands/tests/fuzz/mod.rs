//! Runs every decoder on documents of any form, and on real replies with damaged values: with each value damaged in
//! each way, and with several at random. None panics. Each claims what the bytes show and nothing else: no grant, no
//! own lease and no confirmation that is not there.
//!
//! `MONGO_LEASE_FUZZ_CASES` is the number of random cases of each decoder (100; 500 in `.ci/full model`).
//! `MONGO_LEASE_SEED` is the number from which they are generated (1).

mod acquire_checks;
mod arbitrary;
mod checks;
mod holder_checks;
mod index_checks;
mod watch_checks;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::bson::{Bson, Document, doc};
use mongo_lease_testbed::Seed;
use proptest::prelude::prop_oneof;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::{TOKEN, files, found, held, with};

struct Decoder {
    /// `file::name`, as [`decoders_in_the_source`] finds it.
    name: &'static str,
    /// Replies as a server makes them.
    replies: fn() -> Vec<Document>,
    /// Decodes, and fails if the result is not what the bytes show. Returns whether it claims something.
    check: fn(&Document) -> bool,
}

const fn decoder(
    name: &'static str,
    replies: fn() -> Vec<Document>,
    check: fn(&Document) -> bool,
) -> Decoder {
    Decoder { name, replies, check }
}

fn all_decoders() -> impl Iterator<Item = &'static Decoder> {
    let tables: [&'static [Decoder]; 5] = [
        &acquire_checks::DECODERS,
        &checks::DECODERS,
        &holder_checks::DECODERS,
        &index_checks::DECODERS,
        &watch_checks::DECODERS,
    ];
    tables.into_iter().flatten()
}

#[test]
fn no_decoder_panics_or_believes_what_is_not_there() {
    let seed = Seed::fixed("replies of any form", 1);
    let mut wrong = Vec::new();
    for decoder in all_decoders().chain([&acquire_checks::WHO_WAS_GRANTED]) {
        let believed = Cell::new((0_u32, 0_u32));
        let check = |document: &Document| {
            let (yes, no) = believed.get();
            let is_believed = (decoder.check)(document);
            believed.set(if is_believed { (yes + 1, no) } else { (yes, no + 1) });
        };
        let replies = (decoder.replies)();
        let fails =
            |document: &Document| catch_unwind(AssertUnwindSafe(|| check(document))).is_err();
        if let Some(document) = replies.iter().flat_map(arbitrary::each_damaged).find(fails) {
            wrong.push(format!("{}: {document}", decoder.name));
            continue;
        }
        let documents =
            prop_oneof![1 => arbitrary::any_document(), 3 => arbitrary::damaged(replies)];
        let outcome = runner(&seed).run(&documents, |document| {
            check(&document);
            Ok(())
        });
        if let Err(failure) = outcome {
            wrong.push(format!("{}: {failure}", decoder.name));
        }
        let (yes, no) = believed.get();
        eprintln!("{:<32} believed {yes:>8}, not believed {no:>8}", decoder.name);
        // A decoder that never claims anything, or always does, has not been tested.
        if yes == 0 || no == 0 && decoder.name != "probe::Ping" {
            wrong.push(format!("{}: not tried", decoder.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_decoder_is_in_the_table() {
    let known: BTreeSet<String> = all_decoders().map(|decoder| decoder.name.to_owned()).collect();
    assert_eq!(known, decoders_in_the_source());
}

/// Parts of the decoders in the table, which get values that one of these has checked.
const PARTS: &str = "acquire_parts::token acquire_reply::document acquire_reply::read \
    find::documents find::read_with_own_holders reply::count reply::decode_counted \
    reply::decode_update reply::no_write_error reply::number reply::write_errors snapshot::date";

/// Every reader of a document in `commands`: commands with their replies, and functions.
fn decoders_in_the_source() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for file in files("", "rs") {
        let module = file.file_stem().unwrap().to_str().unwrap();
        for line in std::fs::read_to_string(&file).unwrap().lines().map(str::trim_start) {
            let command = line.strip_prefix("impl Command for ");
            let function = line
                .split_once("fn ")
                .filter(|(head, rest)| head.starts_with("pub") && rest.contains(": &Document"));
            if let Some(name) = command.or(function.map(|(_, rest)| rest)) {
                let name = name.split([' ', '(', '<']).next().unwrap();
                found.insert(format!("{module}::{name}"));
            }
        }
    }
    for part in PARTS.split(' ') {
        assert!(found.remove(part), "{part} has gone");
    }
    found
}

/// A runner that generates this many cases from this seed.
fn runner(seed: &Seed) -> TestRunner {
    let cases = std::env::var("MONGO_LEASE_FUZZ_CASES").map_or(100, |text| text.parse().unwrap());
    let number = seed.number().to_le_bytes();
    let mut seed = [7; 16];
    seed[..number.len()].copy_from_slice(&number);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    // Without optimization, a fifth of this test's time would go into the other algorithm.
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::XorShift, &seed))
}

/// Adds the other fields of a reply.
fn replied(mut reply: Document) -> Document {
    reply.extend(doc! {
        "ok": 1.0,
        "operationTime": TOKEN,
        "$clusterTime": { "clusterTime": TOKEN, "signature": { "keyId": 7_i64 } },
    });
    reply
}

/// Leases as the projection shows them: ours, another holder's, one that nobody holds, another program's over ours,
/// another program's, and one without a value in which two missing ones are not equal.
fn leases() -> Vec<Document> {
    let of = |value| held(value, "$call.3");
    let mut plain = of("another");
    plain.remove("grant");
    let mut nobodys = with(of("another"), "grant", doc! { "id": "$call.3" });
    nobodys.remove("value");
    let released = with(of("released:1"), "expiresAt", Bson::Null);
    let over_ours = with(of("$$NOW"), "value", "another");
    vec![of("$$NOW"), of("another"), released, over_ours, plain, nobodys]
}

fn lease_replies() -> Vec<Document> {
    leases().into_iter().map(found).map(replied).collect()
}

fn counts() -> Vec<Document> {
    let failed = doc! { "index": 0, "code": 112, "errmsg": "busy" };
    let refused = doc! { "index": 0, "code": 121, "errmsg": "invalid" };
    let unconfirmed = doc! { "code": 64, "errmsg": "timed out", "errInfo": { "wtimeout": true } };
    vec![
        replied(doc! { "n": 1, "nModified": 1 }),
        replied(doc! { "n": 0 }),
        replied(doc! { "n": 1_000_i64 }),
        replied(doc! { "n": 1, "writeErrors": [failed] }),
        replied(doc! { "n": 1, "writeErrors": [refused] }),
        replied(doc! { "n": 1, "writeConcernError": unconfirmed }),
    ]
}

/// The reply to a read that finds these.
fn batch_of(rows: Vec<Bson>) -> Document {
    replied(doc! { "cursor": { "firstBatch": rows, "id": 0_i64, "ns": "app.locks" } })
}

fn batch(row: Document) -> Document {
    batch_of(vec![row.into()])
}

fn batches() -> Vec<Document> {
    let index = doc! { "v": 2, "key": { "name": 1 }, "name": "name_1", "unique": true };
    let kind = doc! { "name": "locks", "type": "collection", "options": {} };
    let duplicates = doc! { "count": 2 };
    let in_line = doc! { "name": "$name", "ours": ["$$NOW", "$$ROOT"] };
    // Rows of one reply are read one by one, also beside what no server sends.
    let other = doc! { "name": "$other", "ours": ["$$ROOT"] };
    let lease = leases().remove(0);
    let several = vec![in_line.clone().into(), Bson::Null, lease.into(), 7.into(), other.into()];
    let rows = [index, kind, duplicates, in_line].into_iter().chain(leases());
    rows.map(batch).chain([batch_of(several)]).collect()
}
