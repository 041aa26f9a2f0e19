//! Systems without `sh` and signals: a clear message instead of servers.

use std::path::Path;

use crate::Error;

const MESSAGE: &str = "the testbed starts servers on Unix only; \
     set MONGO_LEASE_TESTBED_URI to a running replica set for the tests that use the shared server";

/// There is none on this system.
#[derive(Debug)]
pub(super) enum DataFolder {}

impl DataFolder {
    pub(super) fn create(_path: &Path) -> Result<Self, Error> {
        Err(Error::new(MESSAGE))
    }

    pub(super) fn path(&self) -> &Path {
        match *self {}
    }

    pub(super) fn write_secret(&self, _name: &str, _text: &str) -> Result<(), Error> {
        match *self {}
    }
}

/// There is none on this system.
#[derive(Debug)]
pub(super) enum Supervised {}

impl Supervised {
    pub(super) fn spawn(
        _binary: &Path,
        _arguments: &[String],
        folder: &DataFolder,
    ) -> Result<Self, Error> {
        match *folder {}
    }

    pub(super) fn pid(&self) -> u32 {
        match *self {}
    }

    pub(super) fn has_ended(&self) -> bool {
        match *self {}
    }

    pub(super) fn pause(&self) -> Result<(), Error> {
        match *self {}
    }

    pub(super) fn resume(&self) -> Result<(), Error> {
        match *self {}
    }

    pub(super) fn kill(self) {
        match self {}
    }
}
