//! Every command, for tests of properties that all of them share.

use std::sync::Arc;
use std::time::Duration;

use crate::bson::{Document, Timestamp, doc};
use crate::rules::guesses::FastForm;
use crate::rules::ids::{CallId, GrantId};
use crate::rules::pattern::NamePattern;
use crate::rules::permits::Permits;
use crate::rules::time::Instant;
use crate::spec::EndScope;

use super::{request, values};
use crate::commands::Command;
use crate::commands::acquire::{AcquireRequest, QueueOptions, SlowAcquire};
use crate::commands::fast_acquire::FastAdmit;
use crate::commands::fast_acquire::{FastAcquire, FastAcquireMany};
use crate::commands::find::{FindHolders, FindLeases, GetLease, Page};
use crate::commands::heartbeat::{FindEntries, Heartbeat, QueueEntry};
use crate::commands::indexes::FindOtherFormat;
use crate::commands::probe::{DryRun, Hello, IsHintUsed, Ping};
use crate::commands::release::{Delete, End, EndLater, Form, GrantMatch, ReleaseTarget, Tombstone};
use crate::commands::renew::{GrantKey, Guard, RenewMany, RenewalTarget, Resume, StandaloneToken};
use crate::commands::renew_holders::RenewHolders;

/// Contained in each text of a user's, and in none of ours.
pub(super) const MARK: &str = "user";

/// Texts of a user's, each of which would be an expression if it were unquoted in a pipeline.
pub(super) const NAME: &str = "$user.name";
pub(super) const VALUE: &str = "$$user_value";
pub(super) const PREDECESSOR: &str = "$$user_predecessor";
pub(super) const OWNER: &str = "$user_owner";
pub(super) const META: [&str; 5] =
    ["$user_key", "$user_text", "$$user.inner", "$$user_item", "$user_last"];
/// An id of ours that looks like a user's text: it must be quoted too.
pub(super) const CALL: &str = "$user_call";

fn metadata() -> Document {
    let [key, text, inner, item, last] = META;
    doc! { key: text, "plain": { inner: [item, { last: 1 }] } }
}

fn grant_id() -> GrantId {
    CallId::from(CALL).grant(1)
}

fn acquire(joins: Option<QueueOptions>, predecessor: Option<&str>) -> SlowAcquire {
    acquire_of(Permits::EXCLUSIVE, joins, predecessor)
}

fn acquire_of(
    permits: Permits,
    joins: Option<QueueOptions>,
    predecessor: Option<&str>,
) -> SlowAcquire {
    let request = AcquireRequest {
        name: NAME.to_owned(),
        value: VALUE.to_owned(),
        call_id: CALL.into(),
        owner: OWNER.into(),
        metadata: metadata(),
        permits,
        joins,
        ..request()
    };
    SlowAcquire {
        request: Arc::new(request),
        attempt_no: 1,
        predecessor: predecessor.map(str::to_owned),
    }
}

fn take(joins: Option<QueueOptions>) -> FastAcquire {
    FastAcquire {
        request: acquire(joins, None).request,
        attempt_no: 1,
        form: FastForm::LookUp,
        resends: 0,
        first_sent: None,
    }
}

/// One target of each kind.
fn targets() -> Vec<ReleaseTarget> {
    let form = Form::Either;
    let target =
        |grant| ReleaseTarget { name: NAME.to_owned(), value: VALUE.to_owned(), grant, form };
    let of_call = |except| GrantMatch::Call { call_id: CALL.into(), except };
    let kinds =
        [GrantMatch::Any, GrantMatch::Grant(grant_id()), of_call(None), of_call(Some(grant_id()))];
    kinds.map(target).to_vec()
}

fn key() -> GrantKey {
    GrantKey::new(NAME, VALUE, &grant_id())
}

fn places() -> Vec<QueueEntry> {
    [VALUE, PREDECESSOR]
        .map(|value| QueueEntry { name: NAME.to_owned(), value: value.to_owned() })
        .to_vec()
}

/// Every command with its name, built with this moment of sending.
pub(super) fn every_command(sent: Instant) -> Vec<(&'static str, Document)> {
    let mut commands = writes_of_waiters(sent);
    commands.extend(writes_of_holders(sent));
    commands.extend(writes_for_permits(sent));
    commands.extend(reads(sent));
    commands
}

fn writes_of_waiters(sent: Instant) -> Vec<(&'static str, Document)> {
    let waiter_ttl = Duration::from_secs(10);
    let joins = Some(QueueOptions { waiter_ttl: 10_000, max_waiting: 7 });
    let acquires = vec![take(None), take(joins)];
    vec![
        ("take", take(joins).build("locks", sent)),
        ("take together", FastAcquireMany { acquires }.build("locks", sent)),
        ("acquire", acquire(None, None).build("locks", sent)),
        ("join", acquire(joins, None).build("locks", sent)),
        ("take over a place", acquire(joins, Some(PREDECESSOR)).build("locks", sent)),
        (
            "insert",
            FastAcquire {
                request: acquire(None, None).request,
                attempt_no: 1,
                form: FastForm::Insert,
                resends: 0,
                first_sent: None,
            }
            .build("locks", sent),
        ),
        ("beat", Heartbeat { entries: places(), waiter_ttl }.build("locks", sent)),
    ]
}

fn renewed() -> RenewalTarget {
    RenewalTarget { key: key().into(), lasts: Duration::from_secs(31) }
}

fn writes_of_holders(sent: Instant) -> Vec<(&'static str, Document)> {
    let hold_at_least = Duration::from_secs(5);
    let later = |target| EndLater { target, hold_at_least, values: values() }.build("locks", sent);
    let RenewalTarget { key: own, lasts } = renewed();
    let guard = Guard { key: own, lasts };
    let timing = request().timing;
    let resume = Resume { key: key(), fresh_id: grant_id(), ttl: None, timing };
    let tombstone = Tombstone { targets: targets(), values: values() };
    let mut commands = vec![
        ("delete", Delete { targets: targets() }.build("locks", sent)),
        ("tombstone", tombstone.build("locks", sent)),
        ("renew", RenewMany { grants: vec![renewed()] }.build("locks", sent)),
        ("resume", resume.build("locks", sent)),
        ("guard", guard.build("locks", sent)),
        ("tick", StandaloneToken { key: key() }.build("locks", sent)),
        ("dry run", DryRun.build("locks", sent)),
    ];
    commands.extend(targets().into_iter().map(|target| ("end later", later(target))));
    let end = |scope| End { targets: targets(), scope, values: values() }.build("locks", sent);
    commands.extend([
        ("end beside others", end(EndScope::BesideOthers)),
        ("end anywhere", end(EndScope::Anywhere)),
        ("end or leave", end(EndScope::HeldOrQueued)),
    ]);
    commands
}

fn writes_for_permits(sent: Instant) -> Vec<(&'static str, Document)> {
    let joins = Some(QueueOptions { waiter_ttl: 10_000, max_waiting: 7 });
    let admit = |joins| acquire_of(Permits::SHARED, joins, None);
    let fast = FastAdmit { request: admit(joins).request, attempt_no: 1 };
    vec![
        ("admit", admit(None).build("locks", sent)),
        ("admit or join", admit(joins).build("locks", sent)),
        ("admit fast", fast.build("locks", sent)),
        ("renew a permit", RenewHolders { grants: vec![renewed()] }.build("locks", sent)),
        (
            "renew two permits",
            RenewHolders { grants: vec![renewed(), renewed()] }.build("locks", sent),
        ),
    ]
}

fn reads(sent: Instant) -> Vec<(&'static str, Document)> {
    let page = Page {
        pattern: NamePattern::Prefix(NAME.to_owned()),
        owner: Some(OWNER.to_owned()),
        after: Some(NAME.to_owned()),
        limit: 100,
    };
    let look = FindLeases { names: vec![NAME.to_owned()], after: None };
    let look_after =
        FindLeases { after: Some(Timestamp { time: 9, increment: 3 }), ..look.clone() };
    vec![
        ("in line", FindEntries { entries: places() }.build("locks", sent)),
        ("look", look.build("locks", sent)),
        ("look after a time", look_after.build("locks", sent)),
        ("find holders", FindHolders { grants: vec![key()] }.build("locks", sent)),
        ("get", GetLease { name: NAME.to_owned() }.build("locks", sent)),
        ("page", page.build("locks", sent)),
        ("is hint used", IsHintUsed.build("locks", sent)),
        ("hello", Hello.build("locks", sent)),
        ("ping", Ping.build("locks", sent)),
        ("find another format", FindOtherFormat.build("locks", sent)),
    ]
}
