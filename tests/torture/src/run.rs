//! Runs and verdicts.

use std::path::{Path, PathBuf};

use mongo_lease_checker::{self as checker, MILLI, Violation};

use crate::arguments::Options;
use crate::cluster::Failed;
use crate::control::Control;
use crate::nemesis::Choice;
use crate::{Exit, console, gather, table};

/// How many violations are shown.
const SHOWN: usize = 20;

pub(crate) async fn run(options: Options) -> Result<Exit, Failed> {
    let seed = options.seed.unwrap_or_else(rand::random);
    match options.control {
        Some(control) => run_control(&options, control, seed).await,
        None => run_whole(&options, seed).await,
    }
}

/// A run with the library as it is.
async fn run_whole(options: &Options, seed: u64) -> Result<Exit, Failed> {
    let choice = options.nemeses.clone().unwrap_or_else(Choice::all);
    let choice = if options.node_workers > 0 { choice.beside_node() } else { choice };
    let folder = folder(options)?;
    console::say(&format!("seed {seed}, histories in {}", folder.display()));
    let gathered = gather::gather(options, choice, seed, &folder).await?;
    let found = checker::check(&gathered.evidence);
    show(&found);
    console::say(&table::table(options, seed, &gathered, &found));
    if found.is_empty() {
        remove(options, &folder);
        return Ok(Exit::Clean);
    }
    console::say(&format!("the histories are kept in {}", folder.display()));
    Ok(Exit::Violations)
}

/// A run with a deliberate mistake.
async fn run_control(options: &Options, control: Control, seed: u64) -> Result<Exit, Failed> {
    let choice = options.nemeses.clone().unwrap_or_else(|| control.nemeses());
    let options = &control.with_its_leases(options);
    let folder = folder(options)?;
    console::say(&format!("control {}, seed {seed}", control.name()));
    let gathered = gather::gather(options, choice, seed, &folder).await?;
    let found = checker::check(&gathered.evidence);
    show(&found);
    remove(options, &folder);
    let mut shown = found.iter().filter(|violation| violation.invariant == control.shows());
    match shown.next() {
        Some(first) => {
            let millis = first.at.saturating_sub(gathered.evidence.began) / MILLI;
            console::say(&format!("{} was found after {millis} ms", control.name()));
            Ok(Exit::Clean)
        }
        None => {
            let rewritten = gathered.rewritten;
            let name = control.name();
            console::say(&format!("VOID: {name} was not found; {rewritten} commands were changed"));
            Ok(Exit::Void)
        }
    }
}

fn show(found: &[Violation]) {
    for violation in found.iter().take(SHOWN) {
        console::say(&format!("VIOLATION {violation}"));
    }
    if found.len() > SHOWN {
        console::say(&format!("VIOLATION {} more", found.len() - SHOWN));
    }
}

fn folder(options: &Options) -> Result<PathBuf, Failed> {
    let what = options.control.map_or_else(|| "whole".to_owned(), Control::name);
    let name = format!("mongo-lease-torture-{}-{what}", std::process::id());
    let folder = options.keep.clone().unwrap_or_else(|| std::env::temp_dir().join(name));
    std::fs::create_dir_all(&folder).map_err(|error| Failed::at("the folder", error))?;
    Ok(folder)
}

/// Removes the folder, unless the user wants to keep it.
fn remove(options: &Options, folder: &Path) {
    if options.keep.is_none() {
        let _left = std::fs::remove_dir_all(folder);
    }
}
