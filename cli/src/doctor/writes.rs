//! Checks the default write concern.

use mongodb::bson::{Document, doc};
use mongodb::options::{Acknowledgment, WriteConcern};
use serde_json::json;

use super::Patient;
use super::finding::Finding;

/// Lease commands use a majority in any case, and so do the transactions under leases.
pub(super) async fn write_concern(patient: &Patient<'_>) -> Finding {
    const CHECK: &str = "write concern";
    let ours = patient.connected.client_options.write_concern.as_ref();
    let ours = ours.and_then(|concern| concern.w.clone());
    let reply = patient.admin(doc! { "getDefaultRWConcern": 1 }).await;
    let default = reply.as_ref().ok().and_then(default_of);
    let details = json!({
        "client": ours.as_ref().map(words),
        "default": default.as_ref().map(words),
    });
    let effective = ours.as_ref().or(default.as_ref());
    let of_whom = if ours.is_some() { "the connection string's" } else { "the default" };
    let finding = match effective {
        _ if patient.is_standalone() => {
            Finding::ok(CHECK, "a standalone server confirms writes with its journal alone")
        }
        Some(Acknowledgment::Majority) => {
            Finding::ok(CHECK, format!("leases use majority; {of_whom} is majority too"))
        }
        Some(other) => {
            let message = format!("leases always use majority; {of_whom} is {}", words(other));
            let advice = "a failover can roll back such writes: fenced ones need majority";
            Finding::note(CHECK, message, advice.to_owned())
        }
        None => {
            let why = reply.err().unwrap_or_else(|| "the server does not report it".to_owned());
            let message = format!("leases always use majority; the default is unknown: {why}");
            Finding::note(CHECK, message, String::new())
        }
    };
    finding.with(details)
}

/// The cluster's default write concern, set by a user or implied by the server.
fn default_of(reply: &Document) -> Option<Acknowledgment> {
    let w = reply.get_document("defaultWriteConcern").ok()?.get("w")?;
    match w.as_str() {
        Some("majority") => Some(Acknowledgment::Majority),
        Some(tag) => Some(Acknowledgment::Custom(tag.to_owned())),
        None => u32::try_from(w.as_i64().or_else(|| w.as_i32().map(i64::from))?)
            .ok()
            .map(Acknowledgment::Nodes),
    }
}

// The driver may add variants.
#[allow(clippy::wildcard_enum_match_arm)]
fn words(acknowledgment: &Acknowledgment) -> String {
    match acknowledgment {
        Acknowledgment::Majority => "majority".to_owned(),
        Acknowledgment::Nodes(nodes) => format!("w: {nodes}"),
        Acknowledgment::Custom(name) => format!("w: {name:?}"),
        _ => format!("{:?}", WriteConcern::from(acknowledgment.clone())),
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;
    use mongodb::options::Acknowledgment;

    use super::default_of;

    #[test]
    fn a_default_is_read_in_each_of_its_forms() {
        let reply = |w: mongodb::bson::Bson| doc! { "defaultWriteConcern": { "w": w } };
        assert_eq!(default_of(&reply("majority".into())), Some(Acknowledgment::Majority));
        assert_eq!(default_of(&reply(1.into())), Some(Acknowledgment::Nodes(1)));
        let tagged = Some(Acknowledgment::Custom("two-sites".to_owned()));
        assert_eq!(default_of(&reply("two-sites".into())), tagged);
        assert_eq!(default_of(&doc! { "ok": 1 }), None);
    }
}
