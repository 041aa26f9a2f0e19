//! Prints the commands, for users who run them by hand.

use mongo_lease_migrations::indexes;
use serde_json::{Value, json};

/// The commands for mongosh.
pub(crate) fn for_mongosh(database: &str, collection: &str) -> String {
    let mut lines = vec![format!("// The indexes for leases in {database}.{collection}")];
    for command in indexes::commands(collection) {
        let (database, command) = (json!(database), json!(command));
        lines.push(format!("db.getSiblingDB({database}).runCommand({command});"));
    }
    lines.push("// On a sharded cluster, run this too, before the collection has data:".to_owned());
    lines.push(format!("// {}", shard_collection(database, collection)));
    lines.join("\n")
}

/// The same for programs: each command as its document.
pub(crate) fn for_programs(database: &str, collection: &str) -> Value {
    json!({
        "database": database,
        "collection": collection,
        "commands": indexes::commands(collection),
        "shard_collection": shard_collection(database, collection),
    })
}

/// The command that shards the collection by `name` alone. On a sharded collection an index can be unique only by the
/// shard key.
fn shard_collection(database: &str, collection: &str) -> String {
    let namespace = json!(format!("{database}.{collection}"));
    let options = "{ collation: { locale: \"simple\" } }";
    format!("sh.shardCollection({namespace}, {{ name: 1 }}, true, {options});")
}
