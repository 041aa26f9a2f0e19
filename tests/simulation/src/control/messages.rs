//! Mistakes in commands, in replies and in events, on their way.

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use mongo_lease_core::bson::Document;
use mongo_lease_core::commands::{
    AcquireReply, AcquireRequest, Delete, End, FastAcquired, FastAdmit, FindLeases, GrantKey,
    GrantMatch, LeaseSnapshot, Matched, Promotion, ReleaseTarget, RenewHolders, RenewMany,
    SlowAcquire, StreamEvent, Tombstone,
};
use mongo_lease_core::rules::permits::LIMIT_MAX;
use mongo_lease_core::rules::{Permits, millis_up};
use mongo_lease_core::spec::{Grant, Holder, HolderElement, Listed};
use mongo_lease_core::texts::{Details, LeaseDocument, Texts};

use crate::world::{COLLECTION, World};

/// By how much an event's echo is too late.
const LATER: Duration = Duration::from_millis(400);

/// How much later than written a promotion ends that has no bound.
const BOUNDLESS: Duration = Duration::from_secs(10);

/// The document of this name, now.
fn found<R>(world: &World, name: &str, look: impl FnOnce(&LeaseDocument) -> R) -> Option<R> {
    world.store.on_server(COLLECTION, |leases| leases.get(name).map(look))
}

/// A release ends the grant of whoever holds the lease.
pub(super) fn release_by_name(world: &World, command: &mut dyn Any) {
    for target in targets(command) {
        let holder = found(world, &target.name, |document| {
            let holder = document.value.clone();
            holder.filter(|_| !document.is_in_shared_use())
        });
        if let Some(Some(holder)) = holder {
            (target.value, target.grant) = (holder, GrantMatch::Any);
        }
    }
}

fn targets(command: &mut dyn Any) -> &mut [ReleaseTarget] {
    if command.is::<Delete>() {
        return command.downcast_mut::<Delete>().map_or(&mut [], |it| &mut it.targets);
    }
    if command.is::<Tombstone>() {
        return command.downcast_mut::<Tombstone>().map_or(&mut [], |it| &mut it.targets);
    }
    command.downcast_mut::<End>().map_or(&mut [], |it| &mut it.targets)
}

/// A renewal puts holders of permits back that were removed.
pub(super) fn put_back(world: &World, command: &mut dyn Any) {
    for target in command.downcast_mut::<RenewHolders>().map_or(&mut [][..], |it| &mut it.grants) {
        let (key, lasts) = (&target.key, millis_up(target.lasts));
        world.store.on_server(COLLECTION, |leases| {
            leases.apply(key.name(), |mut found, now| {
                let sharers = found.as_ref().map(LeaseDocument::sharers).unwrap_or_default();
                let is_there = sharers.iter().any(|it| it.grant.id.as_str() == key.grant_id());
                if let Some(document) = found.as_mut().filter(|it| it.is_in_shared_use())
                    && let Listed::List(holders) = &mut document.holders
                    && !is_there
                {
                    holders.push(HolderElement::Holder(removed(key, now, lasts)));
                }
                (found, ())
            });
        });
    }
}

fn removed(key: &GrantKey, now: i64, lasts: i64) -> Holder<Texts> {
    let grant = Grant {
        value: key.value().to_owned(),
        id: key.grant_id().into(),
        sent: 0,
        acquired_at: now,
        ttl: lasts,
        max_clock_skew: 0,
        writes: 1,
        details: Details { owner: String::new(), metadata: Document::new() }.into(),
    };
    Holder { grant, expires_at: now + lasts, permits: 1, limit: LIMIT_MAX.into() }
}

/// Permits fit that exceed the limit by one.
pub(super) fn one_too_many(_world: &World, command: &mut dyn Any) {
    let request = if command.is::<SlowAcquire>() {
        command.downcast_mut::<SlowAcquire>().map(|it| &mut it.request)
    } else {
        command.downcast_mut::<FastAdmit>().map(|it| &mut it.request)
    };
    let Some(request) = request.filter(|it| !it.permits.is_exclusive()) else { return };
    let more = Permits::new(request.permits.count(), request.permits.limit() + 1);
    if let Ok(permits) = more {
        *request = Arc::new(AcquireRequest { permits, ..AcquireRequest::clone(request) });
    }
}

/// A holder counts from the reply.
pub(super) fn validity_from_reply(
    _world: &World,
    _command: &dyn Any,
    reply: &mut dyn Any,
    under_way: Duration,
) {
    let sent = if reply.is::<Option<AcquireReply>>() {
        match reply.downcast_mut::<Option<AcquireReply>>() {
            Some(Some(AcquireReply::Granted(granted))) => Some(&mut granted.sent),
            _ => None,
        }
    } else if reply.is::<Option<FastAcquired>>() {
        let reply = reply.downcast_mut::<Option<FastAcquired>>();
        reply.and_then(Option::as_mut).map(|it| &mut it.sent)
    } else {
        let reply = reply.downcast_mut::<Option<Matched>>();
        reply.and_then(Option::as_mut).map(|it| &mut it.sent)
    };
    if let Some(sent) = sent {
        *sent = sent.after(under_way);
    }
}

/// A renewal counts for all of its leases, whatever it has matched.
pub(super) fn all_matched(
    _world: &World,
    command: &dyn Any,
    reply: &mut dyn Any,
    _under_way: Duration,
) {
    if let Some(renewal) = command.downcast_ref::<RenewMany>()
        && let Some(Some(reply)) = reply.downcast_mut::<Option<Matched>>()
    {
        let names: BTreeSet<&str> = renewal.grants.iter().map(|it| it.key.name()).collect();
        reply.matched = i64::try_from(names.len()).unwrap_or(i64::MAX);
    }
}

/// The read behind a batch of releases finds none that still stands.
pub(super) fn forgotten_look(
    _world: &World,
    command: &dyn Any,
    reply: &mut dyn Any,
    _under_way: Duration,
) {
    let is_behind = command.downcast_ref::<FindLeases>().is_some_and(|look| look.after.is_some());
    if let Some(Some(found)) = reply.downcast_mut::<Option<Vec<LeaseSnapshot>>>()
        && is_behind
    {
        found.clear();
    }
}

fn promotions(event: &mut StreamEvent) -> &mut [Promotion] {
    match event {
        StreamEvent::Promoted(promotion) => std::slice::from_mut(promotion),
        StreamEvent::Admitted { admissions, .. } => admissions,
        StreamEvent::Recheck { .. } => &mut [],
    }
}

/// A promotion is valid from when its process hears of it, without the expiry that bounds it.
pub(super) fn boundless_event(event: &mut StreamEvent) {
    for promotion in promotions(event) {
        promotion.sent = promotion.sent.after(LATER);
        promotion.expires_at = promotion.expires_at.map(|at| at + BOUNDLESS);
    }
}
