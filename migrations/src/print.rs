//! Print: the commands, for those who run them by hand.

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

/// The same for programs: each command as the document that it is.
pub(crate) fn for_programs(database: &str, collection: &str) -> Value {
    json!({
        "database": database,
        "collection": collection,
        "commands": indexes::commands(collection),
        "shard_collection": shard_collection(database, collection),
    })
}

/// By `name` and nothing else: on a sharded collection only such an index can be unique.
fn shard_collection(database: &str, collection: &str) -> String {
    let namespace = json!(format!("{database}.{collection}"));
    let options = "{ collation: { locale: \"simple\" } }";
    format!("sh.shardCollection({namespace}, {{ name: 1 }}, true, {options});")
}
