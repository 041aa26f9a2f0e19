//! Checks the kind of server, and the members of its replica set.

use mongodb::bson::{Bson, Document, doc};
use serde_json::json;

use super::Patient;
use super::finding::Finding;

/// The wire version of MongoDB 4.4, the oldest that leases work on.
const WIRE_VERSION_MIN: i32 = 9;

/// Checks the kind of server.
pub(super) async fn server(patient: &Patient<'_>) -> Finding {
    let build = patient.admin(doc! { "buildInfo": 1 }).await;
    let version = build.as_ref().ok().and_then(|build| build.get_str("version").ok());
    let hello = patient.hello();
    let kind = if patient.is_router() {
        "sharded cluster".to_owned()
    } else {
        match hello.get_str("setName") {
            Ok(name) => format!("replica set {name}"),
            Err(_) => "standalone server".to_owned(),
        }
    };
    let topology = if patient.is_router() {
        "sharded"
    } else if patient.is_standalone() {
        "standalone"
    } else {
        "replica_set"
    };
    let wire_version = hello.get_i32("maxWireVersion").unwrap_or(0);
    let message = format!("MongoDB {}, {kind}", version.unwrap_or("of unknown version"));
    let details =
        json!({ "version": version, "topology": topology, "max_wire_version": wire_version });
    let finding = if wire_version < WIRE_VERSION_MIN {
        Finding::problem("server", message, "leases need MongoDB 4.4 or later".to_owned())
    } else if patient.is_standalone() {
        let advice = "a standalone server has no change streams, no transactions and no oplog: \
                      tokens come from its clock, which must not be set back across a restart";
        Finding::note("server", message, advice.to_owned())
    } else {
        Finding::ok("server", message)
    };
    finding.with(details)
}

/// Checks that a majority is up, and stays up if one member fails.
pub(super) async fn members(patient: &Patient<'_>) -> Finding {
    const CHECK: &str = "members";
    if patient.is_standalone() {
        let advice = "no lease is granted while the server is down".to_owned();
        return Finding::note(CHECK, "one server", advice);
    }
    if patient.is_router() {
        return Finding::note(CHECK, "behind a router", "check each shard".to_owned());
    }
    let status = match patient.admin(doc! { "replSetGetStatus": 1 }).await {
        Ok(status) => status,
        Err(why) => return from_hello(patient.hello(), &why),
    };
    let members: Vec<Member> = status
        .get_array("members")
        .map(|members| members.iter().filter_map(Bson::as_document).map(Member::of).collect())
        .unwrap_or_default();
    let needed = status.get_i32("writeMajorityCount").ok();
    verdict(&members, needed.and_then(|needed| usize::try_from(needed).ok()))
}

/// One member of a replica set.
#[derive(Clone, Debug)]
struct Member {
    host: String,
    state: String,
    is_up: bool,
}

impl Member {
    fn of(document: &Document) -> Member {
        let text = |key| document.get_str(key).unwrap_or("unknown").to_owned();
        let healthy = document.get_f64("health").unwrap_or(0.0) > 0.0;
        Member { host: text("name"), state: text("stateStr"), is_up: healthy }
    }

    fn has_data(&self) -> bool {
        self.is_up && matches!(self.state.as_str(), "PRIMARY" | "SECONDARY")
    }
}

/// `needed`: how many data-bearing members must have a write.
fn verdict(members: &[Member], needed: Option<usize>) -> Finding {
    const CHECK: &str = "members";
    let needed = needed.unwrap_or(members.len() / 2 + 1);
    let with_data = members.iter().filter(|member| member.has_data()).count();
    let list = members.iter().map(|it| json!({ "host": it.host, "state": it.state }));
    let details = json!({ "members": list.collect::<Vec<_>>(), "write_majority": needed });
    let states = members.iter().map(|member| format!("{} {}", member.host, member.state));
    let message = states.collect::<Vec<_>>().join(", ");
    let has_arbiter = members.iter().any(|member| member.state == "ARBITER");
    let finding = if with_data < needed {
        let advice = format!(
            "a majority write needs {needed} members with data, and {with_data} are up: no lease \
             is granted, and held leases are lost"
        );
        Finding::problem(CHECK, message, advice)
    } else if members.len() == 1 {
        let advice = "no lease is granted while the only member is down".to_owned();
        Finding::note(CHECK, message, advice)
    } else if with_data == needed && has_arbiter {
        let advice = "an arbiter stores no data: if another member fails, there is a primary but \
                      no majority for its writes, and every lease is lost";
        Finding::note(CHECK, message, advice.to_owned())
    } else if with_data == needed {
        let advice = "if one more member with data fails, every lease is lost".to_owned();
        Finding::note(CHECK, message, advice)
    } else {
        Finding::ok(CHECK, message)
    };
    finding.with(details)
}

/// The finding from `hello`, which every user may run.
fn from_hello(hello: &Document, why: &str) -> Finding {
    let hosts = hello.get_array("hosts").map(Vec::as_slice).unwrap_or_default();
    let hosts: Vec<&str> = hosts.iter().filter_map(Bson::as_str).collect();
    let message = format!("{}; their state is unknown: {why}", hosts.join(", "));
    let list = hosts.iter().map(|host| json!({ "host": host, "state": null }));
    let details = json!({ "members": list.collect::<Vec<_>>(), "write_majority": null });
    Finding::note("members", message, String::new()).with(details)
}

#[cfg(test)]
mod tests {
    use super::super::finding::Status;
    use super::{Member, verdict};

    fn members(states: &[&str]) -> Vec<Member> {
        let member = |(number, state): (usize, &&str)| Member {
            host: format!("db{number}"),
            state: (*state).to_owned(),
            is_up: *state != "(not reachable/healthy)",
        };
        states.iter().enumerate().map(member).collect()
    }

    fn status(states: &[&str], needed: usize) -> Status {
        verdict(&members(states), Some(needed)).status
    }

    #[test]
    fn a_majority_with_one_to_spare_is_well() {
        assert_eq!(status(&["PRIMARY", "SECONDARY", "SECONDARY"], 2), Status::Ok);
        assert_eq!(status(&["PRIMARY", "SECONDARY", "(not reachable/healthy)"], 2), Status::Note);
        assert_eq!(status(&["PRIMARY", "SECONDARY", "ARBITER"], 2), Status::Note);
        assert_eq!(status(&["PRIMARY"], 1), Status::Note);
    }

    #[test]
    fn no_majority_is_a_problem() {
        let down = "(not reachable/healthy)";
        assert_eq!(status(&["PRIMARY", down, "ARBITER"], 2), Status::Problem);
        assert_eq!(status(&["PRIMARY", "RECOVERING", down], 2), Status::Problem);
    }
}
