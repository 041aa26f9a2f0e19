//! The options for a lease that others may hold at the same time.

use std::ffi::OsString;

use clap::{Args, value_parser};
use mongo_lease::{Acquire, LeaseManager};

/// How many may hold the lease at the same time. By default, one.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct Share {
    /// Lets at most N permits of the name be in use at a time, over all machines: from 1 to 1000. The command has one
    /// of them
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=1_000))]
    limit: Option<u32>,

    /// The command has K of the N permits [default: 1]
    #[arg(long, value_name = "K", requires = "limit", value_parser = value_parser!(u32).range(1..))]
    permits: Option<u32>,

    /// Shares the lease with all others that share it, as readers do. A run without this option, the writer, excludes
    /// them
    #[arg(long, conflicts_with_all = ["limit", "permits"])]
    shared: bool,
}

impl Share {
    /// Checks the options that the parser cannot compare. The error is the message for the user.
    pub(crate) fn check(self) -> Result<(), String> {
        match (self.permits, self.limit) {
            (Some(permits), Some(limit)) if permits > limit => Err(format!(
                "--permits {permits} is more than --limit {limit}: no more than these {limit} can \
                 be in use at a time"
            )),
            _ => Ok(()),
        }
    }

    /// The call for this name, with these options.
    pub(crate) fn acquire(self, leases: &LeaseManager, name: &str) -> Acquire {
        let mut acquire = match self.limit {
            Some(limit) => leases.semaphore(name, limit).acquire(),
            None => leases.acquire(name),
        };
        if let Some(permits) = self.permits {
            acquire = acquire.permits(permits);
        }
        if self.shared {
            acquire = acquire.shared();
        }
        acquire
    }
}

/// The options of `run` that a lease with a key cannot have. They are taken only to say why.
#[derive(Args)]
pub(crate) struct NotWithKey {
    #[arg(long, hide = true, value_name = "N")]
    limit: Option<OsString>,

    #[arg(long, hide = true, value_name = "K")]
    permits: Option<OsString>,

    #[arg(long, hide = true)]
    shared: bool,
}

impl NotWithKey {
    /// Refuses them. The error is the message for the user.
    pub(crate) fn check(&self) -> Result<(), String> {
        let given = [
            ("--limit", self.limit.is_some()),
            ("--permits", self.permits.is_some()),
            ("--shared", self.shared),
        ];
        match given.into_iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => Err(format!(
                "`acquire` has no {option}: a key names the holder of an exclusive lease; \
                 `mongo-lease run {option}` shares a lease for as long as a command runs"
            )),
            None => Ok(()),
        }
    }
}
