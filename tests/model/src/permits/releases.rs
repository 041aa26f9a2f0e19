//! The primary's steps with releases.

use mongo_lease_core::spec::permits::{self, Holders, ReleaseScope};
use mongo_lease_core::spec::{self, Expiry, HandOffTo, Types};

use crate::permits::bounds::PermitVariant;
use crate::permits::primary::{Carrying, value_of};
use crate::permits::state::{Does, Form, Order};
use crate::server::{Document, GrantMatch, Key, Promoted};

impl Form {
    /// The form that follows where this one has matched nothing. (The general form follows a hand-off only if the
    /// hand-off has left the lease to it.)
    fn next(self) -> Option<Form> {
        match self {
            Form::Delete => Some(Form::HandOff),
            Form::DeleteLastHolder => Some(Form::Permit),
            Form::HandOff | Form::Permit => Some(Form::General),
            Form::General => None,
        }
    }
}

/// To whom the hand-off goes that a release with this scope sends.
fn to(scope: ReleaseScope) -> HandOffTo {
    match scope {
        ReleaseScope::Grant => HandOffTo::LiveWaiterOrNobody,
        ReleaseScope::GrantOrEntry => HandOffTo::AfterLeavingQueue,
    }
}

impl Carrying<'_> {
    /// Carries a release out. Where it matches nothing, the next form is sent.
    pub(crate) fn end(
        &mut self,
        order: Order,
        (which, scope, form): (GrantMatch, ReleaseScope, Form),
        comes_again: bool,
        now: i64,
    ) {
        let before = self.world.document.clone();
        let (mut after, matched) = self.ended(order, which, scope, form, now);
        let counts_down = self.bounds.is(PermitVariant::ReleaseCountsDown);
        if !matched && counts_down && form == Form::General {
            after = after.map(counted_down);
        }
        let has_changed = after != before;
        // The document forgets it when the stream has told it, so this write told it.
        let told = after.as_ref().and_then(|document| document.promoted);
        self.written(after, Some(order.client));
        if has_changed && matched {
            self.see_sleeper(form, now);
            self.see_untold(before.as_ref(), told, order.client, now);
        }
        if comes_again {
            let does = Does::End { which, scope, form, comes_again: false };
            self.world.orders.push(Order { does, ..order });
        }
        let is_over = form == Form::HandOff
            && !spec::is_left_to_admit(
                before.as_ref(),
                &value_of(order.client),
                &which,
                to(scope),
                now,
            );
        if let (false, false, Some(form)) = (matched, is_over, form.next()) {
            self.world.send(order.client, Does::End { which, scope, form, comes_again: false });
        }
    }

    fn ended(
        &self,
        order: Order,
        which: GrantMatch,
        scope: ReleaseScope,
        form: Form,
        now: i64,
    ) -> (Option<Document>, bool) {
        let (found, variant) = (self.world.document.clone(), &self.bounds.variant);
        let value = value_of(order.client);
        let key = |which| match which {
            GrantMatch::Grant(id) => Some(Key { value, id }),
            GrantMatch::Any | GrantMatch::Call(..) => None,
        };
        match (form, key(which)) {
            (Form::Delete, _) => spec::release(found, &value, &which, variant),
            (Form::HandOff, _) => spec::hand_off(found, &value, &which, to(scope), now, variant),
            (Form::DeleteLastHolder, Some(key)) => permits::delete_last_holder(found, &key),
            (Form::Permit, Some(key)) => permits::release_permit(found, &key),
            (Form::DeleteLastHolder | Form::Permit, None) => (found, false),
            (Form::General, _) => {
                permits::release_and_admit(found, &value, &which, scope, now, variant)
            }
        }
    }

    /// Checks that the first live waiter is told, or admitted, where the lease in shared use ends earlier than before.
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
    ///
    /// A lease that expires is for the waiters' own attempts, unless the general form has ended it.
    fn see_sleeper(&mut self, form: Form, now: i64) {
        let Some(document) = &self.world.document else {
            return;
        };
        let is_free = !matches!(document.expiry, Expiry::At(at) if at > now);
        let is_open = if is_free { form == Form::General } else { document.is_in_shared_use() };
        let head = document.queue.entries().find(|entry| entry.expires_at > now);
        let Some(head) = head.filter(|_| is_open) else {
            return;
        };
        let held = document.sharers().into_iter().filter(|holder| holder.expires_at > now);
        let held = held.map(|holder| usize::from(holder.value.0));
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
