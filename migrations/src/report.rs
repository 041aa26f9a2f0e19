//! A plan as JSON. The keys are stable.

use mongo_lease_migrations::indexes::{DuplicateName, IndexPlan, Obstacle, Step};
use mongo_lease_migrations::text;
use serde_json::{Value, json};

/// The state of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// Both indexes were correct.
    UpToDate,
    /// The steps were done.
    Migrated,
    /// There are steps to take.
    Pending,
    /// There are obstacles, and nothing was done.
    Blocked,
}

impl Status {
    /// The state before anything is done.
    pub(crate) fn of(plan: &IndexPlan) -> Status {
        if plan.is_up_to_date() {
            Status::UpToDate
        } else if plan.obstacles().is_empty() {
            Status::Pending
        } else {
            Status::Blocked
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Status::UpToDate => "up_to_date",
            Status::Migrated => "migrated",
            Status::Pending => "pending",
            Status::Blocked => "blocked",
        }
    }
}

/// The report of a plan and its result.
pub(crate) fn plan(plan: &IndexPlan, status: Status) -> Value {
    json!({
        "status": status.as_str(),
        "database": plan.database(),
        "collection": plan.collection(),
        "steps": plan.steps().iter().map(|it| step(it, plan.collection())).collect::<Vec<_>>(),
        "obstacles": plan.obstacles().iter().map(obstacle).collect::<Vec<_>>(),
        "notes": plan.notes(),
    })
}

/// The report of an error that prevented a plan.
pub(crate) fn failure(message: &str) -> Value {
    json!({ "status": "failed", "message": message })
}

fn step(step: &Step, collection: &str) -> Value {
    json!({
        "kind": step.kind().as_str(),
        "index": step.index(),
        "changes_existing": step.changes_existing(),
        "description": step.to_string(),
        "commands": step.commands(collection),
    })
}

fn obstacle(obstacle: &Obstacle) -> Value {
    json!({
        "kind": obstacle.kind().as_str(),
        "problem": obstacle.problem(),
        "advice": obstacle.advice(),
        "duplicates": obstacle.duplicate_names().iter().map(duplicate).collect::<Vec<_>>(),
    })
}

fn duplicate(duplicate: &DuplicateName) -> Value {
    let holders = duplicate.holders.iter().map(|holder| {
        let state = if holder.is_held() { "held" } else { "free" };
        json!({
            "owner": holder.owner,
            "value": holder.value,
            "state": state,
            "expires_at": holder.expires_at.map(|date| text::moment(date.timestamp_millis())),
        })
    });
    json!({
        "name": duplicate.name,
        "documents": duplicate.documents,
        "holders": holders.collect::<Vec<_>>(),
    })
}
