//! A worker in Node: this process becomes it.

use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Signal, set_parent_process_death_signal};
use serde_json::json;

use super::APP_NAME;
use crate::arguments::WorkerOrders;
use crate::{Exit, clock, console};

/// Becomes the worker in Node. Returns only where there is no Node.
pub(crate) fn in_node(orders: &WorkerOrders) -> Exit {
    // It outlasts the change of program: a stopped process cannot notice that the suite has gone.
    let _also_without = set_parent_process_death_signal(Some(Signal::KILL));
    let told = json!({
        "id": orders.id,
        "uri": orders.uri,
        "app_name": APP_NAME,
        "database": orders.database,
        "history": orders.history,
        "resource": orders.resource.to_string(),
        "seed": orders.seed.to_string(),
        "names": orders.names,
        "tasks": orders.tasks,
        "shared_tasks": orders.shared_tasks,
        "waiter_ttl_ms": orders.waiter_ttl_ms,
        "control": orders.control.map(crate::control::Control::name),
        "clock_ahead": clock::ahead_of_monotonic().to_string(),
    });
    let script = orders.script.as_deref().unwrap_or(std::path::Path::new(""));
    let error = Command::new("node").arg(script).arg(told.to_string()).exec();
    console::say(&format!("cannot start node: {error}"));
    Exit::Broken
}
