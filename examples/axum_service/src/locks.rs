//! The lock service: leases for clients that speak only HTTP.
//!
//! No process keeps the state of a lock: each request may go to another machine. The client is the holder, and renews
//! its lock itself.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::{StreamExt, TryStreamExt};
use mongo_lease::{Error, LeaseInfo, LeaseKey, LeaseManager, Released};
use mongo_lease_tower::KeyRules;
use serde::{Deserialize, Serialize};

use crate::problem::Problem;

const PREFIX: &str = "lock";
/// The maximum number of locks in one listing.
const LISTED_MAX: usize = 1_000;
/// How long a client may hold a lock without a renewal.
const TTL_MAX: Duration = Duration::from_secs(300);
/// From this number of remembered grants on, expired ones are forgotten.
const FORGET_FROM: usize = 1_024;

type Answer<T> = Result<Json<T>, Problem>;

#[derive(Clone)]
pub(crate) struct Locks {
    leases: LeaseManager,
    rules: KeyRules,
    granted: Arc<Mutex<Granted>>,
}

/// A grant of this process, to be released at shutdown. It has the value, and the time of the expiry.
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
    /// The key for one renewal.
    lease: LeaseKey,
}

/// The public state of a lock. It contains neither the value, with which the lock can be released, nor the holder's
/// host.
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
        let rules = KeyRules::new(PREFIX)?;
        Ok(Locks { leases: leases.clone(), rules, granted: Arc::default() })
    }

    pub(crate) fn routes(&self) -> Router {
        Router::new()
            .route("/lock/{key}/{id}", post(acquire).put(renew).delete(release))
            .route("/lock/{key}", get(inspect))
            .route("/locks", get(list))
            .with_state(self.clone())
    }

    /// Releases all grants of this process that are still held, and returns their number.
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
        let _valid = self.name(&id)?;
        Ok((self.name(key)?, id))
    }

    /// The lease's name. A key contains none of the special characters of patterns.
    fn name(&self, key: &str) -> Result<String, Problem> {
        let is_plain =
            |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
        let name = self.rules.name(key).ok().filter(|_| key.chars().all(is_plain));
        name.ok_or_else(|| Problem::new(StatusCode::BAD_REQUEST, "invalid"))
    }

    /// Hands the lease to the client.
    async fn hand_out(&self, key: String, lease: mongo_lease::Lease) -> Result<Lock, Error> {
        let token = lease.token()?.to_string();
        let remaining = lease.remaining();
        // From here on no handle in this process owns the lease: dropping a `Lease` would release it.
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

/// A repeated request with the same id is granted again, and renews the lock. So a lost answer does not lock a client
/// out.
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
    match ask.wait(Duration::ZERO).await {
        Ok(lease) => Ok(Json(locks.hand_out(key, lease).await?)),
        Err(Error::Busy(held)) => Err(Problem::held(&held)),
        Err(error) => Err(error.into()),
    }
}

/// Renews exactly this grant, and never acquires the lock again. A key is valid for one renewal, and the answer
/// contains the next key. A client that has lost it sends a `POST` again.
async fn renew(
    State(locks): State<Locks>,
    Path((key, id)): Path<(String, String)>,
    Json(lease): Json<LeaseKey>,
) -> Answer<Lock> {
    let (name, value) = locks.name_and_value(&key, id)?;
    // The client could have forged the key in the body: it is accepted only for the lock in the address.
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
    // Released; or unknown, because an earlier attempt was not answered. The client does not hold it now in either
    // case.
    let mut granted = locks.granted();
    if granted.by_name.get(&name).is_some_and(|(held, _)| *held == value) {
        granted.by_name.remove(&name);
    }
    Ok(Json(Gone { released: true }))
}

async fn inspect(State(locks): State<Locks>, Path(key): Path<String>) -> Answer<LockView> {
    let name = locks.name(&key)?;
    let look = match locks.leases.get(name).await? {
        Some(info) => view(&info),
        None => LockView { key, held: false, remaining_ms: 0 },
    };
    Ok(Json(look))
}

async fn list(State(locks): State<Locks>, Query(wanted): Query<Wanted>) -> Answer<Vec<LockView>> {
    let pattern = wanted.pattern.unwrap_or_else(|| "*".to_owned());
    // The prefix comes before the client's pattern, and the pattern matches whole names.
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
