//! Calls that come at the same time and travel in one batch.

use std::collections::HashMap;

use futures_util::TryStreamExt;
use mongo_lease::mongodb::Database;
use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::{Attempt, Lease, LeaseInfo, LeaseManager, Result, Token};
use mongo_lease_testbed::{Server, TestDatabase};
use tokio::task::JoinHandle;

use crate::common::{builder, patient};
use crate::patience::{bounded, joined};

/// More calls than are sent at once and alone. Those behind them travel in a batch.
pub(crate) const FILLERS: usize = 8;

/// Enough for several batches.
pub(crate) const CALLS: usize = 60;

pub(crate) type PendingAcquire = JoinHandle<Result<Attempt>>;

pub(crate) fn names(what: &str, how_many: usize) -> Vec<String> {
    (0..how_many).map(|number| format!("{what}:{number:03}")).collect()
}

/// Calls without a wait, each in a task of its own, begun in this order.
pub(crate) fn start_calls<T: ToString>(
    leases: &LeaseManager,
    names: impl IntoIterator<Item = T>,
) -> Vec<PendingAcquire> {
    let ask = |name: T| {
        let (leases, name) = (leases.clone(), name.to_string());
        tokio::spawn(async move { leases.try_acquire(name).await })
    };
    names.into_iter().map(ask).collect()
}

/// How many leases the calls of [`start_contest`] are for.
pub(crate) const CONTESTED: usize = 8;
/// How many of these calls each process makes for each of the leases.
pub(crate) const RIVALS: usize = 25;

/// Calls of two processes for the same leases, all of them at once. The leases are not renewed within a test.
pub(crate) async fn start_contest(server: &Server, database: &TestDatabase) -> Vec<PendingAcquire> {
    let one = patient(builder(database)).build().await.unwrap();
    let other = patient(LeaseManager::builder(&database.through(&server.client().await)));
    let other = other.build().await.unwrap();
    let each = || [&one, &other].map(|leases| start_calls(leases, names("lease", CONTESTED)));
    (0..RIVALS).flat_map(|_| each()).flatten().collect()
}

/// The answer of a call, which must come.
pub(crate) async fn answer(pending: PendingAcquire) -> Attempt {
    bounded(pending).await.unwrap().expect("an answer")
}

/// The leases that these calls are granted.
pub(crate) async fn granted(pending: Vec<PendingAcquire>) -> Vec<Lease> {
    let answers = joined(pending).await.into_iter();
    answers.map(|answer| answer.expect("an answer").granted().expect("it is free")).collect()
}

/// All grants, by the oplog: for each name the times and the values, in order. A write that keeps the value is no
/// grant.
pub(crate) async fn grants_in_oplog(database: &Database) -> HashMap<String, Vec<(Token, String)>> {
    let oplog = database.client().database("local").collection::<Document>("oplog.rs");
    let writes = doc! { "ns": format!("{}.locks", database.name()), "op": { "$in": ["i", "u"] } };
    let mut entries = oplog.find(writes).await.unwrap();
    let (mut names, mut grants) = (HashMap::new(), HashMap::<String, Vec<_>>::new());
    while let Some(entry) = entries.try_next().await.unwrap() {
        let time = Token::from(entry.get_timestamp("ts").unwrap());
        let written = entry.get_document("o").unwrap();
        let text = |document: &Document, field| document.get_str(field).ok().map(str::to_owned);
        let id = |part| entry.get_document(part).unwrap().get_object_id("_id").unwrap();
        let (name, value) = match entry.get_str("op") {
            Ok("i") => {
                let name = text(written, "name").expect("a name");
                names.insert(id("o"), name.clone());
                (name, text(written, "value"))
            }
            _ => {
                let changed = written.get_document("diff").and_then(|diff| diff.get_document("u"));
                (names[&id("o2")].clone(), text(changed.unwrap_or(written), "value"))
            }
        };
        // A tombstone's value is an end, and not a grant.
        if let Some(value) = value.filter(|value| !LeaseInfo::is_tombstone_value(value)) {
            grants.entry(name).or_default().push((time, value));
        }
    }
    grants
}

/// A grant as its holder saw it.
#[derive(Clone, Debug)]
pub(crate) struct GrantRecord {
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) token: Token,
}

impl GrantRecord {
    pub(crate) fn of(lease: &Lease) -> GrantRecord {
        let token = lease.token().expect("it is held");
        GrantRecord { name: lease.name().to_owned(), value: lease.value().to_owned(), token }
    }
}

/// Asserts that each token is no older than its own grant, and older than all later grants of its name.
pub(crate) async fn assert_in_order(database: &Database, told: &[GrantRecord]) {
    let grants = grants_in_oplog(database).await;
    for grant in told {
        let all = &grants[&grant.name];
        let by_then = all.partition_point(|(time, _)| *time <= grant.token);
        let newest = all[..by_then].last().map(|(_, value)| value);
        let near = &all[by_then.saturating_sub(3)..all.len().min(by_then + 2)];
        let what = "outranks a later one, or is older than itself";
        assert_eq!(newest, Some(&grant.value), "{grant:?} {what}: {near:?}");
    }
}
