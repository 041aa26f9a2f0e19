//! Doctor: looks for settings that could keep leases from working. It changes nothing.

mod clocks;
mod finding;
mod members;
mod oplog;
mod parameters;
mod permits;
mod privileges;
mod replication;
mod walks;
mod writes;

use std::time::Duration;

use mongo_lease::Error;
use mongo_lease_migrations::connect::Connected;
use mongo_lease_migrations::indexes;
use mongodb::bson::{Document, doc};
use serde_json::json;

use crate::arguments::{Doctor, Options};
use crate::connect;
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;
use finding::Finding;

/// The system under examination.
struct Patient<'a> {
    connected: &'a Connected,
    options: &'a Options,
    /// The manager's maximum clock skew, which the members' clocks must respect.
    max_clock_skew: Duration,
    /// The ttl of the services' leases.
    ttl: Duration,
}

/// Runs all checks, and prints their findings.
pub(crate) async fn doctor(
    task: &Doctor,
    options: &Options,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let connected = connect::connect(options).await?;
    let Doctor { max_clock_skew, ttl, .. } = *task;
    let patient = Patient { connected: &connected, options, max_clock_skew, ttl };
    let walks = walks::Walks::start(&patient).await;
    let findings = [
        members::server(&patient).await,
        members::members(&patient).await,
        replication::replication(&patient).await,
        patient.indexes().await,
        patient.commands().await,
        privileges::privileges(&patient).await,
        writes::write_concern(&patient).await,
        clocks::clocks(&patient).await,
        parameters::ttl_monitor(&patient).await,
        parameters::history_window(&patient).await,
        parameters::transactions(&patient).await,
        oplog::oplog(&patient).await,
        permits::permits(&patient).await,
        walks.finish(&patient).await,
    ];
    let status = findings.iter().map(|finding| finding.status).max();
    if task.json {
        let report = json!({
            "status": status.unwrap_or(finding::Status::Ok).as_str(),
            "database": connected.database.name(),
            "collection": options.connection.collection,
            "checks": findings.iter().map(Finding::report).collect::<Vec<_>>(),
        });
        console.put(&report.to_string());
    } else {
        let width = console.size().map(|size| size.0);
        for finding in &findings {
            for line in finding.lines(width, console) {
                console.put(&line);
            }
        }
    }
    Ok(if status == Some(finding::Status::Problem) { Exit::No } else { Exit::Done })
}

impl Patient<'_> {
    /// Runs an administrative command. Returns its reply, or the reason for a failure.
    async fn admin(&self, command: Document) -> Result<Document, String> {
        let admin = self.connected.database.client().database("admin");
        admin.run_command(command).await.map_err(|error| self.words(&error))
    }

    /// The text of the driver's error, without secrets.
    fn words(&self, error: &mongodb::error::Error) -> String {
        Failure::of_driver(error, self.options).message
    }

    fn hello(&self) -> &Document {
        &self.connected.hello
    }

    fn is_standalone(&self) -> bool {
        !self.is_router() && !self.hello().contains_key("setName")
    }

    fn is_router(&self) -> bool {
        matches!(self.hello().get_str("msg"), Ok("isdbgrid"))
    }

    async fn indexes(&self) -> Finding {
        let (database, collection) =
            (&self.connected.database, &self.options.connection.collection);
        let plan = match indexes::examine(database, collection).await {
            Ok(plan) => plan,
            Err(error) => {
                let message = Failure::of_plan(&error, self.options).message;
                return Finding::unseen("indexes", &message);
            }
        };
        let problems = plan.obstacles().iter().map(|obstacle| obstacle.problem().to_owned());
        let steps = plan.steps().iter().map(|step| format!("to do: {step}"));
        let problems: Vec<String> = problems.chain(steps).collect();
        let details = json!({ "problems": problems, "notes": plan.notes() });
        if plan.is_up_to_date() {
            let message = format!("{}.{collection} has both indexes", plan.database());
            let finding = match plan.notes() {
                [] => Finding::ok("indexes", message),
                notes => Finding::note("indexes", message, notes.join("; ")),
            };
            return finding.with(details);
        }
        let advice = format!(
            "run `mongo-lease-migrate up --db {} --collection {collection}`",
            plan.database()
        );
        Finding::problem("indexes", problems.join("; "), advice).with(details)
    }

    /// Checks that the server accepts all forms of command that leases use.
    async fn commands(&self) -> Finding {
        let builder = connect::builder(&self.connected.database, self.options);
        // Another check covers the indexes.
        let leases = match builder.assume_indexes(true).build().await {
            Ok(leases) => leases,
            Err(error) => return self.refused(&error),
        };
        match leases.ping().await {
            Ok(took) => {
                let took_ms = took.as_secs_f64() * 1_000.0;
                let message = format!("accepted; a ping takes {took_ms:.1} ms");
                Finding::ok("commands", message).with(json!({ "ping_ms": took_ms }))
            }
            Err(error) => self.refused(&error),
        }
    }

    fn refused(&self, error: &Error) -> Finding {
        let message = Failure::of(error, self.options).message;
        let advice = "no manager can be built, so no lease is granted".to_owned();
        Finding::problem("commands", message, advice)
    }

    /// Reads a server parameter. Returns its value, or why it cannot be read.
    async fn parameter(&self, name: &str) -> Result<mongodb::bson::Bson, String> {
        let reply = self.admin(doc! { "getParameter": 1, name: 1 }).await?;
        reply.get(name).cloned().ok_or_else(|| format!("the server does not report {name}"))
    }
}
