//! Every command, for tests of properties that all of them share.

use std::time::Duration;

use crate::bson::{Document, Timestamp, doc};
use crate::rules::guesses::FastForm;
use crate::rules::ids::{CallId, GrantId};
use crate::rules::pattern::NamePattern;
use crate::rules::permits::Permits;
use crate::rules::time::Instant;
use crate::spec::EndScope;

use super::{JOINS, entries, fast, request, slow, values};
use crate::commands::Command;
use crate::commands::acquire::{AcquireRequest, QueueOptions, SlowAcquire};
use crate::commands::confirm::FindWritten;
use crate::commands::fast_acquire::{FastAcquire, FastAcquireMany, FastAdmit};
use crate::commands::find::{FindApplied, FindGrants, FindHolders, FindLeases, GetLease, Page};
use crate::commands::heartbeat::{FindEntries, Heartbeat};
use crate::commands::indexes::{
    CountDuplicates, CreateIndex, FindOtherFormat, ListIndexes, LookAtCollection,
};
use crate::commands::probe::{DryRun, Hello, IsHintUsed, Ping};
use crate::commands::release::{Delete, End, EndLater, Form, GrantMatch, ReleaseTarget, Tombstone};
use crate::commands::renew::{GrantKey, Guard, RenewMany, RenewalTarget, Resume, StandaloneToken};
use crate::commands::renew_holders::RenewHolders;
use crate::schema::SPECS;

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

fn grant_id() -> GrantId {
    CallId::from(CALL).grant(1)
}

/// The call of this user for these permits.
fn call(permits: Permits, joins: Option<QueueOptions>) -> AcquireRequest {
    let [key, text, inner, item, last] = META;
    AcquireRequest {
        name: NAME.to_owned(),
        value: VALUE.to_owned(),
        call_id: CALL.into(),
        owner: OWNER.into(),
        metadata: doc! { key: text, "plain": { inner: [item, { last: 1 }] } },
        permits,
        joins,
        ..request()
    }
}

/// Its first attempt in the slow form, and in the fast one.
fn acquire(permits: Permits, joins: Option<QueueOptions>) -> SlowAcquire {
    SlowAcquire { attempt_no: 1, ..slow(call(permits, joins)) }
}

fn take(joins: Option<QueueOptions>) -> FastAcquire {
    FastAcquire { attempt_no: 1, ..fast(call(Permits::EXCLUSIVE, joins)) }
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

fn renewed() -> RenewalTarget {
    RenewalTarget { key: key().into(), lasts: Duration::from_secs(31) }
}

/// Every command with its name, built with this moment of sending.
pub(super) fn every_command(sent: Instant) -> Vec<(&'static str, Document)> {
    let mut every = Every { sent, commands: Vec::new() };
    every.add_acquires();
    every.add_writes_of_holders();
    every.add_releases();
    every.add_reads();
    every.add_those_of_indexes();
    every.commands
}

struct Every {
    sent: Instant,
    commands: Vec<(&'static str, Document)>,
}

impl Every {
    fn add(&mut self, name: &'static str, command: &impl Command) {
        self.commands.push((name, command.build("locks", self.sent)));
    }

    fn add_acquires(&mut self) {
        let joins = Some(JOINS);
        self.add("take", &take(joins));
        self.add("take together", &FastAcquireMany { acquires: vec![take(None), take(joins)] });
        self.add("insert", &FastAcquire { form: FastForm::Insert, ..take(None) });
        self.add("acquire", &acquire(Permits::EXCLUSIVE, None));
        self.add("join", &acquire(Permits::EXCLUSIVE, joins));
        let predecessor = Some(PREDECESSOR.to_owned());
        let successor = SlowAcquire { predecessor, ..acquire(Permits::EXCLUSIVE, joins) };
        self.add("take over a place", &successor);
        let admit = acquire(Permits::SHARED, None);
        self.add("admit", &admit);
        self.add("admit or join", &acquire(Permits::SHARED, joins));
        self.add("admit fast", &FastAdmit { request: admit.request, attempt_no: 1 });
    }

    fn add_writes_of_holders(&mut self) {
        let entries = entries(&[(NAME, VALUE), (NAME, PREDECESSOR)]);
        self.add("in line", &FindEntries { entries: entries.clone() });
        self.add("beat", &Heartbeat { entries, waiter_ttl: Duration::from_secs(10) });
        self.add("renew", &RenewMany { grants: vec![renewed()] });
        self.add("renew a permit", &RenewHolders { grants: vec![renewed()] });
        self.add("renew two permits", &RenewHolders { grants: vec![renewed(), renewed()] });
        let timing = request().timing;
        self.add("resume", &Resume { key: key(), fresh_id: grant_id(), ttl: None, timing });
        let RenewalTarget { key: own, lasts } = renewed();
        self.commands.push(("guard", Guard { key: own, lasts }.build("locks", self.sent)));
        self.add("tick", &StandaloneToken { key: key() });
    }

    fn add_releases(&mut self) {
        self.add("delete", &Delete { targets: targets() });
        self.add("tombstone", &Tombstone { targets: targets(), values: values() });
        let hold_at_least = Duration::from_secs(5);
        for target in targets() {
            self.add("end later", &EndLater { target, hold_at_least, values: values() });
        }
        for (name, scope) in [
            ("end beside others", EndScope::BesideOthers),
            ("end anywhere", EndScope::Anywhere),
            ("end or leave", EndScope::HeldOrQueued),
        ] {
            self.add(name, &End { targets: targets(), scope, values: values() });
        }
    }

    fn add_reads(&mut self) {
        let look = FindLeases { names: vec![NAME.to_owned()], after: None };
        self.add("look", &look);
        self.add("find applied", &FindApplied(look.clone()));
        let after = Some(Timestamp { time: 9, increment: 3 });
        self.add("find grants", &FindGrants(FindLeases { after, ..look.clone() }));
        self.add("look after a time", &FindLeases { after, ..look });
        self.add("find holders", &FindHolders { grants: vec![key()] });
        let after = Timestamp { time: 9, increment: 3 };
        let holders = [(key().name().to_owned(), [key().value().to_owned()].into())].into();
        self.add("find written", &FindWritten { holders, after });
        self.add("get", &GetLease { name: NAME.to_owned() });
        let pattern = NamePattern::Prefix(NAME.to_owned());
        let (owner, after) = (Some(OWNER.to_owned()), Some(NAME.to_owned()));
        self.add("page", &Page { pattern, owner, after, limit: 100 });
        self.add("dry run", &DryRun);
        self.add("is hint used", &IsHintUsed);
        self.add("hello", &Hello);
        self.add("ping", &Ping);
        self.add("find another format", &FindOtherFormat);
    }

    fn add_those_of_indexes(&mut self) {
        self.add("look at the collection", &LookAtCollection);
        self.add("list indexes", &ListIndexes { tells_builds: true });
        self.add("count duplicates", &CountDuplicates);
        for spec in SPECS {
            self.add("create an index", &CreateIndex { name: spec.name.to_owned(), spec });
        }
    }
}
