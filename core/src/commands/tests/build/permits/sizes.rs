//! How many bytes the commands have, and the document that they make.

use std::sync::Arc;
use std::time::Duration;

use crate::bson::{Document, RawDocumentBuf, doc};
use crate::rules::permits::Permits;
use crate::rules::timing::Timing;
use mongo_lease_testbed::Server;

use super::super::super::{SENT, fresh_values, joining, request};
use crate::commands::Command;
use crate::commands::acquire::{AcquireReply, AcquireRequest};
use crate::commands::permits::{
    Admit, DeleteLastHolder, FastAdmit, ReleaseAndAdmit, ReleasePermit, ReleaseScope, RenewHolders,
};
use crate::commands::release::{GrantMatch, ReleaseTarget};
use crate::commands::renew::{GrantKey, RenewalTarget};

const NAME: &str = "tenant:7";

/// A call with texts as long as real ones: a value of 65 bytes, and an owner of 18.
fn call(number: u32, waits: bool) -> Arc<AcquireRequest> {
    let joins = joining().request.joins.filter(|_| waits);
    let timing = Timing::new(Duration::from_secs(30), Duration::from_secs(1), None).unwrap();
    let value = format!("{:032x}-{number:032x}", u128::MAX);
    Arc::new(AcquireRequest {
        name: NAME.to_owned(),
        call_id: value.as_str().into(),
        value,
        owner: "worker@host-1:4242".into(),
        metadata: Document::new(),
        timing: Arc::new(timing),
        joins,
        ..request()
    })
}

fn bytes(document: &Document) -> usize {
    RawDocumentBuf::try_from(document).unwrap().as_bytes().len()
}

fn of_command(command: &impl Command) -> usize {
    bytes(&command.build("locks", SENT))
}

/// Every call sends some of them, so none may grow unnoticed.
#[test]
fn commands_for_permits_keep_their_sizes() {
    let permits = Permits::new(1, 5).unwrap();
    let once = call(1, false);
    let grant_id = once.call_id.grant(1);
    let key = GrantKey::new(NAME, &once.value, &grant_id);
    let release = |grant, scope| {
        let target = ReleaseTarget { name: NAME.to_owned(), value: once.value.clone(), grant };
        of_command(&ReleaseAndAdmit { target, scope, values: fresh_values() })
    };
    let of_call = GrantMatch::Call { call_id: once.call_id.clone(), except: None };
    let fast = FastAdmit { request: Arc::clone(&once), permits, attempt: 1 };
    let admit = Admit { request: Arc::clone(&once), permits, attempt: 1 };
    let joining = Admit { request: call(1, true), ..admit.clone() };
    let last = ReleasePermit { key: key.clone(), values: fresh_values() };
    let lasts = Duration::from_secs(31);
    let renewed = RenewalTarget { key: Arc::new(key.clone()), lasts };
    for (command, size, size_max) in [
        ("fast admit", of_command(&fast), 5_100),
        ("admit", of_command(&admit), 12_350),
        ("admit or join", of_command(&joining), 12_800),
        ("release a grant", release(GrantMatch::Grant(grant_id), ReleaseScope::Grant), 10_050),
        ("release a call", release(of_call, ReleaseScope::GrantOrEntry), 10_850),
        ("release a permit", of_command(&last), 1_000),
        ("delete the last holder", of_command(&DeleteLastHolder { key: key.clone() }), 510),
        ("renew", of_command(&RenewHolders { grants: vec![renewed] }), 1_020),
    ] {
        assert!(size <= size_max, "{command}: {size} bytes");
        assert!(size * 10 > size_max * 9, "{command}: {size} bytes, and {size_max} are allowed");
    }
}

/// A holder takes some 354 bytes beside its metadata, so a hundred of them are 35 KB.
#[tokio::test]
async fn a_document_grows_by_360_bytes_for_each_holder() {
    let database = Server::shared().database().await;
    let index = doc! { "key": { "name": 1 }, "name": "name_1", "unique": true };
    let indexes = doc! { "createIndexes": "locks", "indexes": [index] };
    database.run_command(indexes).await.unwrap();
    let mut sizes = Vec::new();
    for number in 1..=100 {
        let request = call(number, false);
        let command = FastAdmit { request, permits: Permits::SHARED, attempt: 1 };
        let reply = database.run_command(command.build("locks", SENT)).await.unwrap();
        let decoded = command.decode(&reply, SENT).unwrap();
        assert!(matches!(decoded, AcquireReply::Granted(_)), "{number}: {decoded:?}");
        if [1, 10, 100].contains(&number) {
            let found = database.collection::<Document>("locks").find_one(doc! {}).await.unwrap();
            sizes.push(bytes(&found.unwrap()));
        }
    }
    for (size, size_max) in std::iter::zip(&sizes, [470, 3_700, 36_000]) {
        assert!(*size <= size_max, "{sizes:?}");
    }
    database.drop_database().await.unwrap();
}
