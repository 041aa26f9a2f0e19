//! Privileges: what the user may do with the collection.

use mongodb::bson::{Bson, Document, doc};
use serde_json::json;

use super::Patient;
use super::finding::Finding;

/// Without these nothing is granted.
const NEEDED: [&str; 4] = ["find", "insert", "update", "remove"];
/// Without these something is missing, and what.
const WANTED: [(&str, &str); 2] = [
    ("listIndexes", "managers have to be told that the indexes are there (`assume_indexes`)"),
    ("changeStream", "`watch` looks every second instead of being told"),
];

/// Whether the user may do what leases need.
pub(super) async fn privileges(patient: &Patient<'_>) -> Finding {
    const CHECK: &str = "privileges";
    let status = match patient.admin(doc! { "connectionStatus": 1, "showPrivileges": true }).await {
        Ok(status) => status,
        Err(why) => return Finding::unseen(CHECK, &why),
    };
    let empty = Document::new();
    let info = status.get_document("authInfo").unwrap_or(&empty);
    let users = documents(info, "authenticatedUsers");
    let Some(user) = users.first() else {
        // A server that asks for no password may still ask for one here: the check of the commands tells.
        let advice =
            "whoever reaches the server can do anything with it, if it asks for no password";
        let details = json!({ "user": null, "missing": [] });
        return Finding::note(CHECK, "nobody is logged in", advice.to_owned()).with(details);
    };
    let user = format!(
        "{}@{}",
        user.get_str("user").unwrap_or("unknown"),
        user.get_str("db").unwrap_or("unknown")
    );
    let granted = documents(info, "authenticatedUserPrivileges");
    let (database, collection) =
        (patient.connected.database.name(), &patient.options.connection.collection);
    verdict(&user, |action| may(&granted, database, collection, action))
}

fn verdict(user: &str, may: impl Fn(&str) -> bool) -> Finding {
    const CHECK: &str = "privileges";
    let lacks = |action: &&str| !may(action);
    let needed: Vec<&str> = NEEDED.into_iter().filter(lacks).collect();
    let wanted: Vec<(&str, &str)> = WANTED.into_iter().filter(|(it, _)| !may(it)).collect();
    let missing: Vec<&str> = needed.iter().copied().chain(wanted.iter().map(|it| it.0)).collect();
    let details = json!({ "user": user, "missing": missing });
    let message = format!("{user} lacks {}", missing.join(", "));
    let finding = if !needed.is_empty() {
        Finding::problem(CHECK, message, "grant them on the collection".to_owned())
    } else if !wanted.is_empty() {
        let consequences: Vec<&str> = wanted.iter().map(|it| it.1).collect();
        Finding::note(CHECK, message, format!("so {}", consequences.join("; ")))
    } else {
        Finding::ok(CHECK, format!("{user} has all that are needed"))
    };
    finding.with(details)
}

fn documents<'a>(holder: &'a Document, key: &str) -> Vec<&'a Document> {
    let array = holder.get_array(key).map(Vec::as_slice).unwrap_or_default();
    array.iter().filter_map(Bson::as_document).collect()
}

/// Whether one of the privileges allows an action on the collection.
fn may(granted: &[&Document], database: &str, collection: &str, action: &str) -> bool {
    granted.iter().any(|privilege| {
        let Ok(resource) = privilege.get_document("resource") else { return false };
        let Ok(actions) = privilege.get_array("actions") else { return false };
        let names = |key, wanted: &str| {
            // The empty string stands for any.
            resource.get_str(key).is_ok_and(|name| name.is_empty() || name == wanted)
        };
        let is_ours = names("db", database) && names("collection", collection);
        let is_any = resource.get_bool("anyResource").unwrap_or(false);
        let allows =
            |it: &Bson| matches!(it.as_str(), Some(it) if it == action || it == "anyAction");
        (is_ours || is_any) && actions.iter().any(allows)
    })
}

#[cfg(test)]
mod tests {
    use mongodb::bson::{Document, doc};

    use super::super::finding::Status;
    use super::{may, verdict};

    fn privilege(db: &str, collection: &str, actions: &[&str]) -> Document {
        doc! { "resource": { "db": db, "collection": collection }, "actions": actions.to_vec() }
    }

    #[test]
    fn a_privilege_counts_where_its_resource_is_ours() {
        let find_on = |db, collection| privilege(db, collection, &["find"]);
        for (granted, expected) in [
            (find_on("app", "locks"), true),
            (find_on("app", ""), true),
            (find_on("", ""), true),
            (find_on("", "locks"), true),
            (find_on("app", "others"), false),
            (find_on("other", "locks"), false),
            (privilege("app", "locks", &["insert"]), false),
            (doc! { "resource": { "cluster": true }, "actions": ["find"] }, false),
            (doc! { "resource": { "anyResource": true }, "actions": ["anyAction"] }, true),
        ] {
            assert_eq!(may(&[&granted], "app", "locks", "find"), expected, "{granted}");
        }
    }

    #[test]
    fn what_is_lacking_is_named() {
        let all = ["find", "insert", "update", "remove", "listIndexes", "changeStream"];
        assert_eq!(verdict("u@app", |it| all.contains(&it)).status, Status::Ok);
        let no_stream = verdict("u@app", |it| it != "changeStream");
        assert_eq!(no_stream.status, Status::Note);
        assert_eq!(no_stream.message, "u@app lacks changeStream");
        let reader = verdict("u@app", |it| it == "find");
        assert_eq!(reader.status, Status::Problem);
        assert!(reader.message.contains("insert, update, remove"), "{reader:?}");
    }
}
