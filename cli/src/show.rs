//! Shows the state of one lease.

use mongo_lease::LeaseInfo;

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
        console.put(&report::lease(&info).to_string());
    } else {
        for (label, value) in lines(&info) {
            console.put(&format!("{label:<10}{value}"));
        }
    }
    Ok(Exit::Done)
}

fn lines(info: &LeaseInfo) -> Vec<(&'static str, String)> {
    let mut lines = vec![("name", text::printable(&info.name)), ("owner", list::owner(info))];
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
