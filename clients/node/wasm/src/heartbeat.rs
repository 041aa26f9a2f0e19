//! A heartbeat for many waiters in one command, and what becomes of each of them.

use std::collections::{BTreeSet, HashSet};

use mongo_lease_core::commands::{FindEntries, Heartbeat, QueueEntry};
use mongo_lease_core::rules::{after_look, next_heartbeat_at, pieces};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::command::Command;
use crate::convert::{duration, instant, micros, whole};
use crate::reply::{Decoded, Reply};
use crate::request::Request;

/// Waiters that one command keeps alive.
#[wasm_bindgen]
#[derive(Default)]
pub struct Heartbeats {
    entries: Vec<QueueEntry>,
}

/// The state of a waiter, as a look has shown it.
#[wasm_bindgen]
#[derive(Clone, Copy)]
pub enum Entry {
    /// Its entry is not there.
    Gone,
    /// Perhaps it had no heartbeat.
    Again,
    /// It had the heartbeat.
    Confirmed,
}

#[wasm_bindgen]
impl Heartbeats {
    /// Without waiters.
    #[wasm_bindgen(constructor)]
    pub fn new() -> Heartbeats {
        Heartbeats::default()
    }

    /// Adds a waiter.
    pub fn add(&mut self, request: &Request) {
        let (name, value) = (request.name(), request.value());
        self.entries.push(QueueEntry { name, value });
    }

    /// How many documents it matches if all entries are still there.
    pub fn documents(&self) -> usize {
        self.entries.iter().map(|entry| &entry.name).collect::<BTreeSet<_>>().len()
    }

    /// The command. The entries last for `waiter_ttl` milliseconds from then on.
    pub fn command(&self, waiter_ttl: f64) -> Command {
        let (entries, waiter_ttl) = (self.entries.clone(), duration(waiter_ttl));
        Command::of(Heartbeat { entries, waiter_ttl })
    }

    /// The read that tells which entries are there.
    pub fn look(&self) -> Command {
        Command::of(FindEntries { entries: self.entries.clone() })
    }

    /// The state of each waiter by the look, after a heartbeat that matched so many documents.
    #[wasm_bindgen(js_name = afterLook)]
    pub fn after_look(&self, seen: &Reply, matched: f64) -> Vec<u8> {
        let there: HashSet<&QueueEntry> = match &seen.0 {
            Decoded::Entries(found) => found.iter().collect(),
            _ => HashSet::new(),
        };
        let waiters: Vec<(usize, &QueueEntry)> = self.entries.iter().enumerate().collect();
        let matched = usize::try_from(whole(matched)).unwrap_or(0);
        let told = after_look(waiters, matched, |(_, it)| &it.name, |(_, it)| there.contains(it));
        let mut all = vec![Entry::Confirmed as u8; self.entries.len()];
        told.gone.iter().for_each(|(place, _)| all[*place] = Entry::Gone as u8);
        told.again.iter().for_each(|(place, _)| all[*place] = Entry::Again as u8);
        all
    }

    /// As `Renewal.pieces`.
    pub fn pieces(&self) -> Vec<u32> {
        let mut places = vec![0; self.entries.len()];
        let all: Vec<(usize, &QueueEntry)> = self.entries.iter().enumerate().collect();
        if let Ok(pieces) = pieces(all, |(_, entry)| &entry.name) {
            for (number, piece) in pieces.into_iter().enumerate() {
                for (place, _) in piece {
                    places[place] = u32::try_from(number).unwrap_or(u32::MAX);
                }
            }
        }
        places
    }

    /// When an entry, whose last heartbeat was sent at `beaten`, needs the next one.
    #[wasm_bindgen(js_name = nextAt)]
    pub fn next_at(beaten: f64, waiter_ttl: f64, deadline: f64) -> f64 {
        micros(next_heartbeat_at(instant(beaten), duration(waiter_ttl), instant(deadline)))
    }
}
