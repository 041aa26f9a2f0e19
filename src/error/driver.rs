//! Short texts for the driver's errors, whose own texts are dumps of their fields.

use mongodb::error::{Error as DriverError, ErrorKind, WriteFailure};

use crate::failure::is_out_of_reach;

const UNAUTHORIZED: i32 = 13;
const AUTHENTICATION_FAILED: i32 = 18;

/// Describes an error in one sentence: the kind of failure, and why.
pub(super) fn describe(error: &DriverError) -> String {
    let kind = if is_about_login(error) {
        "the database refuses the login"
    } else if is_out_of_reach(error) {
        "the database is out of reach"
    } else {
        "the database failed"
    };
    format!("{kind}: {}", condense(error))
}

fn is_about_login(error: &DriverError) -> bool {
    // The driver may add new kinds.
    #[allow(clippy::wildcard_enum_match_arm)]
    match error.kind.as_ref() {
        ErrorKind::Authentication { .. } => true,
        ErrorKind::Command(command) => command.code == AUTHENTICATION_FAILED,
        _ => false,
    }
}

/// The reason alone, without the details that the driver dumps. If a privilege is missing, only the command's name: the
/// server's text repeats the whole command, with the lease's value and metadata.
pub(super) fn condense(error: &DriverError) -> String {
    let text = error.kind.to_string();
    // The driver may add new kinds.
    #[allow(clippy::wildcard_enum_match_arm)]
    match error.kind.as_ref() {
        ErrorKind::ServerSelection { message, .. } => condense_selection(message),
        ErrorKind::Command(command) if command.code == UNAUTHORIZED => name_command(text),
        ErrorKind::Write(WriteFailure::WriteError(refused)) => {
            format!("{} (code {})", refused.message, refused.code)
        }
        _ => text,
    }
}

fn name_command(refusal: String) -> String {
    match refusal.split_once(" command {") {
        Some((refusal, command)) => {
            let name = command.trim_start().split(':').next().unwrap_or_default();
            format!("{refusal} `{name}`")
        }
        None => refusal,
    }
}

/// The addresses, and the driver's last error from each. The driver gives them only in its text, after `Topology:`.
fn condense_selection(message: &str) -> String {
    let Some((head, topology)) = message.split_once(" Topology: ") else {
        return message.to_owned();
    };
    let servers: Vec<String> = topology.split("{ Address: ").skip(1).map(server).collect();
    if servers.is_empty() {
        return "the driver found no server; check the address and `replicaSet`".to_owned();
    }
    // All commands require a primary.
    let what = if head.contains("No available servers") {
        "cannot connect to"
    } else {
        "there is no primary among"
    };
    format!("{what} {}", servers.join(", "))
}

/// One server of a topology, from the text after `Address:`.
fn server(text: &str) -> String {
    let (address, rest) = text.split_once(", Type: ").unwrap_or((text, ""));
    let reason = match rest.split_once(", Error: ") {
        Some((_, error)) => {
            let error = error.split(", labels: ").next().unwrap_or_default();
            let error = error.strip_prefix("Kind: ").unwrap_or(error);
            let error = error.strip_prefix("I/O error: ").unwrap_or(error);
            error.split(" (os error ").next().unwrap_or_default()
        }
        None => match rest.split([',', ' ']).next().unwrap_or_default() {
            "" | "Unknown" => "no answer yet",
            state => state,
        },
    };
    format!("{address} ({reason})")
}

/// The code of the server's error, if the server answered with one.
#[cfg(feature = "tracing")]
pub(super) fn code(error: &DriverError) -> Option<i32> {
    // The driver may add new kinds.
    #[allow(clippy::wildcard_enum_match_arm)]
    match error.kind.as_ref() {
        ErrorKind::Command(command) => Some(command.code),
        ErrorKind::Write(WriteFailure::WriteError(refused)) => Some(refused.code),
        ErrorKind::Write(WriteFailure::WriteConcernError(failed)) => Some(failed.code),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::condense_selection;

    #[test]
    fn a_secondary_is_named_by_its_state() {
        let message = "Server selection timeout: None of the available servers suitable for \
            criteria ReadPreference(Primary). Topology: { Type: ReplicaSetNoPrimary, Set Name: rs, \
            Servers: [ { Address: a:1, Type: RsSecondary, Average RTT: 1ms, Tags: {} }, \
            { Address: b:2, Type: Unknown, Error: Kind: I/O error: Connection refused (os error \
            111), labels: {\"x\"}, source: None, server response: None } ] }";
        assert_eq!(
            condense_selection(message),
            "there is no primary among a:1 (RsSecondary), b:2 (Connection refused)"
        );
    }

    #[test]
    fn nothing_of_a_topology_is_shown_as_it_is() {
        let head = "Server selection timeout: No available servers. Topology: ";
        for (topology, condensed) in [
            ("{ Type: Unknown }", "the driver found no server"),
            ("{ Type: Unknown, Servers: [ { Address: a:1, Type: Unknown } ] }", "no answer yet)"),
            ("something else { }", "the driver found no server"),
        ] {
            let shown = condense_selection(&format!("{head}{topology}"));
            assert!(shown.contains(condensed), "{shown}");
            assert!(!shown.contains(['{', '}']), "{shown}");
        }
        assert_eq!(condense_selection("another text"), "another text");
    }
}
