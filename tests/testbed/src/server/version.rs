use std::fmt;

use mongodb::bson::{Document, doc};

use super::Server;
use crate::Error;

/// The version of a server, such as 6.0 of 6.0.27. Servers of one version have the same features.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    major: i32,
    minor: i32,
}

impl Version {
    /// The version with these two numbers.
    #[must_use]
    pub const fn new(major: i32, minor: i32) -> Self {
        Self { major, minor }
    }

    fn from_build_info(reply: &Document) -> Option<Self> {
        let numbers = reply.get_array("versionArray").ok()?;
        Some(Self::new(numbers.first()?.as_i32()?, numbers.get(1)?.as_i32()?))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

impl Server {
    /// The server's version, which it is asked for once.
    ///
    /// For tests of what servers do in different ways. Such a test asserts something on each version, and prints what
    /// it leaves out.
    ///
    /// # Panics
    ///
    /// When the server does not answer.
    pub async fn version(&self) -> Version {
        if let Some(version) = self.version.get() {
            return *version;
        }
        let reply = self.admin(doc! { "buildInfo": 1 }).await;
        let version = Version::from_build_info(&reply)
            .unwrap_or_else(|| Error::new(format!("no version in {reply}")).raise());
        *self.version.get_or_init(|| version)
    }
}
