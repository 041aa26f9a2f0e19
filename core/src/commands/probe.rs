//! Probes whether the server supports the commands that leases need.

use super::*;

/// The wire version of MongoDB 4.4, the first whose `findAndModify` takes a hint and a projection with expressions.
const WIRE_VERSION_MIN: i32 = 9;

/// Asks what kind of server this is.
#[derive(Clone, Debug)]
pub struct Hello;

/// The kind of server or cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Whether writes have a time in an oplog: true on replica sets and behind routers, false on a standalone server.
    pub has_oplog: bool,
    /// Whether the server is a router (mongos) in front of shards.
    pub is_router: bool,
    /// The server's clock, in milliseconds, where it has told that.
    pub now_ms: Option<i64>,
}

impl Command for Hello {
    type Reply = Topology;
    const LANE: Lane = Lane::Critical;

    fn build(&self, _collection: &str, _sent: Instant) -> Document {
        doc! { "hello": 1 }
    }

    fn decode(&self, reply: &Document, _sent: Instant) -> Result<Topology, DecodeError> {
        let wire_version = reply.get_i32("maxWireVersion").unwrap_or(0);
        if wire_version < WIRE_VERSION_MIN {
            let text =
                format!("the server is older than MongoDB 4.4 (wire version {wire_version})");
            return Err(DecodeError::Unsupported(text));
        }
        let is_router = matches!(reply.get_str("msg"), Ok("isdbgrid"));
        let has_oplog = is_router || reply.contains_key("setName");
        if has_oplog {
            reply::token(reply)?;
        }
        let now_ms = reply.get_datetime("localTime").ok().map(|now| now.timestamp_millis());
        Ok(Topology { has_oplog, is_router, now_ms })
    }
}

/// Checks that the server knows every feature that the commands use. Sends a `findAndModify` of the same form, which
/// matches nothing and writes nothing; a server that lacks a feature refuses it.
#[derive(Clone, Debug)]
pub struct DryRun;

impl Command for DryRun {
    type Reply = ();
    const LANE: Lane = Lane::Acquire;
    const IS_TRACED: bool = true;

    fn build(&self, collection: &str, _sent: Instant) -> Document {
        let choice = bind("until", now_plus(1_000_i64), |until| {
            let expiry = cond(is_date(format::EXPIRES_AT), until, "$$NOW");
            let granted = doc! { format::EXPIRES_AT: expiry, format::NAME: literal("$") };
            merge("$$ROOT", granted)
        });
        let query = doc! { format::NAME: { "$in": NO_ELEMENT } };
        let update = vec![doc! { "$replaceWith": choice }];
        find_and_modify(collection, query, update, snapshot::projection())
    }

    fn relies_on(&self, _reply: &()) -> Reliance {
        // It writes nothing.
        Reliance::Nothing
    }

    fn decode(&self, reply: &Document, _sent: Instant) -> Result<(), DecodeError> {
        let text = "the server returned a document for a query that matches none";
        match reply.get("value") {
            None | Some(Bson::Null) => Ok(()),
            Some(_) => Err(DecodeError::Unsupported(text.to_owned())),
        }
    }
}

/// Asks whether the server checks the hint even for a filter that can match nothing. If so, it refuses a blind insert
/// when the index is missing. A server that recognizes beforehand that nothing can match may not check it.
#[derive(Clone, Debug)]
pub struct IsHintUsed;

impl Command for IsHintUsed {
    type Reply = bool;
    const LANE: Lane = Lane::Acquire;

    fn build(&self, collection: &str, _sent: Instant) -> Document {
        doc! {
            "explain": {
                "find": collection,
                "filter": { format::NAME: { "$in": NO_ELEMENT } },
                "hint": { format::NAME: 1 },
                "collation": simple_collation(),
            },
            "verbosity": "queryPlanner",
        }
    }

    fn decode(&self, reply: &Document, _sent: Instant) -> Result<bool, DecodeError> {
        let planner = reply.get_document("queryPlanner").ok();
        Ok(planner.and_then(|it| it.get("winningPlan")).is_some_and(scans_names))
    }
}

/// Whether some stage of a plan scans the index on names. Plans and their stages differ between versions and behind a
/// router; this stage does not.
fn scans_names(plan: &Bson) -> bool {
    if let Some(stage) = plan.as_document() {
        let is_scan = stage.get_str("stage").ok() == Some("IXSCAN");
        let keys = stage.get_document("keyPattern").ok();
        let is_ours = keys.is_some_and(|keys| keys.keys().eq([format::NAME]));
        return is_scan && is_ours || stage.values().any(scans_names);
    }
    plan.as_array().is_some_and(|plans| plans.iter().any(scans_names))
}

/// Checks that the server answers.
#[derive(Clone, Debug)]
pub struct Ping;

impl Command for Ping {
    type Reply = ();
    const LANE: Lane = Lane::Critical;

    fn build(&self, _collection: &str, _sent: Instant) -> Document {
        doc! { "ping": 1 }
    }

    fn decode(&self, _reply: &Document, _sent: Instant) -> Result<(), DecodeError> {
        Ok(())
    }
}
