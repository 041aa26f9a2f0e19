//! Runs and verdicts.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use mongo_lease_checker::{self as checker, CheckOptions, MILLI, Violation};

use crate::arguments::{BesideOrders, Options};
use crate::cluster::Failed;
use crate::control::Control;
use crate::nemesis::Choice;
use crate::table::{self, ControlRow, Section};
use crate::{Exit, console, gather};

/// How many violations are shown.
const SHOWN: usize = 20;

pub(crate) async fn run(options: Options) -> Result<Exit, Failed> {
    let seed = options.seed.unwrap_or_else(rand::random);
    if let Some(control) = options.control {
        return Ok(exit_of(&run_control(&options, control, seed).await?));
    }
    let exit = run_whole(&options, seed).await?;
    if !options.with_controls {
        return Ok(exit);
    }
    let controls = run_controls(&options, seed).await?;
    Ok(if exit == Exit::Clean { controls } else { exit })
}

/// A run with the library as it is.
async fn run_whole(options: &Options, seed: u64) -> Result<Exit, Failed> {
    let choice = options.nemeses.clone().unwrap_or_else(Choice::all);
    let choice = if options.node_workers > 0 { choice.beside_node() } else { choice };
    let section = Section::of(options, &choice);
    let folder = folder(options)?;
    console::say(&format!("seed {seed}, histories in {}", folder.display()));
    let gathered = gather::gather(options, choice, seed, &folder).await?;
    let evidence = &gathered.evidence;
    let found = checker::check(evidence);
    show(&found, &evidence.terms);
    let text = table::table(options, seed, &gathered, &found);
    console::say(&text);
    if let Some(path) = &options.table {
        table::write(path, section, &text)?;
    }
    if found.iter().all(|violation| evidence.terms.may_break(violation.invariant)) {
        remove(options, &folder);
        return Ok(Exit::Clean);
    }
    console::say(&format!("the histories are kept in {}", folder.display()));
    Ok(Exit::Violations)
}

/// All controls, one after the other, and a table of them.
async fn run_controls(options: &Options, seed: u64) -> Result<Exit, Failed> {
    let mut rows = Vec::new();
    let runs = |control: &&Control| match control.is_of_shares() {
        true => options.shared_tasks > 0,
        false => options.tasks > 0,
    };
    for control in Control::value_variants().iter().filter(runs) {
        let options = Options {
            control: Some(*control),
            seconds: control.seconds(),
            nemeses: None,
            keep: None,
            ..options.clone()
        };
        rows.push(run_control(&options, *control, seed).await?);
    }
    let (shared, exclusive): (Vec<&ControlRow>, Vec<&ControlRow>) =
        rows.iter().partition(|row| row.control.is_of_shares());
    for (section, rows) in [(Section::Controls, exclusive), (Section::SharedControls, shared)] {
        if rows.is_empty() {
            continue;
        }
        let text = table::controls(&rows);
        console::say(&text);
        if let Some(path) = &options.table {
            table::write(path, section, &text)?;
        }
    }
    let void = rows.iter().map(exit_of).find(|exit| *exit != Exit::Clean);
    Ok(void.unwrap_or(Exit::Clean))
}

/// A run with a deliberate mistake.
async fn run_control(options: &Options, control: Control, seed: u64) -> Result<ControlRow, Failed> {
    let choice = options.nemeses.clone().unwrap_or_else(|| control.nemeses());
    let options = &control.with_its_leases(options);
    let folder = folder(options)?;
    console::say(&format!("control {}, seed {seed}", control.name()));
    let gathered = gather::gather(options, choice, seed, &folder).await?;
    let evidence = &gathered.evidence;
    let found = checker::check(evidence);
    show(&found, &evidence.terms);
    remove(options, &folder);
    let is_changed = !control.is_on_the_wire() || gathered.rewritten > 0;
    let is_found = is_changed && checker::are_all_found(control.shows(), &found);
    let first = |invariant| found.iter().find(move |found| found.invariant == invariant);
    let times = control.shows().iter().filter_map(|invariant| first(*invariant));
    let last = times.map(|violation| violation.at).max().filter(|_| is_found);
    let found_after = last.map(|at| at.saturating_sub(evidence.began) / MILLI);
    match found_after {
        Some(millis) => console::say(&format!("{} was found after {millis} ms", control.name())),
        None if is_changed => console::say(&format!("VOID: {} was not found", control.name())),
        None => console::say(&format!("VOID: {} changed nothing", control.name())),
    }
    Ok(ControlRow { control, seed, found_after, found, rewritten: gathered.rewritten })
}

/// Writes the findings of other tools into the tables.
pub(crate) fn beside(orders: &BesideOrders) -> Exit {
    let read = |path: &Option<PathBuf>| path.as_ref().map(std::fs::read_to_string).transpose();
    let failed = |error| Failed::at("an output", error);
    let put = || {
        let (model, fuzzing) = (read(&orders.model), read(&orders.fuzzing));
        let (model, fuzzing) = (model.map_err(failed)?, fuzzing.map_err(failed)?);
        let text = table::beside(model.as_deref(), fuzzing.as_deref())?;
        table::write(&orders.table, Section::Beside, &text)
    };
    match put() {
        Ok(()) => Exit::Clean,
        Err(error) => {
            console::say(&error.to_string());
            Exit::Broken
        }
    }
}

fn exit_of(row: &ControlRow) -> Exit {
    if row.found_after.is_some() { Exit::Clean } else { Exit::Void }
}

/// Shows the violations that must not be.
fn show(found: &[Violation], terms: &CheckOptions) {
    let may_be = |violation: &&Violation| terms.may_break(violation.invariant);
    let (expected, wrong): (Vec<_>, Vec<_>) = found.iter().partition(may_be);
    for (word, violations) in [("VIOLATION", wrong), ("may be", expected)] {
        for violation in violations.iter().take(SHOWN) {
            console::say(&format!("{word} {violation}"));
        }
        if violations.len() > SHOWN {
            console::say(&format!("{word} {} more", violations.len() - SHOWN));
        }
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
