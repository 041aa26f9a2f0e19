//! Runs rounds of the simulation until their virtual time is over, or a promise is broken.

#![allow(clippy::print_stdout, reason = "it is a program")]

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use simulation::{Broken, Control, Plan, ROUND_MS, judge, run, shrink, table};

/// How many rounds a virtual hour has.
const ROUNDS_AN_HOUR: u64 = 3_600_000 / ROUND_MS;

/// Runs real managers of mongo-lease on a simulated network, server and clock.
///
/// Exit codes: 0 clean (with --control: found), 1 a broken promise, 2 a control that was not found, 3 the program
/// itself failed.
#[derive(Parser)]
struct Options {
    /// How many virtual hours to run. Each has rounds of ten minutes, with seeds of their own.
    #[arg(long, default_value_t = 1)]
    hours: u64,
    /// The seed of the first round. The next round has the next seed.
    #[arg(long)]
    seed: Option<u64>,
    /// Stops after so many rounds, whatever the hours are.
    #[arg(long)]
    rounds: Option<u64>,
    /// Stops after so many seconds of real time, whatever the hours are.
    #[arg(long)]
    seconds: Option<u64>,
    /// Writes the history of all rounds to this file: records and changes, a line of JSON for each.
    #[arg(long)]
    history: Option<PathBuf>,
    /// Makes a deliberate mistake, which must be found.
    #[arg(long)]
    control: Option<&'static Control>,
    /// Shows the violations of each round, and goes on.
    #[arg(long)]
    survey: bool,
    /// Leaves the faults out.
    #[arg(long)]
    calm: bool,
}

fn main() -> ExitCode {
    match simulate(&Options::parse()) {
        Ok(code) => code,
        Err(error) => {
            println!("the simulation failed: {error}");
            ExitCode::from(3)
        }
    }
}

fn simulate(options: &Options) -> std::io::Result<ExitCode> {
    let began = Instant::now();
    let seed = options.seed.unwrap_or_else(|| u64::from(rand::random::<u32>()));
    let mut file = options.history.as_ref().map(File::create).transpose()?.map(BufWriter::new);
    let rounds = options.rounds.unwrap_or(options.hours * ROUNDS_AN_HOUR);
    let (mut done, mut broken, mut calls, mut granted) = (0, 0, 0, 0);
    for round in 0..rounds {
        if options.seconds.is_some_and(|most| began.elapsed().as_secs() >= most) {
            break;
        }
        let mut plan = Plan::new(seed.wrapping_add(round));
        if options.calm {
            plan.faults.clear();
        }
        let history = run(&plan, options.control);
        if let Some(file) = &mut file {
            history.write(file)?;
        }
        done += 1;
        let counts = history.calls();
        (calls, granted) = (calls + counts.0, granted + counts.1);
        let found = judge(&plan, &history);
        broken += u32::from(!found.is_empty());
        if let Some(code) = verdict(options, &plan, &found, began) {
            if let Some(file) = &mut file {
                file.flush()?;
            }
            return Ok(code);
        }
    }
    let (seconds, virtual_s) = (began.elapsed().as_secs_f64(), done * ROUND_MS / 1_000);
    println!("seed {seed}: {done} rounds, {virtual_s} virtual seconds in {seconds:.2} s");
    let outcome = match broken {
        0 => "no promise was broken".to_owned(),
        _ => format!("{broken} rounds broke a promise"),
    };
    println!("{calls} calls, {granted} grants; {outcome}");
    Ok(match (options.control, broken) {
        (Some(_), _) => ExitCode::from(2),
        (None, 0) => ExitCode::SUCCESS,
        (None, _) => ExitCode::FAILURE,
    })
}

/// Says whether the round ends the program.
fn verdict(options: &Options, plan: &Plan, found: &[Broken], began: Instant) -> Option<ExitCode> {
    if let Some(control) = options.control {
        let (shown, seconds) = (found.first()?, began.elapsed().as_secs_f64());
        println!("{} was found after {seconds:.2} s, seed {}: {shown}", control.name, plan.seed);
        return Some(ExitCode::SUCCESS);
    }
    if found.is_empty() {
        return None;
    }
    println!("seed {}: {} violations", plan.seed, found.len());
    if options.survey {
        found.iter().take(4).for_each(|violation| println!("  {violation}"));
        return None;
    }
    let Some(shrunk) = shrink(plan, options.control) else {
        println!(
            "The same seed ran differently the second time: the simulation is not deterministic."
        );
        return Some(ExitCode::from(3));
    };
    println!("The shortest prefix that still fails, after {} runs:", shrunk.runs);
    for fault in &shrunk.plan.faults {
        println!("  {fault}");
    }
    for violation in shrunk.violations.iter().take(5) {
        println!("{violation}");
    }
    if let Some(first) = shrunk.violations.first() {
        println!("{}", table(&shrunk.history, first));
    }
    println!("again: --seed {} --rounds 1", plan.seed);
    Some(ExitCode::from(1))
}
