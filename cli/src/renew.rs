//! Renews a detached lease by its key.

use mongo_lease::Error;

use crate::arguments::{Options, Renew};
use crate::connect;
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::key::file::{self, Absence};
use crate::{report, text};

/// Renews the lease of a key. The key does not change.
pub(crate) async fn renew(
    task: &Renew,
    options: &Options,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let stored = file::read(&task.key).map_err(|absence| match absence {
        Absence::NoFile => {
            Failure::usage(format!("{}: there is no such key file", task.key.display()))
        }
        Absence::Failed(failure) => failure,
    })?;
    let stored = stored.stored;
    let options = &stored.options(options)?;
    let leases = connect::manager(options).await?;
    let failed = |error: Error| Failure::of(&error, options);
    let expires_at = leases.renew_detached(&stored.key, task.ttl).await.map_err(failed)?;
    let until = text::moment(expires_at.timestamp_millis());
    if task.json {
        console.put(&report::renewed(&stored.key, &until).to_string());
    } else {
        console.put(&format!("{:?} is held until {until}", stored.key.name()));
    }
    Ok(Exit::Done)
}
