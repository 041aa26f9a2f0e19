//! Runs every decoder on documents of any form, and on real replies with damaged values. None panics, and none reports
//! a grant, an own lease or a confirmation that the bytes do not show.
//!
//! `MONGO_LEASE_FUZZ_CASES` is the number of cases of each decoder (500), for a long run by hand. `MONGO_LEASE_SEED` is
//! the number from which they are generated (1).

mod arbitrary;
mod checks;
mod fast_acquire_checks;
mod holder_checks;
mod index_checks;
mod permit_checks;
mod watch_checks;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt;

use crate::bson::{Bson, DateTime, Document, Timestamp, doc};
use mongo_lease_testbed::Seed;
use proptest::prelude::prop_oneof;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::commands::DecodeError;

/// One decoder.
struct Decoder {
    /// `file::name`, as [`decoders_in_the_source`] finds it.
    name: &'static str,
    /// Replies as a server makes them.
    replies: fn() -> Vec<Document>,
    /// Decodes, and fails if the result claims more than the bytes show. Returns whether it claims something.
    check: fn(&Document) -> bool,
}

const fn decoder(
    name: &'static str,
    replies: fn() -> Vec<Document>,
    check: fn(&Document) -> bool,
) -> Decoder {
    Decoder { name, replies, check }
}

const DECODERS: [Decoder; 30] = [
    decoder("acquire::SlowAcquire", lease_replies, checks::acquire),
    decoder("heartbeat::Heartbeat", counts, checks::beat),
    decoder("heartbeat::FindEntries", batches, checks::in_line),
    decoder("renew::decode", counts, checks::guard),
    decoder("indexes::CountDuplicates", batches, index_checks::count_duplicates),
    decoder("indexes::CreateIndex", counts, index_checks::create_index),
    decoder(
        "indexes::FindOtherFormat",
        index_checks::other_formats,
        index_checks::find_other_format,
    ),
    decoder("indexes::ListIndexes", batches, index_checks::list_indexes),
    decoder("indexes::LookAtCollection", batches, index_checks::look_at_collection),
    decoder("indexes::read_index", indexes, index_checks::read_index),
    decoder("find::FindLeases", batches, checks::look),
    decoder("find::FindGrants", batches, checks::look_behind),
    decoder("release::Tombstone", counts, checks::tombstone),
    decoder("probe::DryRun", dry_runs, checks::dry_run),
    decoder("probe::Hello", hellos, checks::hello),
    decoder("probe::IsHintUsed", plans, checks::is_hint_used),
    decoder("probe::Ping", hellos, checks::ping),
    decoder("release::Delete", counts, checks::delete),
    decoder("release::End", counts, checks::end),
    decoder("release::EndLater", counts, checks::end_later),
    decoder("renew::RenewMany", counts, checks::renew_many),
    decoder("renew::Resume", lease_replies, checks::resume),
    decoder("snapshot::read", leases, checks::seen),
    decoder(
        "fast_acquire::FastAcquire",
        fast_acquire_checks::take_replies,
        fast_acquire_checks::take,
    ),
    decoder("fast_acquire::FastAcquireMany", counts, fast_acquire_checks::take_many),
    decoder("renew::StandaloneToken", ticks, checks::tick),
    decoder("reply::token", counts, checks::token),
    decoder("watch::decode", events, watch_checks::watch),
    decoder("find::FindHolders", holder_checks::batches, watch_checks::find_holders),
    decoder("reply::write_concern_error", counts, checks::write_concern),
];

fn all_decoders() -> impl Iterator<Item = &'static Decoder> {
    DECODERS.iter().chain(&holder_checks::DECODERS).chain(&permit_checks::DECODERS)
}

/// The document in a reply. Fails if a reply without one is answered.
fn shown<'a, T: fmt::Debug>(
    reply: &'a Document,
    answer: &Result<T, DecodeError>,
) -> Option<&'a Document> {
    let document = reply.get("value").and_then(Bson::as_document);
    let is_unreadable = matches!(answer, Err(DecodeError::Reply(_)));
    assert!(document.is_some() || is_unreadable, "{answer:?}");
    document
}

const TIME: Timestamp = Timestamp { time: 1_700_000_000, increment: 5 };

#[test]
fn no_decoder_panics_or_believes_what_is_not_there() {
    let seed = Seed::fixed("replies of any form", 1);
    let mut wrong = Vec::new();
    for decoder in all_decoders() {
        let believed = Cell::new((0_u32, 0_u32));
        let documents = prop_oneof![
            1 => arbitrary::any_document(),
            3 => arbitrary::damaged((decoder.replies)()),
        ];
        let outcome = runner(&seed).run(&documents, |document| {
            let (yes, no) = believed.get();
            let is_believed = (decoder.check)(&document);
            believed.set(if is_believed { (yes + 1, no) } else { (yes, no + 1) });
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

/// Every reader of a document in `commands`: commands with their replies, and functions.
fn decoders_in_the_source() -> BTreeSet<String> {
    // Parts of those in the table, which get values that one of them has checked.
    const PARTS: [&str; 11] = [
        "acquire_parts::token",
        "acquire_reply::document",
        "find::documents",
        "acquire_reply::read",
        "reply::count",
        "reply::number",
        "reply::write_errors",
        "reply::decode_counted",
        "reply::no_write_error",
        "reply::decode_update",
        "snapshot::date",
    ];
    let commands = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/commands");
    let entries = std::fs::read_dir(&commands).unwrap();
    let files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    let mut found = BTreeSet::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|it| it == "rs")) {
        let module = file.strip_prefix(&commands).unwrap().with_extension("");
        let module = module.to_str().unwrap().replace(std::path::MAIN_SEPARATOR, "::");
        for line in std::fs::read_to_string(file).unwrap().lines().map(str::trim_start) {
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
    for part in PARTS {
        assert!(found.remove(part), "{part} has gone");
    }
    found
}

/// A runner that generates this many cases from this seed.
fn runner(seed: &Seed) -> TestRunner {
    let cases = std::env::var("MONGO_LEASE_FUZZ_CASES").map_or(500, |text| text.parse().unwrap());
    let number = seed.number().to_le_bytes();
    let mut seed = [7; 32];
    seed[..number.len()].copy_from_slice(&number);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed))
}

/// Adds the other fields of a reply.
fn replied(mut reply: Document) -> Document {
    reply.extend(doc! {
        "ok": 1.0,
        "operationTime": TIME,
        "$clusterTime": { "clusterTime": TIME, "signature": { "keyId": 7_i64 } },
    });
    reply
}

/// Leases as the projection shows them: ours, another holder's, another program's, one that nobody holds.
fn leases() -> Vec<Document> {
    let now = DateTime::from_millis(1_700_000_000_000);
    let lease = |value: &str, expires_at: Bson| {
        doc! {
            "name": "$name",
            "value": value,
            "now": now,
            "expiresAt": expires_at,
            "waiting": 2,
            "ahead": 1,
            "grant": {
                "value": value, "id": "$call.3", "sentMicros": 5_i64, "owner": "test@host:1",
                "acquiredAt": DateTime::from_millis(1_700_000_000_000), "ttlMs": 30_000_i64,
                "metadata": { "x": 1 },
            },
        }
    };
    let at = Bson::from(DateTime::from_millis(1_700_000_031_000));
    let mut left_behind = lease("$$NOW", at.clone());
    left_behind.insert("value", "another");
    let mut plain = lease("another", at.clone());
    plain.remove("grant");
    vec![
        lease("$$NOW", at.clone()),
        lease("another", at),
        lease("released:1", Bson::Null),
        left_behind,
        plain,
    ]
}

fn lease_replies() -> Vec<Document> {
    let found = |lease| replied(doc! { "lastErrorObject": { "n": 1 }, "value": lease });
    leases().into_iter().map(found).collect()
}

/// The answers of MongoDB 6.0, without a router and behind one.
fn plans() -> Vec<Document> {
    let scan = doc! { "stage": "IXSCAN", "keyPattern": { "name": 1 }, "indexName": "name_1" };
    let plan = doc! { "stage": "FETCH", "inputStage": scan };
    let shards = doc! { "stage": "SINGLE_SHARD", "shards": [{ "winningPlan": plan.clone() }] };
    let other = doc! { "stage": "IXSCAN", "keyPattern": { "expiresAt": 1 } };
    [plan, shards, doc! { "stage": "EOF" }, doc! { "stage": "FETCH", "inputStage": other }]
        .map(|plan| doc! { "queryPlanner": { "winningPlan": plan }, "ok": 1.0 })
        .to_vec()
}

fn dry_runs() -> Vec<Document> {
    let nothing = doc! { "lastErrorObject": { "n": 0 }, "value": Bson::Null };
    vec![replied(nothing), lease_replies().remove(1)]
}

fn ticks() -> Vec<Document> {
    vec![
        replied(doc! { "value": { "grant": { "standaloneToken": TIME } } }),
        replied(doc! { "value": Bson::Null }),
    ]
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

fn batches() -> Vec<Document> {
    let index = doc! { "v": 2, "key": { "name": 1 }, "name": "name_1", "unique": true };
    let kind = doc! { "name": "locks", "type": "collection", "options": {} };
    let duplicates = doc! { "count": 2 };
    let in_line = doc! { "name": "$name", "ours": ["$$NOW", "$$ROOT"] };
    let rows = [index, kind, duplicates, in_line].into_iter().chain(leases());
    let batch = |row| doc! { "cursor": { "firstBatch": [row], "id": 0_i64, "ns": "app.locks" } };
    rows.map(|row| replied(batch(row))).collect()
}

/// Entries of a list of indexes, the second with the field about builds.
fn indexes() -> Vec<Document> {
    let unique = doc! { "v": 2, "key": { "name": 1 }, "name": "name_1", "unique": true };
    let ttl = doc! { "v": 2, "key": { "expiresAt": 1 }, "expireAfterSeconds": 0_i64 };
    vec![unique.clone(), doc! { "spec": unique, "buildUUID": "u" }, ttl]
}

fn hellos() -> Vec<Document> {
    let standalone = doc! { "isWritablePrimary": true, "maxWireVersion": 17 };
    let mut member = standalone.clone();
    member.insert("setName", "rs");
    let mut router = standalone.clone();
    router.insert("msg", "isdbgrid");
    vec![standalone, replied(member), replied(router)]
}

fn events() -> Vec<Document> {
    let expires_at = DateTime::from_millis(1_700_000_031_000);
    let event = |more: Document| {
        let mut event = doc! { "_id": { "_data": "82" }, "clusterTime": TIME };
        event.extend(more);
        event
    };
    let update = |promoted: &str| {
        let fields = doc! { "promoted": promoted, "expiresAt": expires_at };
        let update = doc! { "updateDescription": { "updatedFields": fields } };
        event([doc! { "operationType": "update" }, update].into_iter().flatten().collect())
    };
    let whole = doc! {
        "value": "v", "expiresAt": expires_at, "promoted": "m-c.2@7",
        "grant": { "value": "v", "id": "m-c.2" },
    };
    // It is over: the lease was granted to another holder since.
    let mut over = whole.clone();
    over.insert("grant", doc! { "value": "v", "id": "n-d.1" });
    let replace = |whole| event(doc! { "operationType": "replace", "fullDocument": whole });
    vec![update("m-c.2@7"), update("m-c.2@!7"), replace(whole), replace(over)]
}
