//! The guarded route: requests for one invoice run one at a time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Extension, Json, Router};
use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::mongodb::{Collection, Database};
use mongo_lease::{LeaseManager, Result};
use mongo_lease_tower::{HeldLease, KeyRules, LeaseLayer, OnLoss, key};
use serde::{Deserialize, Serialize};

use crate::problem::Problem;

/// The longest hold of an invoice.
const WORK_MAX: Duration = Duration::from_secs(30);

/// Requests for one invoice exclude each other, under the lease `invoice:{id}`. A job could acquire the same lease.
///
/// With `layer` in place of `route_layer`, the layer would also get the paths that no route has, and refuse them.
pub(crate) fn routes(leases: &LeaseManager, database: &Database) -> Result<Router> {
    let layer = LeaseLayer::new(leases, key::path_parameter("/invoices/{id}/payment", "id")?)
        .key_rules(KeyRules::new("invoice")?)
        .on_loss(OnLoss::Answer503)
        .acquire_with(|acquire| acquire.max_hold(2 * WORK_MAX));
    Ok(Router::new()
        .route("/invoices/{id}/payment", post(pay))
        .route_layer(layer)
        .with_state(database.collection("payments")))
}

#[derive(Deserialize)]
struct Work {
    /// How long the work takes, for experiments.
    work_ms: Option<u64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Paid {
    invoice: String,
    /// A string, because it has more digits than a JSON number can represent.
    token: String,
    /// When the work began and ended, in microseconds since 1970.
    from_us: u128,
    to_us: u128,
}

async fn pay(
    Path(invoice): Path<String>,
    Query(work): Query<Work>,
    State(payments): State<Collection<Document>>,
    Extension(lease): Extension<HeldLease>,
) -> std::result::Result<Json<Paid>, Problem> {
    let from_us = now_us();
    let token = lease.token()?;
    let work = Duration::from_millis(work.work_ms.unwrap_or(100)).min(WORK_MAX);
    // A real service would call the bank here. If the lease is lost, `run` drops this work.
    lease.run(tokio::time::sleep(work)).await?;

    // The document keeps the newest token that it has seen. So it refuses a handler that was suspended until another
    // process held the lease, and that does not know of its loss.
    let payment = doc! { "$inc": { "payments": 1 } };
    let write = token.fenced_write("fence", doc! { "_id": &invoice }, payment)?;
    if !write.send(&payments).upsert(true).await?.is_applied() {
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "fenced off"));
    }
    Ok(Json(Paid { invoice, token: token.to_string(), from_us, to_us: now_us() }))
}

fn now_us() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_micros())
}
