//! Releases a lease by its key, or in place of its holder.

#[cfg(unix)]
mod by_key;

use mongo_lease::{LeaseManager, Released};

use crate::arguments::{Options, Release};
use crate::connect;
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::{report, text};

/// Releases a lease by its key, or by its name and value.
pub(crate) async fn release(
    task: &Release,
    options: &Options,
    console: &mut Console,
) -> Result<Exit, Failure> {
    #[cfg(unix)]
    if let Some(path) = &task.holder.key {
        return by_key::release(path, task.json, options, console).await;
    }
    let Some(name) = task.name.as_deref() else {
        return Err(Failure::usage("name the lease"));
    };
    let leases = connect::manager(options).await?;
    let failed = |error: mongo_lease::Error| Failure::of(&error, options);
    match &task.holder.value {
        Some(value) => {
            let released = leases.release(name, value).await.map_err(failed)?;
            Ok(tell(name, task.json, value, None, released, console))
        }
        None => by_force(&leases, name, task.json, options, console).await,
    }
}

/// Reads the holder, and releases the lease if it still has that holder. A later holder keeps it.
async fn by_force(
    leases: &LeaseManager,
    name: &str,
    json: bool,
    options: &Options,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let failed = |error: mongo_lease::Error| Failure::of(&error, options);
    let Some(info) = leases.get(name).await.map_err(failed)? else {
        console.say(&format!("nobody holds {name:?}"));
        if json {
            console.put(&report::release(Some(name), None, None, "not_held").to_string());
        }
        return Ok(Exit::No);
    };
    if info.shared {
        if info.holders.is_empty() {
            let message = format!(
                "{name:?} is held by several, and its list of holders is damaged: it ends by itself"
            );
            return Err(Failure { exit: Exit::Damaged, message });
        }
        return Err(Failure::usage(format!(
            "{name:?} is held by {} holders: release one of them by its --value, which \
             `mongo-lease show` prints",
            info.holders.len()
        )));
    }
    let Some(value) = &info.value else {
        let message = format!("{name:?} has no value to compare: repair its document by hand");
        return Err(Failure { exit: Exit::Damaged, message });
    };
    let released = leases.release(name, value).await.map_err(failed)?;
    Ok(tell(name, json, value, info.owner.as_deref(), released, console))
}

// The library may add variants.
#[allow(clippy::wildcard_enum_match_arm)]
fn tell(
    name: &str,
    json: bool,
    value: &str,
    owner: Option<&str>,
    released: Released,
    console: &mut Console,
) -> Exit {
    let (exit, message) = match released {
        Released::Released => (Exit::Done, format!("{name:?} is released")),
        Released::NotHeld => {
            let message = format!("{name:?} is not held under this value: nothing was changed");
            (Exit::No, message)
        }
        _ => {
            let message = format!("{name:?} is no longer held under this value");
            (Exit::Done, message)
        }
    };
    if json {
        let status = report::released(released);
        console.put(&report::release(Some(name), Some(value), owner, status).to_string());
    } else {
        let from = owner.map(|owner| format!("; the holder was {}", text::printable(owner)));
        console.put(&format!("{message}{}", from.unwrap_or_default()));
    }
    exit
}
