//! Searches worlds to their ends, and prints how large they are.
//!
//! `cargo run --release -p mongo-lease-model --example explore [name | large]`

#![allow(clippy::print_stdout)]

use std::time::Instant;

use mongo_lease_model::{check, worlds};

fn main() {
    let wanted = std::env::args().nth(1);
    let is_large = wanted.as_deref() == Some("large");
    let all = if is_large { worlds::large() } else { worlds::every_run() };
    for (name, bounds) in all {
        if !is_large && wanted.as_ref().is_some_and(|wanted| wanted != name) {
            continue;
        }
        let started = Instant::now();
        let report = check(&bounds);
        println!(
            "{name}: {} states, depth {}, {:.1?}, exhausted {}, unseen {:?}",
            report.states,
            report.depth,
            started.elapsed(),
            report.is_exhausted,
            report.unseen,
        );
        for found in &report.broken {
            println!("  BROKEN: {}", found.claim);
            found.steps.iter().for_each(|step| println!("    {step}"));
        }
    }
}
