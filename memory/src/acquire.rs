//! Acquires in memory: the slow form, the fast forms, and many of a fast form together.

use super::*;

/// An attempt of this call.
fn request_of(call: &AcquireRequest, id: GrantId, sent: Instant) -> spec::AcquireAttempt<Texts> {
    spec::AcquireAttempt {
        value: call.value.clone(),
        id,
        permits: call.permits,
        ttl: millis_up(call.timing.ttl),
        max_clock_skew: millis_up(call.timing.max_clock_skew),
        sent: echo(sent),
        joins: call.joins,
        predecessor: None,
        details: Details { owner: call.owner.to_string(), metadata: call.metadata.clone() }.into(),
    }
}

/// The reply to an attempt of this call.
fn reply(
    leases: &Collection<'_>,
    call: &AcquireRequest,
    answer: spec::AcquireAnswer<Texts>,
    sent: Instant,
) -> AcquireReply {
    let (info, at) = (snapshot::of_reply(leases, call), Some(leases.operation_time()));
    match answer {
        spec::AcquireAnswer::Granted(grant_id) => {
            let share = own_share(leases, &call.name, &grant_id);
            AcquireReply::Granted(Granted { sent, grant_id, token: at, info, share })
        }
        spec::AcquireAnswer::Refused { ahead, .. } => {
            let ahead = ahead.map(|ahead| u32::try_from(ahead).unwrap_or(u32::MAX));
            let server_ms = Some(leases.now_ms());
            AcquireReply::Refused(Refused { sent, info, ahead, at, server_ms })
        }
        spec::AcquireAnswer::UseSlowForm => AcquireReply::UseSlowForm { maybe_granted: false },
    }
}

/// The part of the holder with this grant.
fn own_share(leases: &Collection<'_>, name: &str, id: &GrantId) -> Option<GrantedShare> {
    let own = leases.get(name)?.sharers().into_iter().find(|holder| holder.grant.id == *id)?;
    let number = |number| u32::try_from(number).ok();
    Some(GrantedShare {
        permits: Permits::new(number(own.permits)?, number(own.limit)?).ok()?,
        expires_at: DateTime::from_timestamp_millis(own.expires_at),
        acquired_at: DateTime::from_timestamp_millis(own.grant.acquired_at),
    })
}

impl InMemory for SlowAcquire {
    const KIND: Option<CommandKind> = Some(CommandKind::Acquire);

    fn carry_out(&self, leases: &mut Collection<'_>, sent: Instant) -> AcquireReply {
        let mut request =
            request_of(&self.request, self.request.call_id.grant(self.attempt_no), sent);
        request.predecessor.clone_from(&self.predecessor);
        let answer = leases
            .apply(&self.request.name, |found, now| spec::acquire(found, &request, now, &built()));
        reply(leases, &self.request, answer, sent)
    }
}

impl InMemory for FastAdmit {
    const KIND: Option<CommandKind> = Some(CommandKind::Acquire);

    fn carry_out(&self, leases: &mut Collection<'_>, sent: Instant) -> AcquireReply {
        let request = request_of(&self.request, self.request.call_id.grant(self.attempt_no), sent);
        let answer = leases.apply(&self.request.name, |found, now| {
            spec::fast_admit(found, &request, now, &built())
        });
        reply(leases, &self.request, answer, sent)
    }
}

impl InMemory for FastAcquire {
    const KIND: Option<CommandKind> = Some(CommandKind::Acquire);

    fn carry_out(&self, leases: &mut Collection<'_>, sent: Instant) -> AcquireReply {
        let request = request_of(&self.request, self.grant_id(), sent);
        leases.apply(&self.request.name, |found, now| match self.form {
            FastForm::LookUp => spec::fast_acquire(found, &request, now, &built()),
            FastForm::Insert => spec::insert(found, &request, now, &built()),
        });
        // As from a server's reply.
        let after = snapshot::read_or_empty(leases, &self.request.name);
        self.read(after, sent, Some(leases.operation_time()))
    }
}

impl InMemory for FastAcquireMany {
    const KIND: Option<CommandKind> = Some(CommandKind::Acquire);

    /// A read behind it tells who was granted what, as on a server.
    fn carry_out(&self, leases: &mut Collection<'_>, sent: Instant) -> FastAcquired {
        let mut granted = 0;
        for acquire in &self.acquires {
            let answer = acquire.carry_out(leases, sent);
            granted += usize::from(matches!(answer, AcquireReply::Granted(_)));
        }
        FastAcquired { sent, at: leases.operation_time(), refused: HashSet::new(), granted }
    }
}
