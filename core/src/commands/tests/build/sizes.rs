//! How many bytes the commands have, and the document that they make.

use std::time::Duration;

use crate::bson::{Document, RawDocumentBuf, doc};
use crate::rules::permits::Permits;
use crate::spec::EndScope;

use super::super::{JOINS, SENT, database, fresh_values, request, slow};
use crate::commands::Command;
use crate::commands::acquire::{AcquireReply, AcquireRequest, SlowAcquire};
use crate::commands::fast_acquire::FastAdmit;
use crate::commands::release::{Delete, End, Form, GrantMatch, ReleaseTarget};
use crate::commands::renew::{GrantKey, RenewalTarget};
use crate::commands::renew_holders::RenewHolders;

const NAME: &str = "tenant:7";

/// A call with texts as long as real ones: a value of 65 bytes, and an owner of 18.
fn call(number: u32, permits: Permits, waits: bool) -> AcquireRequest {
    let value = format!("{:032x}-{number:032x}", u128::MAX);
    AcquireRequest {
        name: NAME.to_owned(),
        call_id: value.as_str().into(),
        value,
        owner: "worker@host-1:4242".into(),
        metadata: Document::new(),
        permits,
        joins: waits.then_some(JOINS),
        ..request()
    }
}

fn bytes(document: &Document) -> usize {
    RawDocumentBuf::try_from(document).unwrap().as_bytes().len()
}

fn of_command(command: &impl Command) -> usize {
    bytes(&command.build("locks", SENT))
}

/// Every call sends some of them, so none may grow unnoticed.
#[test]
fn commands_keep_their_sizes() {
    let share = Permits::new(1, 5).unwrap();
    let once = call(1, share, false);
    let grant_id = once.call_id.grant(1);
    let slow = |permits, waits| {
        of_command(&SlowAcquire { attempt_no: 1, ..slow(call(1, permits, waits)) })
    };
    let target = |grant, form| {
        let (name, value) = (NAME.to_owned(), once.value.clone());
        vec![ReleaseTarget { name, value, grant, form }]
    };
    let fast = FastAdmit { request: once.clone().into(), attempt_no: 1 };
    let grant = || GrantMatch::Grant(grant_id.clone());
    let end = |grant, form, scope| {
        of_command(&End { targets: target(grant, form), scope, values: fresh_values() })
    };
    let of_call = GrantMatch::Call { call_id: once.call_id.clone(), except: None };
    let delete = |form| of_command(&Delete { targets: target(grant(), form) });
    let key = GrantKey::new(NAME, &once.value, &grant_id).into();
    let renewed = RenewalTarget { key, lasts: Duration::from_secs(31) };
    for (command, size, size_max) in [
        ("acquire", slow(Permits::EXCLUSIVE, false), 5_700),
        ("acquire or join", slow(Permits::EXCLUSIVE, true), 6_600),
        ("acquire permits", slow(share, false), 11_400),
        ("acquire permits or join", slow(share, true), 11_900),
        ("fast admit", of_command(&fast), 5_200),
        ("end a lease", end(grant(), Form::Plain, EndScope::BesideOthers), 5_300),
        ("end a share", end(grant(), Form::List, EndScope::BesideOthers), 8_700),
        ("end a call", end(of_call, Form::Either, EndScope::HeldOrQueued), 10_400),
        ("delete a lease", delete(Form::Plain), 455),
        ("delete the last share", delete(Form::List), 525),
        ("renew", of_command(&RenewHolders { grants: vec![renewed] }), 1_020),
    ] {
        assert!(size <= size_max, "{command}: {size} bytes");
        assert!(size * 10 > size_max * 9, "{command}: {size} bytes, and {size_max} are allowed");
    }
}

/// A holder takes some 354 bytes beside its metadata, so a hundred of them are 35 KB.
#[tokio::test]
async fn a_document_grows_by_360_bytes_for_each_holder() {
    let database = database().await;
    let mut sizes = Vec::new();
    for number in 1..=100 {
        let command =
            FastAdmit { request: call(number, Permits::SHARED, false).into(), attempt_no: 1 };
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
