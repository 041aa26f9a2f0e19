//! The cases of the comparison, a file each.

pub(crate) mod alone;
pub(crate) mod hand_off;
pub(crate) mod holding;
pub(crate) mod losing;
pub(crate) mod many;
pub(crate) mod waiting;

use mongo_lease_measure::{Round, Rounds, Spread};

use crate::chart::Bar;
use crate::report::Table;
use crate::servers::Kind;

/// The cell of a library without this feature.
pub(crate) const NOTHING: &str = "—";

/// One contender's figures of all rounds.
struct Entry {
    who: String,
    kind: Kind,
    is_floor: bool,
    figures: Vec<f64>,
}

/// All rounds of one comparison.
#[derive(Default)]
pub(crate) struct Comparison(Vec<Entry>);

impl Comparison {
    /// Adds a round of a server's floor.
    pub(crate) fn floor(&mut self, who: &str, kind: Kind, figure: f64) {
        self.entry(who, kind, true).figures.push(figure);
    }

    /// Adds a round of a contender; `None` where the library lacks the feature.
    pub(crate) fn add(&mut self, who: &str, kind: Kind, figure: Option<f64>) {
        self.entry(who, kind, false).figures.extend(figure);
    }

    fn entry(&mut self, who: &str, kind: Kind, is_floor: bool) -> &mut Entry {
        let is_it = |entry: &Entry| entry.who == who && entry.kind == kind;
        let index = self.0.iter().position(is_it).unwrap_or(self.0.len());
        if index == self.0.len() {
            self.0.push(Entry { who: who.to_owned(), kind, is_floor, figures: Vec::new() });
        }
        &mut self.0[index]
    }

    /// The ratios, round by round, to the floor of a server.
    fn ratio(&self, entry: &Entry, kind: Kind) -> Option<Spread> {
        let floor = self.0.iter().find(|it| it.is_floor && it.kind == kind)?;
        if entry.figures.is_empty() || floor.figures.len() != entry.figures.len() {
            return None;
        }
        let both = entry.figures.iter().zip(&floor.figures);
        let rounds = both.map(|(&ours, &floor)| Round { ours, floor }).collect();
        Some(Rounds(rounds).ratio())
    }

    /// A row for each. `unit` is the unit of the figures.
    pub(crate) fn table(&self, title: &str, unit: &str) -> Table {
        let unit = format!("{unit}, median (quartiles)");
        let head = ["who", "on", &unit, "x its own server's floor", "x mongod's floor"];
        let mut table = Table::new(title, &head);
        for entry in &self.0 {
            let of = |kind| self.ratio(entry, kind).map_or(NOTHING.to_owned(), shown);
            let figure = if entry.figures.is_empty() {
                NOTHING.to_owned()
            } else {
                shown(Spread::of(entry.figures.clone()))
            };
            let own = if entry.is_floor { "1".to_owned() } else { of(entry.kind) };
            let is_first_floor = entry.is_floor && entry.kind == Kind::Mongod;
            let first = if is_first_floor { "1".to_owned() } else { of(Kind::Mongod) };
            table.row([entry.who.clone(), entry.kind.label().to_owned(), figure, own, first]);
        }
        table
    }

    /// A bar for each that has figures: as a ratio to mongod's floor, or as they are.
    pub(crate) fn bars(&self, is_ratio: bool) -> Vec<Bar> {
        let bar = |entry: &Entry| {
            let spread = if is_ratio {
                self.ratio(entry, Kind::Mongod)?
            } else if entry.figures.is_empty() {
                return None;
            } else {
                Spread::of(entry.figures.clone())
            };
            let what = format!("{} ({})", entry.who, entry.kind.label()).replace(['*', '`'], "");
            Some(Bar { what, spread, is_floor: entry.is_floor })
        };
        self.0.iter().filter_map(bar).collect()
    }
}

/// Formats a figure with its significant digits.
fn shown(spread: Spread) -> String {
    let Spread { low, median, high } = spread;
    if median < 100.0 { spread.to_string() } else { format!("{median:.0} ({low:.0} to {high:.0})") }
}
