//! Checks how far the members' clocks are apart. Leases are exclusive only within the maximum clock skew.

use std::time::Duration;

use futures_util::future::join_all;
use mongo_lease_migrations::process::open_client;
use mongodb::bson::Bson;
use mongodb::options::ServerAddress;
use serde_json::json;

use super::Patient;
use super::finding::Finding;
use crate::clock::Difference;
use crate::text;

/// The time limit for one member.
const MEMBER_DEADLINE: Duration = Duration::from_secs(3);

/// One member's clock, or why it is unknown.
struct Measured {
    host: String,
    difference: Result<Difference, String>,
}

/// Checks how far the members' clocks are apart, and from ours.
pub(super) async fn clocks(patient: &Patient<'_>) -> Finding {
    let hosts = patient.hello().get_array("hosts").map(Vec::as_slice).unwrap_or_default();
    let passive = patient.hello().get_array("passives").map(Vec::as_slice).unwrap_or_default();
    let hosts = hosts.iter().chain(passive).filter_map(Bson::as_str);
    let mut measured = join_all(hosts.map(|host| measure(patient, host))).await;
    if measured.is_empty() {
        // For a standalone server or a router.
        let difference = Difference::to(&patient.connected.database).await;
        let difference = difference.map_err(|error| patient.words(&error));
        measured.push(Measured { host: "the server".to_owned(), difference });
    }
    verdict(&measured, patient.max_clock_skew, patient.is_router())
}

async fn measure(patient: &Patient<'_>, host: &str) -> Measured {
    let measuring = async {
        let mut options = patient.connected.client_options.clone();
        options.hosts = vec![ServerAddress::parse(host)?];
        options.direct_connection = Some(true);
        options.repl_set_name = None;
        options.server_selection_timeout = Some(MEMBER_DEADLINE.mul_f64(0.9));
        let client = open_client(options)?;
        Difference::to(&client.database("admin")).await
    };
    let difference = match tokio::time::timeout(MEMBER_DEADLINE, measuring).await {
        Ok(difference) => difference.map_err(|error| patient.words(&error)),
        Err(_elapsed) => Err("it does not answer".to_owned()),
    };
    Measured { host: host.to_owned(), difference }
}

fn verdict(measured: &[Measured], max_clock_skew: Duration, is_router: bool) -> Finding {
    const CHECK: &str = "clocks";
    let known: Vec<Difference> =
        measured.iter().filter_map(|it| it.difference.as_ref().ok()).copied().collect();
    let list = measured.iter().map(|it| {
        let difference = it.difference.as_ref();
        json!({
            "host": it.host,
            "ahead_ms": difference.ok().map(|it| it.ahead_ms),
            "uncertain_ms": difference.ok().map(|it| it.uncertain_ms),
            "error": difference.err(),
        })
    });
    let list: Vec<_> = list.collect();
    // The certain part of the difference: the gap between two members' intervals.
    let latest = known.iter().map(|it| it.ahead_ms - it.uncertain_ms).max().unwrap_or(0);
    let earliest = known.iter().map(|it| it.ahead_ms + it.uncertain_ms).min().unwrap_or(0);
    let apart_ms = (latest - earliest).max(0);
    let details = json!({ "members": list, "members_apart_ms": apart_ms,
        "max_clock_skew_ms": u64::try_from(max_clock_skew.as_millis()).ok() });
    let message = message(measured, apart_ms);
    let apart = Duration::from_millis(u64::try_from(apart_ms).unwrap_or(0));
    let finding = if apart > max_clock_skew {
        let advice = format!(
            "this is more than `max_clock_skew` ({}): after a failover a lease can be granted \
             while its former holder still relies on it. Synchronize the clocks, or raise \
             `max_clock_skew`",
            text::span(max_clock_skew)
        );
        Finding::problem(CHECK, message, advice)
    } else if known.len() < measured.len() {
        Finding::note(CHECK, message, "run this from a host that reaches every member".to_owned())
    } else if is_router {
        let advice = "this is the clock of a router; compare those of each shard's members";
        Finding::note(CHECK, message, advice.to_owned())
    } else {
        Finding::ok(CHECK, message)
    };
    finding.with(details)
}

fn message(measured: &[Measured], apart_ms: i64) -> String {
    let one = |it: &Measured| match &it.difference {
        Ok(Difference { ahead_ms, uncertain_ms }) if ahead_ms.abs() <= *uncertain_ms => {
            format!("{} matches the local clock (± {uncertain_ms} ms)", it.host)
        }
        Ok(Difference { ahead_ms, uncertain_ms }) => {
            let way = if *ahead_ms > 0 { "ahead of" } else { "behind" };
            let ahead_ms = ahead_ms.abs();
            format!("{} is {ahead_ms} ms {way} the local clock (± {uncertain_ms} ms)", it.host)
        }
        Err(why) => format!("{} unknown: {why}", it.host),
    };
    let each = measured.iter().map(one).collect::<Vec<_>>().join(", ");
    match measured {
        [_] => each,
        _ => format!("the members differ by at least {apart_ms} ms; {each}"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::finding::Status;
    use super::{Measured, verdict};
    use crate::clock::Difference;

    fn at(ahead_ms: i64) -> Measured {
        let difference = Ok(Difference { ahead_ms, uncertain_ms: 10 });
        Measured { host: "db".to_owned(), difference }
    }

    fn status(measured: &[Measured]) -> Status {
        verdict(measured, Duration::from_secs(1), false).status
    }

    #[test]
    fn members_within_the_max_skew_are_well_however_far_we_are() {
        assert_eq!(status(&[at(0)]), Status::Ok);
        assert_eq!(status(&[at(0), at(400), at(-500)]), Status::Ok);
        assert_eq!(status(&[at(90_000), at(90_500)]), Status::Ok, "our own clock does not count");
        assert_eq!(
            status(&[at(0), at(1_020)]),
            Status::Ok,
            "what is uncertain is not held against"
        );
    }

    #[test]
    fn members_further_apart_than_the_max_skew_are_a_problem() {
        assert_eq!(status(&[at(0), at(1_021)]), Status::Problem);
        assert_eq!(status(&[at(-700), at(0), at(700)]), Status::Problem);
        let finding = verdict(&[at(0), at(1_500)], Duration::from_secs(1), false);
        let expected = "the members differ by at least 1480 ms";
        assert!(finding.message.starts_with(expected), "{finding:?}");
    }

    #[test]
    fn a_member_that_is_out_of_reach_is_noted() {
        let silent = Measured { host: "db".to_owned(), difference: Err("silent".to_owned()) };
        let finding = verdict(&[at(0), silent], Duration::from_secs(1), false);
        assert_eq!(finding.status, Status::Note);
        assert!(finding.message.contains("db unknown: silent"), "{finding:?}");
    }
}
