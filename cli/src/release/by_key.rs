//! Releases a detached lease by its key.

use std::path::Path;

use mongo_lease::{Error, LeaseInfo, Released};

use crate::arguments::Options;
use crate::connect;
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::key::file::{self, Absence, Found};
use crate::{list, report};

/// Releases the lease of a key, and removes the key's file once the lease is certain not to be held under it.
pub(super) async fn release(
    path: &Path,
    json: bool,
    options: &Options,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let found = match file::read(path) {
        Ok(found) => found,
        Err(Absence::Failed(failure)) => return Err(failure),
        Err(Absence::NoFile) => {
            console.say(&format!("{}: there is no key file: nothing to release", path.display()));
            if json {
                console.put(&report::release(None, None, None, "not_held").to_string());
            }
            return Ok(Exit::No);
        }
    };
    let options = found.stored.options(options)?;
    let ended = end(&found, &options).await.map_err(|mut failure| {
        if !file::is_stream(path) {
            failure.message.push_str("; the key file stays, so that this can be tried again");
        }
        failure
    })?;
    found.remove()?;
    let key = &found.stored.key;
    if json {
        let owner = ended.holder.as_ref().and_then(|info| info.owner.as_deref());
        let line = report::release(Some(key.name()), Some(key.value()), owner, ended.status);
        console.put(&line.to_string());
    } else {
        console.put(&ended.message);
    }
    Ok(ended.exit)
}

/// The end of a lease by its key.
struct Ended {
    exit: Exit,
    status: &'static str,
    message: String,
    /// The holder by now, if there is one.
    holder: Option<LeaseInfo>,
}

// The library may add variants.
#[allow(clippy::wildcard_enum_match_arm)]
async fn end(found: &Found, options: &Options) -> Result<Ended, Failure> {
    let leases = connect::manager(options).await?;
    let failed = |error: Error| Failure::of(&error, options);
    let key = &found.stored.key;
    let name = key.name();
    // A release does not tell whether the lease had expired: its document may still be there.
    let seen = leases.get(name).await.map_err(failed)?;
    let is_ours = |info: &LeaseInfo| info.value.as_deref() == Some(key.value());
    let was_held = seen.as_ref().is_some_and(is_ours);
    let released = leases.release_detached(key).await.map_err(failed)?;
    let holder = seen.filter(|info| !is_ours(info));
    let not_held = |message: String| (Exit::No, "not_held", message);
    let (exit, status, message) = match released {
        Released::Released if was_held => (Exit::Done, "released", format!("{name:?} is released")),
        Released::Released => not_held(format!(
            "{name:?} had expired before this release; nobody had acquired it since"
        )),
        Released::NotHeld => not_held(match &holder {
            Some(info) => format!(
                "{name:?} was lost before this release: its holder is {}",
                list::owner(info)
            ),
            None if was_held => {
                format!("{name:?} was resumed with this key: whoever did that has another one")
            }
            None => format!("{name:?} had expired, or was released, before this release"),
        }),
        _ => (Exit::Done, "unknown", format!("{name:?} is no longer held under this key")),
    };
    Ok(Ended { exit, status, message, holder })
}
