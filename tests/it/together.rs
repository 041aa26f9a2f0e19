//! Calls that come at the same time and travel together, in one command.
//!
//! What each is granted and told does not hang on its company; how many commands there are does.

mod blocked;
mod cost;
mod gone;
mod look;
mod lost;
mod releases;
mod tokens;

use std::collections::HashMap;

use futures_util::TryStreamExt;
use mongo_lease::mongodb::Database;
use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::{Attempt, Lease, LeaseInfo, LeaseManager, Result, Token};
use tokio::task::JoinHandle;

use crate::patience::bounded;

/// More than go at once and alone. Of so many calls and the next ones, the next ones go together.
const FILLERS: usize = 8;

type Asking = JoinHandle<Result<Attempt>>;

fn names(what: &str, how_many: usize) -> Vec<String> {
    (0..how_many).map(|number| format!("{what}:{number:03}")).collect()
}

/// Calls that ask once, each in a task of its own, started in this order.
fn start_calls<T: ToString>(
    leases: &LeaseManager,
    names: impl IntoIterator<Item = T>,
) -> Vec<Asking> {
    let ask = |name: T| {
        let (leases, name) = (leases.clone(), name.to_string());
        tokio::spawn(async move { leases.try_acquire(name).await })
    };
    names.into_iter().map(ask).collect()
}

/// What a call was told, which has to come.
async fn answer(asking: Asking) -> Attempt {
    bounded(asking).await.unwrap().expect("an answer")
}

/// The leases that these calls are granted.
async fn granted(asking: Vec<Asking>) -> Vec<Lease> {
    let mut leases = Vec::new();
    for asking in asking {
        leases.push(answer(asking).await.granted().expect("it is free"));
    }
    leases
}

/// All grants, by the oplog: for each name the times and the values, in order. What leaves the value as it is is none.
async fn grants_in_oplog(database: &Database) -> HashMap<String, Vec<(Token, String)>> {
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
        // Nobody's value is an end, and not a grant.
        if let Some(value) = value.filter(|value| !LeaseInfo::is_tombstone_value(value)) {
            grants.entry(name).or_default().push((time, value));
        }
    }
    grants
}

/// A grant as its holder was told of it.
#[derive(Clone, Debug)]
struct Told {
    name: String,
    value: String,
    token: Token,
}

impl Told {
    fn of(lease: &Lease) -> Told {
        let token = lease.token().expect("it is held");
        Told { name: lease.name().to_owned(), value: lease.value().to_owned(), token }
    }
}

/// That each token is no older than its own grant, and older than all grants of its name that came later.
async fn assert_in_order(database: &Database, told: &[Told]) {
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
