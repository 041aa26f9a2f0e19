def sub(p, pairs):
    s=open(p).read()
    for a,b,*n in pairs:
        n=n[0] if n else 1
        assert s.count(a)==n,(p,a,s.count(a))
        s=s.replace(a,b)
    open(p,'w').write(s)
# the store
sub('memory/src/leases.rs',[("""    /// Undoes the writes that no majority has. The""","""    /// From now on a majority has all writes.
    pub fn confirm_all(&mut self) {
        self.majority = None;
    }

    /// Undoes the writes that no majority has. The""")])
sub('src/memory/hooks.rs',[("""    /// Undoes the writes that no majority has: another""","""    /// From now on a majority has the writes that were held back.
    pub fn confirm_all(&self) {
        self.shared.leases.lock().confirm_all();
        self.shared.events.notify_waiters();
    }

    /// Undoes the writes that no majority has: another""")])
# the simulated server
sub('tests/simulation/src/server.rs',[
("""    /// Writes are not confirmed, and will be undone.
    pub(crate) is_rolled_back: bool,
""","""    /// No majority has the writes from now on: they are confirmed later, or undone.
    pub(crate) is_held_back: bool,
"""),
("        is_rolled_back: false,\n","        is_held_back: false,\n"),
("""        if health.is_rolled_back && needs_majority {
            // A majority read waits for the write that the primary has and no other member.
            if !is_write(command) {
                return self.ends(command, SimulatedAnswer::CutOff).await;
            }
            world.carry_out(command, self.waited);
            return self.ends(command, SimulatedAnswer::NoMajority).await;
        }
        match health""","""        if health.is_held_back && needs_majority {
            // A majority read waits for the write that the primary has and no other member. In one control a read that
            // confirms is answered all the same.
            let is_answered = world.is("unconfirmed-read") && command.sees_all_until().is_some();
            if !is_write(command) && !is_answered {
                return self.ends(command, SimulatedAnswer::CutOff).await;
            }
            world.carry_out(command, self.waited);
            return match is_answered {
                true => SimulatedAnswer::Reply,
                false => self.ends(command, SimulatedAnswer::NoMajority).await,
            };
        }
        match health"""),
("""            Some(_) | None => {
                world.carry_out""","""            // It waits for writes that no majority has.
            Some(_) if command.sees_all_until().is_some() => {
                self.ends(command, SimulatedAnswer::CutOff).await
            }
            Some(_) | None => {
                world.carry_out"""),
("""    /// Ends at the time limit of the command.
    fn ends(""","""    /// Ends at the time limit of the command: for the majority, or for all of it.
    fn ends("""),
("""        let left = command.time_limit().saturating_sub(self.arrived.elapsed());
""","""        let limit = match answer {
            SimulatedAnswer::NoMajority => command.acknowledged_within() + self.waited,
            _ => command.time_limit(),
        };
        let left = limit.min(command.time_limit()).saturating_sub(self.arrived.elapsed());
"""),
])
sub('tests/simulation/src/faults.rs',[
("            Kind::RollBack => self.roll_back().await,\n","            Kind::RollBack => self.hold_back(true).await,\n            Kind::LateMajority { is_undone } => self.hold_back(is_undone).await,\n"),
("""    async fn roll_back(&self) {
""","""    /// No majority has the writes meanwhile. Then another primary takes over that never had them, or a majority has them
    /// all.
    async fn hold_back(&self, is_undone: bool) {
"""),
("        self.world.server.change(|health| health.is_rolled_back = true);\n","        self.world.server.change(|health| health.is_held_back = true);\n"),
("""        self.world.store.roll_back();
        self.world.server.change(|health| health.is_rolled_back = false);
""","""        match is_undone {
            true => self.world.store.roll_back(),
            false => self.world.store.confirm_all(),
        }
        self.world.server.change(|health| health.is_held_back = false);
"""),
])
sub('tests/simulation/src/plan.rs',[
("""    RollBack,
    /// Writes wait""","""    RollBack,
    /// The same for longer, up to fifteen seconds, with a failover in the end or without one: then a majority has all of
    /// them.
    LateMajority {
        /// Whether they are undone.
        is_undone: bool,
    },
    /// Writes wait"""),
('            Kind::RollBack => "roll-back",\n','            Kind::RollBack => "roll-back",\n            Kind::LateMajority { .. } => "late-majority",\n'),
("""            | Kind::RollBack
            | Kind::Lock""","""            | Kind::RollBack
            | Kind::LateMajority { .. }
            | Kind::Lock"""),
("""        let fault =
            Fault { at_ms, lasts_ms: random.random_range(50..5_500), kind: kind(random, plan) };
""","""        let mut fault =
            Fault { at_ms, lasts_ms: random.random_range(50..5_500), kind: kind(random, plan) };
        if matches!(fault.kind, Kind::LateMajority { .. }) {
            fault.lasts_ms = random.random_range(300..LATE_MAX_MS);
        }
"""),
("""    match random.random_range(0..38) {""","""    match random.random_range(0..41) {"""),
("""        35..37 => Kind::Lock,
""","""        35..37 => Kind::Lock,
        37..40 => Kind::LateMajority { is_undone: random.random_bool(0.5) },
"""),
("""/// How long there are no faults at the beginning.""","""/// How late a majority is at most, in milliseconds.
const LATE_MAX_MS: u64 = 15_000;
/// How long there are no faults at the beginning."""),
])
sub('tests/simulation/src/control/mod.rs',[
("""    control("cut-off-goes-on", 65, Place::Here),
""","""    control("cut-off-goes-on", 65, Place::Here),
    control("unconfirmed-read", 1, Place::Here),
"""),
("""    control("piece-keeps-ids", 2, Place::Glue(Mistake::PieceKeepsIds)),
""","""    control("piece-keeps-ids", 2, Place::Glue(Mistake::PieceKeepsIds)),
    control("believed-at-once", 1, Place::Glue(Mistake::BelievedAtOnce)),
    control("echo-ignored", 1, Place::Glue(Mistake::EchoIgnored)),
    control("any-answer-confirms", 1, Place::Glue(Mistake::AnyAnswerConfirms)),
"""),
])
sub('src/mistake.rs',[("""    /// A piece of a cut-off command has the ids of that command.
    PieceKeepsIds,
""","""    /// A piece of a cut-off command has the ids of that command.
    PieceKeepsIds,
    /// A write that no majority has is believed in.
    BelievedAtOnce,
    /// A write is confirmed by its id alone.
    EchoIgnored,
    /// A write is confirmed by whatever another primary shows.
    AnyAnswerConfirms,
""")])
sub('src/runner/sending.rs',[("""            answer => answer,
        }
    }
}
""","""            Ok(Applied::Unconfirmed(reply, _)) if is_made(Mistake::BelievedAtOnce) => {
                Ok(Applied::Confirmed(reply))
            }
            answer => answer,
        }
    }
}
"""),
("use crate::failure::{decode_failure, driver_failure};\n","use crate::failure::{decode_failure, driver_failure};\nuse crate::mistake::{Mistake, is_made};\n")])
sub('src/runner/confirmer.rs',[
("""            let own = names.iter().filter_map(|name| by_name.get(name).copied().cloned());
""","""            let own = names.iter().filter_map(|name| by_name.get(name).copied().cloned());
            let own = own.map(|found| if is_made(Mistake::EchoIgnored) { newest(found, now) } else { found });
"""),
("""/// The write may have been applied, and nothing""","""/// The document with the newest echo that it can have.
fn newest(mut found: SharedSnapshot, now: Instant) -> SharedSnapshot {
    let echo = i64::try_from(now.as_micros()).ok();
    found.lease.sent = echo;
    found.holders.iter_mut().for_each(|holder| holder.sent = echo);
    found
}

/// The write may have been applied, and nothing"""),
("use crate::lock::Lock;\n","use crate::lock::Lock;\nuse crate::mistake::{Mistake, is_made};\n"),
("""        match are_shown(&traces, &found, self.clock().now()) {
            true => Ok(reply),""","""        match are_shown(&traces, &found, self.clock().now())
            || is_made(Mistake::AnyAnswerConfirms)
        {
            true => Ok(reply),"""),
])
sub('tests/simulation/src/control/messages.rs',[]) if False else None
