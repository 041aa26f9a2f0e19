//! The primary's steps with releases.

use mongo_lease_core::spec::{self, Expiry, Holders, Types};

use crate::permits::bounds::PermitVariant;
use crate::permits::primary::{Carrying, value_of};
use crate::permits::state::{Does, Order};
use crate::releases::Ending;
use crate::server::{Document, GrantMatch, Promoted};

impl Carrying<'_> {
    /// Carries a release out. Where it matches nothing, the next command is sent.
    pub(crate) fn end(
        &mut self,
        order: Order,
        (which, by): (GrantMatch, Ending),
        comes_again: bool,
        now: i64,
    ) {
        let (before, value) = (self.world.document.clone(), value_of(order.client));
        let variant = &self.bounds.variant;
        let (mut after, matched) =
            by.carry_out(before.clone(), (value, which), false, now, variant);
        let counts_down = self.bounds.is(PermitVariant::ReleaseCountsDown);
        if !matched && counts_down && by.next().is_none() {
            after = after.map(counted_down);
        }
        let has_changed = after != before;
        // The document forgets it when the stream has told it, so this write told it.
        let told = after.as_ref().and_then(|document| document.promoted);
        self.written(after, Some(order.client));
        if has_changed && matched {
            self.see_sleeper(now);
            self.see_untold(before.as_ref(), told, order.client, now);
        }
        if comes_again {
            self.world
                .orders
                .push(Order { does: Does::End { which, by, comes_again: false }, ..order });
        }
        if let (false, Some(by)) = (matched, by.next()) {
            self.world.send(order.client, Does::End { which, by, comes_again: false });
        }
    }

    /// Checks that the first live waiter is told, or admitted, where a lease of several holders ends earlier now.
    fn see_untold(
        &mut self,
        before: Option<&Document>,
        told: Option<Promoted>,
        leaver: usize,
        now: i64,
    ) {
        let (Some(before), Some(after)) = (before, &self.world.document) else {
            return;
        };
        let first = |document: &Document| {
            let mut others = document.queue.entries().filter(|it| it.value != value_of(leaver));
            others.find(|entry| entry.expires_at > now).map(|entry| entry.id)
        };
        let stays = first(after).filter(|id| first(before) == Some(*id));
        let ends_earlier = after.is_in_shared_use() && after.expiry < before.expiry;
        if let (Some(id), true) = (stays, ends_earlier) {
            self.world.seen.untold |= told != Some(Promoted::Recheck { id });
        }
    }

    /// Checks that the first live waiter does not fit beside those who hold, or it would have been admitted.
    pub(crate) fn see_sleeper(&mut self, now: i64) {
        let Some(document) = &self.world.document else {
            return;
        };
        let is_free = !matches!(document.expiry, Expiry::At(at) if at > now);
        let is_open = is_free || document.is_in_shared_use();
        let head = document.queue.entries().find(|entry| entry.expires_at > now);
        let Some(head) = head.filter(|_| is_open) else {
            return;
        };
        let held = document.sharers().into_iter().filter(|holder| holder.expires_at > now);
        let held = held.map(|holder| usize::from(holder.grant.value.0));
        let with_it = held.chain([usize::from(head.value.0)]);
        self.world.seen.sleeps |= self.bounds.fit(with_it);
    }
}

/// The mistake: one permit less is in use, whoever had it.
fn counted_down(mut document: Document) -> Document {
    let Holders::List(holders) = &mut document.holders else {
        return document;
    };
    if document.value != Some(crate::server::Small::shared()) || holders.is_empty() {
        return document;
    }
    holders.remove(0);
    if holders.is_empty() {
        document.holders = Holders::Absent;
        document.value = Some(crate::server::Small::nobody());
        document.expiry = Expiry::At(spec::LONG_AGO);
    }
    document
}
