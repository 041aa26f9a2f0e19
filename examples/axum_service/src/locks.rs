//! The lock service: leases for programs that speak HTTP alone.
//!
//! Nothing of a lock is kept in a process: each request may go to another machine. The client is the holder, and
//! renews its lock itself.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::{StreamExt, TryStreamExt};
use mongo_lease::tower::KeyRules;
use mongo_lease::{Attempt, Error, LeaseInfo, LeaseKey, LeaseManager, Released};
use serde::{Deserialize, Serialize};

use crate::problem::Problem;

const PREFIX: &str = "lock";
/// How many locks one listing gives at most.
const LISTED_MAX: usize = 1_000;
/// How long a client may have a lock without a sign of life.
const TTL_MAX: Duration = Duration::from_secs(300);
/// How many grants are remembered before those that have run out are forgotten.
const FORGET_FROM: usize = 1_024;

type Answer<T> = Result<Json<T>, Problem>;

#[derive(Clone)]
pub(crate) struct Locks {
    leases: LeaseManager,
    rules: KeyRules,
    granted: Arc<Mutex<Granted>>,
}

/// What this process has granted, to release it at the end: the value, and until when it can be held.
#[derive(Default)]
struct Granted {
    by_name: HashMap<String, (String, Instant)>,
    forget_at: usize,
}

#[derive(Deserialize)]
struct Asked {
    ttl_ms: Option<u64>,
}

#[derive(Deserialize)]
struct Wanted {
    pattern: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Lock {
    key: String,
    remaining_ms: u128,
    /// The fencing token, as a string.
    token: String,
    /// What it takes to renew it, once.
    lease: LeaseKey,
}

/// What everybody may know of a lock: neither its value, with which it can be released, nor its holder's host.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LockView {
    key: String,
    held: bool,
    remaining_ms: u128,
}

#[derive(Serialize)]
struct Gone {
    released: bool,
}

impl Locks {
    pub(crate) fn new(leases: &LeaseManager) -> mongo_lease::Result<Locks> {
        // What is special in a pattern is in no key.
        let is_plain =
            |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
        let rules = KeyRules::new(PREFIX)?.characters(is_plain);
        Ok(Locks { leases: leases.clone(), rules, granted: Arc::default() })
    }

    pub(crate) fn routes(&self) -> Router {
        Router::new()
            .route("/lock/{key}/{id}", post(acquire).put(renew).delete(release))
            .route("/lock/{key}", get(inspect))
            .route("/locks", get(list))
            .with_state(self.clone())
    }

    /// Releases what this process has granted and what is still held, and says how many that were.
    pub(crate) async fn release_all(&self) -> usize {
        let granted = std::mem::take(&mut self.granted().by_name);
        let mut released = 0;
        for (name, (value, _)) in granted {
            let done = self.leases.release(name, value).await;
            released += usize::from(matches!(done, Ok(Released::Released)));
        }
        released
    }

    /// The lease's name, and its value.
    fn name_and_value(&self, key: &str, id: String) -> Result<(String, String), Problem> {
        self.rules.name(&id).map_err(invalid)?;
        Ok((self.rules.name(key).map_err(invalid)?, id))
    }

    /// Hands the lease to the client.
    async fn hand_out(&self, key: String, lease: mongo_lease::Lease) -> Result<Lock, Error> {
        let token = lease.token()?.to_string();
        let remaining = lease.remaining();
        // From here on it is nobody's in this process: dropping a `Lease` would release it.
        let lease = lease.detach().await?;
        self.remember(&lease, remaining);
        Ok(Lock { key, remaining_ms: remaining.as_millis(), token, lease })
    }

    fn remember(&self, lease: &LeaseKey, remaining: Duration) {
        let now = Instant::now();
        let mut granted = self.granted();
        if granted.by_name.len() >= granted.forget_at.max(FORGET_FROM) {
            granted.by_name.retain(|_, (_, until)| *until > now);
            granted.forget_at = 2 * granted.by_name.len();
        }
        let held = (lease.value().to_owned(), now + remaining);
        granted.by_name.insert(lease.name().to_owned(), held);
    }

    fn granted(&self) -> std::sync::MutexGuard<'_, Granted> {
        self.granted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn invalid(_: mongo_lease::tower::InvalidKey) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "invalid")
}

/// Asked again with the same id, it is granted again, and renewed: an answer that was lost does not lock a client out.
async fn acquire(
    State(locks): State<Locks>,
    Path((key, id)): Path<(String, String)>,
    Query(asked): Query<Asked>,
) -> Answer<Lock> {
    let (name, value) = locks.name_and_value(&key, id)?;
    let mut ask = locks.leases.acquire(name).value(value).renew(false);
    if let Some(ttl) = asked.ttl_ms {
        ask = ask.ttl(Duration::from_millis(ttl).min(TTL_MAX));
    }
    match ask.try_once().await? {
        Attempt::Granted(lease) => Ok(Json(locks.hand_out(key, lease).await?)),
        Attempt::Busy(held) => Err(Problem::held(&held)),
    }
}

/// Exact: it renews this very grant, and never takes the lock anew. A key is good for one renewal, whose answer has the
/// next one; a client that has lost that asks again by `POST`.
async fn renew(
    State(locks): State<Locks>,
    Path((key, id)): Path<(String, String)>,
    Json(lease): Json<LeaseKey>,
) -> Answer<Lock> {
    let (name, value) = locks.name_and_value(&key, id)?;
    // The key in the body is the client's word, and gets it no further than the address.
    if (lease.name(), lease.value()) != (name.as_str(), value.as_str()) {
        return Err(Problem::new(StatusCode::BAD_REQUEST, "another lock"));
    }
    let lease = locks.leases.resume(lease).await?;
    Ok(Json(locks.hand_out(key, lease).await?))
}

async fn release(
    State(locks): State<Locks>,
    Path((key, id)): Path<(String, String)>,
) -> Answer<Gone> {
    let (name, value) = locks.name_and_value(&key, id)?;
    if locks.leases.release(&name, &value).await? == Released::NotHeld {
        return Err(Problem::new(StatusCode::CONFLICT, "not held"));
    }
    // Released; or unknown, for an earlier attempt went unanswered: it is not theirs now either way.
    let mut granted = locks.granted();
    if granted.by_name.get(&name).is_some_and(|(held, _)| *held == value) {
        granted.by_name.remove(&name);
    }
    Ok(Json(Gone { released: true }))
}

async fn inspect(State(locks): State<Locks>, Path(key): Path<String>) -> Answer<LockView> {
    let name = locks.rules.name(&key).map_err(invalid)?;
    let look = match locks.leases.get(name).await? {
        Some(info) => view(&info),
        None => LockView { key, held: false, remaining_ms: 0 },
    };
    Ok(Json(look))
}

async fn list(State(locks): State<Locks>, Query(wanted): Query<Wanted>) -> Answer<Vec<LockView>> {
    let pattern = wanted.pattern.unwrap_or_else(|| "*".to_owned());
    // The prefix stands in front of whatever the client asks for, and the pattern is of the whole name.
    let found = locks.leases.list().glob(format!("{PREFIX}:{pattern}")).stream()?;
    let found = found.take(LISTED_MAX).map_ok(|info| view(&info));
    Ok(Json(found.try_collect().await?))
}

fn view(info: &LeaseInfo) -> LockView {
    let key = info.name.strip_prefix(PREFIX).and_then(|rest| rest.strip_prefix(':'));
    let remaining = info.remaining.unwrap_or_default();
    LockView {
        key: key.unwrap_or_default().to_owned(),
        held: info.is_held(),
        remaining_ms: remaining.as_millis(),
    }
}
