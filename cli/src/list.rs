//! Lists the held leases.

use std::pin::pin;
use std::time::Duration;

use comfy_table::{ContentArrangement, Table, presets};
use futures_util::TryStreamExt;
use mongo_lease::{LeaseInfo, LeaseState};

use crate::arguments::{Ls, Options};
use crate::connect;
use crate::console::{Console, Shade};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::{report, text};

/// The longest cell of a table, in characters.
const CELL_MAX: usize = 80;

/// Prints the leases in the order of their names.
pub(crate) async fn list(
    task: &Ls,
    options: &Options,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let leases = connect::looker(options).await?;
    let mut list = leases.list();
    if let Some(pattern) = &task.pattern {
        list = list.glob(pattern);
    }
    if task.all {
        list = list.with_free();
    }
    let failed = |error: mongo_lease::Error| Failure::of(&error, options);
    let mut found = pin!(list.stream().map_err(failed)?);
    let mut rows = Vec::new();
    while let Some(lease) = found.try_next().await.map_err(failed)? {
        if !task.json {
            rows.push(row(&lease));
        } else if !console.put(&report::lease(&lease).to_string()) {
            // The pipe is closed.
            return Ok(Exit::Done);
        }
    }
    if task.json {
        return Ok(Exit::Done);
    }
    if rows.is_empty() {
        console.say(nothing(task));
        return Ok(Exit::Done);
    }
    put_table(["NAME", "OWNER", "HELD FOR", "LEFT"], rows, console);
    Ok(Exit::Done)
}

/// The message for an empty list.
fn nothing(task: &Ls) -> &'static str {
    match (&task.pattern, task.all) {
        (None, false) => "no lease is held",
        (Some(_), false) => "no such lease is held",
        (None, true) => "there is no lease",
        (Some(_), true) => "there is no such lease",
    }
}

/// Prints a table. It is as wide as the terminal, or as wide as needed without one.
pub(crate) fn put_table<const N: usize>(
    heads: [&str; N],
    rows: Vec<[String; N]>,
    console: &mut Console,
) {
    for (number, line) in table(heads, rows, console.size().map(|size| size.0)).iter().enumerate() {
        let shown = if number == 0 { console.paint(Shade::Quiet, line) } else { line.clone() };
        if !console.put(&shown) {
            return;
        }
    }
}

/// The lines of a table. Longer cells are cut: all rows are as wide as the longest, and another program's name has any
/// length.
pub(crate) fn table<const N: usize>(
    heads: [&str; N],
    rows: Vec<[String; N]>,
    width: Option<u16>,
) -> Vec<String> {
    let rows = rows.into_iter().map(|row| row.map(|cell| text::short(&cell, CELL_MAX)));
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(heads).add_rows(rows);
    if let Some(width) = width {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect()
}

fn row(info: &LeaseInfo) -> [String; 4] {
    [text::printable(&info.name), owner(info), held_for(info), left(info)]
}

/// The holder, or the permits in use, or the state in one word.
// The library may add variants.
#[allow(clippy::wildcard_enum_match_arm)]
pub(crate) fn owner(info: &LeaseInfo) -> String {
    match (&info.state, &info.owner, info.value.as_deref()) {
        (LeaseState::Damaged { found }, ..) => format!("damaged: expiresAt is of type {found}"),
        (LeaseState::Free, ..) => "free".to_owned(),
        _ if info.shared => permits(info),
        (_, _, Some(value)) if LeaseInfo::is_tombstone_value(value) => {
            "reserved after its release".to_owned()
        }
        (_, Some(owner), _) => text::printable(owner),
        (_, None, _) => "another program".to_owned(),
    }
}

/// The permits in use, and the limit in force.
fn permits(info: &LeaseInfo) -> String {
    match info.in_use.zip(info.limit) {
        Some((in_use, limit)) => format!("{in_use}/{limit} permits"),
        None => "damaged: its list of holders".to_owned(),
    }
}

/// How long the lease has been held, by the server's clock alone. Of several holders, by the first of its holders.
pub(crate) fn held_for(info: &LeaseInfo) -> String {
    let first = info.holders.iter().filter_map(|holder| holder.acquired_at).min();
    let acquired_at = info.acquired_at.or(first).filter(|_| info.state == LeaseState::Held);
    let dates = acquired_at.zip(info.expires_at);
    let millis = dates.map(|dates| [dates.0, dates.1].map(|date| date.timestamp_millis()));
    since(millis, info.remaining)
}

/// The time since the first of two dates, by the time that is left until the second.
pub(crate) fn since(dates: Option<[i64; 2]>, remaining: Option<Duration>) -> String {
    let (Some([date, expires_at]), Some(remaining)) = (dates, remaining) else {
        return "-".to_owned();
    };
    let left = i64::try_from(remaining.as_millis()).unwrap_or(i64::MAX);
    text::span(text::between(date, expires_at.saturating_sub(left)))
}

/// The remaining time of the lease.
pub(crate) fn left(info: &LeaseInfo) -> String {
    match info.remaining {
        Some(Duration::ZERO) | None => "-".to_owned(),
        Some(remaining) => text::span(remaining),
    }
}
