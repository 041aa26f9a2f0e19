//! Documents that share a name are described as a manager describes leases.

use std::pin::pin;

use futures_util::StreamExt;
use mongo_lease::LeaseManager;
use mongo_lease_migrations::indexes::ObstacleKind;
use mongodb::bson::{DateTime, doc};

use super::{fresh, insert, plan};

#[tokio::test]
async fn a_holder_is_described_as_the_manager_describes_the_lease() {
    let (later, past) = (DateTime::MAX, DateTime::from_millis(0));
    let grant = |value: &str| doc! { "value": value, "owner": "billing@host:1" };
    let forms = [
        doc! { "value": "v", "expiresAt": past },
        doc! { "value": "v" },
        doc! { "value": "v", "expiresAt": null, "queue": [{}, {}] },
        doc! { "value": "v", "expiresAt": "soon", "grant": grant("v") },
        doc! { "value": "v", "expiresAt": { "$date": 1 } },
        doc! { "value": 7, "expiresAt": past, "queue": "none" },
        doc! { "value": "v", "expiresAt": DateTime::MIN, "grant": grant("v") },
        doc! { "value": "v", "expiresAt": later, "grant": grant("v") },
        doc! { "value": "v", "expiresAt": later, "grant": grant("another") },
        doc! { "expiresAt": later, "grant": { "owner": "billing@host:1" } },
        doc! { "value": "released:1", "expiresAt": later },
    ];
    for form in forms {
        let database = fresh().await;
        let document = |name: &str| {
            let mut document = doc! { "name": name };
            document.extend(form.clone());
            document
        };
        insert(&database, vec![document("a"), document("a")]).await;
        let leases = LeaseManager::builder(&database).assume_indexes(true).read_only(true);
        let leases = leases.build().await.unwrap();
        let listed = leases.list().with_free().stream().unwrap();
        let lease = pin!(listed).next().await.expect("a document").unwrap();
        let found = plan(&database).await;
        let [obstacle] = found.obstacles() else { panic!("not one obstacle: {found}") };
        assert_eq!(obstacle.kind(), ObstacleKind::Duplicates);
        for holder in &obstacle.duplicate_names()[0].holders {
            assert_eq!((&holder.value, &holder.owner), (&lease.value, &lease.owner), "{form}");
            assert_eq!((holder.is_held(), holder.waiting), (lease.is_held(), lease.waiting));
            // The two replies are not of the same moment.
            let words = |text: &str| text.split(" for ").next().unwrap().to_owned();
            let described = format!("lease \"a\" {}", words(&holder.to_string()));
            assert_eq!(described, words(&lease.to_string()), "{form}");
            assert_eq!(holder.remaining.is_some(), lease.remaining.is_some(), "{form}");
        }
    }
}
