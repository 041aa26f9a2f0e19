//! The table.

use std::path::Path;

use crate::arguments::Options;
use crate::check::{Evidence, Violation};
use crate::cluster::Failed;

pub(crate) struct Setting {
    seed: u64,
    seconds: u64,
}

impl Setting {
    pub(crate) fn of(options: &Options, seed: u64, _evidence: &Evidence) -> Setting {
        Setting { seed, seconds: options.seconds }
    }
}

pub(crate) fn table(setting: &Setting, evidence: &Evidence, found: &[Violation]) -> String {
    format!("seed {} seconds {} records {} changes {} violations {}", setting.seed, setting.seconds, evidence.records.len(), evidence.changes.len(), found.len())
}

pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failed> {
    std::fs::write(path, text).map_err(|error| Failed::at("table", error))
}
