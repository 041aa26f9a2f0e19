//! Shows the state of one lease.

use mongo_lease::{LeaseHolder, LeaseInfo};

use crate::arguments::{Options, Show};
use crate::connect;
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::{list, report, text};

/// Shows a lease.
pub(crate) async fn show(
    task: &Show,
    options: &Options,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let leases = connect::looker(options).await?;
    let found = leases.get(&task.name).await.map_err(|error| Failure::of(&error, options))?;
    let Some(info) = found else {
        console.say(&format!("nobody holds {:?}", task.name));
        if task.json {
            console.put(&report::free(&task.name).to_string());
        }
        return Ok(Exit::No);
    };
    if task.json {
        console.put(&report::lease_with_holders(&info).to_string());
    } else {
        put(&lines(&info), console);
        for holder in &info.holders {
            console.put("");
            put(&lines_of_holder(holder), console);
        }
    }
    Ok(Exit::Done)
}

fn put(lines: &[(&'static str, String)], console: &mut Console) {
    for (label, value) in lines {
        console.put(&format!("{label:<10}{value}"));
    }
}

fn lines(info: &LeaseInfo) -> Vec<(&'static str, String)> {
    let label = if info.shared { "in use" } else { "owner" };
    let mut lines = vec![("name", text::printable(&info.name)), (label, list::owner(info))];
    if let Some(value) = &info.value {
        lines.push(("value", text::printable(value)));
    }
    if let Some(acquired_at) = info.acquired_at {
        let since = text::moment(acquired_at.timestamp_millis());
        lines.push(("acquired", format!("{since}, {} ago", list::held_for(info))));
    }
    if let Some(expires_at) = info.expires_at {
        let until = text::moment(expires_at.timestamp_millis());
        lines.push(("expires", format!("{until}, in {}", list::left(info))));
    }
    if !info.metadata.is_empty() {
        lines.push(("metadata", text::printable(&info.metadata.to_string())));
    }
    lines
}

fn lines_of_holder(holder: &LeaseHolder) -> Vec<(&'static str, String)> {
    let owner = holder.owner.as_deref().map_or("unknown".to_owned(), text::printable);
    let LeaseHolder { permits, limit, .. } = holder;
    let permits = match (1..=*limit).contains(permits) {
        true => format!("{permits}, while at most {limit} are in use"),
        false => "damaged: no call can ask for these".to_owned(),
    };
    let mut lines =
        vec![("holder", owner), ("permits", permits), ("value", text::printable(&holder.value))];
    let [acquired_at, expires_at] =
        [holder.acquired_at, holder.expires_at].map(|date| date.map(|it| it.timestamp_millis()));
    if let Some(acquired_at) = acquired_at {
        let dates = expires_at.map(|expires_at| [acquired_at, expires_at]);
        let age = list::since(dates, Some(holder.remaining));
        lines.push(("acquired", format!("{}, {age} ago", text::moment(acquired_at))));
    }
    if let Some(expires_at) = expires_at {
        let left = text::span(holder.remaining);
        lines.push(("expires", format!("{}, in {left}", text::moment(expires_at))));
    }
    if !holder.metadata.is_empty() {
        lines.push(("metadata", text::printable(&holder.metadata.to_string())));
    }
    lines
}
