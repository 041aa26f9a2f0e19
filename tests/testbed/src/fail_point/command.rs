use std::time::Duration;

use mongodb::bson::{Document, doc};

use super::{FailPoint, FailPointGuard, Mode};

/// The fail point `failCommand`: commands which fail, lose their connection or take long.
///
/// All but [`FailCommand::write_concern_error`] happens before the command would run, so nothing
/// is written (a command which is only blocked runs afterwards).
///
/// ```no_run
/// # async fn example() {
/// use mongo_lease_testbed::{FailCommand, Server};
///
/// let server = Server::start();
/// let fault = FailCommand::on(&["findAndModify"]).times(1).close_connection();
/// let guard = fault.enable(server.uri()).await;
/// // … what the test does …
/// guard.wait_times_entered(1).await;
/// guard.disable().await;
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a fail point does nothing until `enable`"]
pub struct FailCommand {
    mode: Mode,
    data: Document,
}

impl FailCommand {
    /// For these commands, by the names they have on the wire; from any client, every time.
    pub fn on(commands: &[&str]) -> Self {
        Self { mode: Mode::Always, data: doc! { "failCommands": commands } }
    }

    /// Only the next `count` commands are hit.
    pub fn times(mut self, count: u32) -> Self {
        self.mode = Mode::Times(count);
        self
    }

    /// The server closes the connection instead of running the command.
    pub fn close_connection(self) -> Self {
        self.with("closeConnection", true)
    }

    /// The command fails with this error code, and is not run.
    ///
    /// A code for a change of state (such as 91, 189, 10107, 11600, 11602) makes the driver forget the server until its
    /// monitor hears from it. As the server did not really change, that is after `heartbeat_freq`, 10 s: set it to 0.5
    /// s in such a test.
    pub fn error_code(self, code: i32) -> Self {
        self.with("errorCode", code)
    }

    /// The command runs, and its reply carries a write concern error with this code.
    pub fn write_concern_error(self, code: i32) -> Self {
        self.with("writeConcernError", doc! { "code": code, "errmsg": "fail point" })
    }

    /// The error carries exactly these labels.
    pub fn error_labels(self, labels: &[&str]) -> Self {
        self.with("errorLabels", labels)
    }

    /// The command waits this long before it fails, or runs if no failure is asked for.
    pub fn block_for(self, duration: Duration) -> Self {
        let milliseconds = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        self.with("blockConnection", true).with("blockTimeMS", milliseconds)
    }

    /// Only commands of clients with this application name are hit.
    pub fn app_name(self, name: &str) -> Self {
        self.with("appName", name)
    }

    /// Any other field of the fail point's data, such as `namespace`.
    pub fn with(mut self, field: &str, value: impl Into<mongodb::bson::Bson>) -> Self {
        self.data.insert(field, value);
        self
    }

    /// Switches it on at the server with this URI, until the guard is dropped.
    ///
    /// # Panics
    ///
    /// When the server refuses it, or is no test server.
    pub async fn enable(self, uri: impl Into<String>) -> FailPointGuard {
        let Self { mode, data } = self;
        FailPoint { name: "failCommand".to_owned(), mode, data }.enable(uri).await
    }
}
