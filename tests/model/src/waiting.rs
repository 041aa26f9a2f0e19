//! How clients wait in the queue, as the shell around the rules does it: `waiting.rs`, `places.rs`, `lines.rs`, the
//! heartbeat and the watcher.
//!
//! Only the library's own `rules::waiter` decides the next step.

use std::time::Duration;

use mongo_lease_core::rules::attempts::Accepted;
use mongo_lease_core::rules::holder::Holder;
use mongo_lease_core::rules::waiter::{WaitAction, WaitEvent, WaitRefusal, Waiter};

use crate::bounds::{Bounds, LIFE, POLL, Variant, Waits};
use crate::client::{Acting, Won};
use crate::server::GrantId;
use crate::state::{Does, Handed, InLine, Stage, StreamEvent};

impl InLine {
    pub(crate) fn new(bounds: &Bounds, client: usize, waits: Waits) -> InLine {
        InLine {
            waiter: Waiter::new(bounds.clock(client, waits.ticks), Bounds::ticks(LIFE)),
            asking: None,
            is_told_to_ask: false,
            stands: false,
            beats: 0,
            confirmed: -1,
            heirloom: None,
            events: Vec::new(),
            has_no_stream: false,
        }
    }
}

impl Acting<'_> {
    /// Time has passed for a waiter.
    pub(crate) fn wake(&mut self) {
        match self.line().is_some_and(|line| line.asking.is_some()) {
            true if self.is_past_deadline() => self.give_up(),
            true => self.ask_beside(true),
            false => self.goes_on(WaitEvent::Timer, None),
        }
    }

    /// Gives the rules an event, and carries out their decision.
    fn goes_on(&mut self, mut event: WaitEvent, mut told: Option<StreamEvent>) {
        let (now, timing) = (self.now(), self.bounds.timing());
        while let Some(line) = self.line() {
            match line.waiter.on(&timing, now, event) {
                WaitAction::WakeAt(_) if line.is_told_to_ask => {
                    line.is_told_to_ask = false;
                    event = WaitEvent::Recheck;
                }
                WaitAction::WakeAt(_) => return,
                WaitAction::Acquire => return self.ask_as_waiter(),
                WaitAction::GiveUp => return self.give_up(),
                WaitAction::TakePromotion(term) => {
                    if let Some(told) = told.take()
                        && self.take_promotion(told, term)
                    {
                        return;
                    }
                    event = WaitEvent::Recheck;
                }
            }
        }
    }

    fn ask_as_waiter(&mut self) {
        let number = self.world.clients[self.client].started + 1;
        if number > self.bounds.clients[self.client].attempts {
            return;
        }
        if let Some(line) = self.line() {
            line.asking = Some(number);
            line.is_told_to_ask = false;
        }
        self.ask(false);
    }

    /// An attempt has failed, or takes too long: another one is sent for the same question.
    pub(crate) fn ask_beside(&mut self, is_unanswered: bool) {
        let has_more =
            self.world.clients[self.client].started < self.bounds.clients[self.client].attempts;
        let is_asking = self.line().is_some_and(|line| line.asking.is_some());
        if is_asking && has_more && !self.is_past_deadline() {
            self.ask(is_unanswered);
        }
    }

    pub(crate) fn hear_granted(
        &mut self,
        attempt: u8,
        sent: i64,
        id: GrantId,
        is_overtaken: bool,
        handed: Handed,
    ) {
        let won = self.won(sent, id, is_overtaken, handed);
        if self.bounds.clients[self.client].waits.is_none() {
            self.take(won);
            return;
        }
        // The call is told of an answer for which nobody waits any more; nothing else is done.
        if !self.is_asked_for(attempt) {
            return;
        }
        let heirloom = self.line().and_then(|line| line.heirloom);
        if self.take(won) {
            self.taken_over(heirloom);
        } else if self.is_past_deadline() {
            self.give_up();
        } else {
            self.ask_beside(false);
        }
    }

    pub(crate) fn hear_refused(
        &mut self,
        attempt: u8,
        sent: i64,
        (ahead, remaining): (Option<u8>, Option<i64>),
        server_now: i64,
    ) {
        if !self.is_asked_for(attempt) {
            return;
        }
        let heirloom = self.line().and_then(|line| line.heirloom.take());
        self.taken_over(heirloom);
        let Some(ahead) = ahead else {
            // The queue is full.
            return self.give_up();
        };
        let echo = self.clock(sent);
        let is_lazy = self.bounds.variant == Variant::WaitsToBeTold;
        let recheck_every = if is_lazy { 1_000 } else { self.bounds.recheck_every };
        let Some(line) = self.line() else {
            return;
        };
        line.asking = None;
        line.stands = true;
        line.confirmed = line.confirmed.max(sent);
        let refusal = WaitRefusal {
            sent: echo,
            server_ms: Some(Bounds::server_ms(server_now)),
            ahead: ahead.into(),
            // Calls for permits alone are active beside each other.
            led_by: 0,
            remaining: remaining.filter(|_| !is_lazy).map(Bounds::ticks),
            is_notified: !line.has_no_stream,
            poll: Bounds::ticks(POLL),
            recheck_every: Bounds::ticks(recheck_every),
        };
        self.goes_on(WaitEvent::Refused(refusal), None);
    }

    pub(crate) fn is_asked_for(&mut self, attempt: u8) -> bool {
        self.line().and_then(|line| line.asking).is_some_and(|first| attempt >= first)
    }

    /// The stream delivers its next event.
    pub(crate) fn hear_event(&mut self) {
        let line = self.world.clients[self.client].line.as_mut();
        let Some(told) = line.map(|line| line.events.remove(0)) else {
            return;
        };
        if self.world.clients[self.client].stage == Stage::Bequeathed {
            return self.tell_to_ask();
        }
        let sent = self.counts_from_promotion(told.sent);
        if let Some(line) = self.line() {
            line.asking = None;
        }
        let until = match self.bounds.variant.trusts_promotions() {
            true => i64::MAX,
            false => Bounds::server_ms(told.until),
        };
        self.goes_on(WaitEvent::Promoted { sent, expires_at_ms: Some(until) }, Some(told));
    }

    fn take_promotion(&mut self, told: StreamEvent, term: Duration) -> bool {
        let StreamEvent { id, sent, until: _, token, granted_at, is_overtaken } = told;
        let from = self.counts_from_promotion(sent);
        let timing = self.bounds.timing();
        let heirloom = self.line().and_then(|line| line.heirloom);
        let holder = Holder::promoted(&timing, Bounds::terms(), self.now(), from, term);
        let taken = Accepted::Promotion(from);
        let handed = Handed { granted_at, token, client: self.client };
        let id = match self.bounds.variant == Variant::PromotionWithoutGrantId {
            true => GrantId { attempt: self.world.clients[self.client].started, ..id },
            false => id,
        };
        let is_taken = self.take(Won { holder, taken, sent, id, is_overtaken, handed });
        if let Some(heirloom) = heirloom.filter(|_| is_taken) {
            // The inherited entry is given up with the wait.
            self.of(heirloom).abandon();
        }
        is_taken
    }

    fn counts_from_promotion(&self, sent: i64) -> mongo_lease_core::rules::time::Instant {
        match self.bounds.variant == Variant::PromotionFromHearing {
            true => self.now(),
            false => self.clock(sent),
        }
    }

    /// Sends a heartbeat.
    pub(crate) fn heartbeat(&mut self) {
        if let Some(line) = &mut self.world.clients[self.client].line {
            line.beats += 1;
            self.world.send(self.client, Does::Heartbeat);
        }
    }

    pub(crate) fn heartbeat_confirmed(&mut self, sent: i64, matched: bool) {
        let Some(line) = &mut self.world.clients[self.client].line else {
            return;
        };
        match matched {
            true => line.confirmed = line.confirmed.max(sent),
            false => self.tell_to_ask(),
        }
    }

    /// Something has changed that only the server knows: the waiter must send another attempt.
    pub(crate) fn tell_to_ask(&mut self) {
        if self.world.clients[self.client].stage == Stage::Bequeathed {
            let heir = self.heir();
            return heir.into_iter().for_each(|heir| self.of(heir).tell_to_ask());
        }
        match self.line() {
            Some(line) if line.asking.is_some() => line.is_told_to_ask = true,
            Some(_) => self.goes_on(WaitEvent::Recheck, None),
            None => {}
        }
    }

    /// The stream breaks, or works again: the waiters send attempts.
    pub(crate) fn stream_changes(&mut self) {
        let Some(line) = &mut self.world.clients[self.client].line else {
            return;
        };
        line.has_no_stream = !line.has_no_stream;
        line.events.clear();
        let (stands, is_broken) = (line.stands, line.has_no_stream);
        self.world.broken_streams += u8::from(is_broken);
        if stands && self.bounds.variant != Variant::BrokenStreamUnnoticed {
            self.tell_to_ask();
        }
    }

    /// Its time is over, or it is dropped.
    pub(crate) fn give_up(&mut self) {
        let Some(line) = self.line() else {
            return;
        };
        let (waiter, heirloom, stands) = (line.waiter, line.heirloom, line.stands);
        let client = &self.world.clients[self.client];
        let heir = self.heir();
        if let (Some(heir), true, true) = (heir, stands, client.attempts.is_queued_only()) {
            let waits = self.bounds.clients[heir].waits;
            let deadline = waits.map(|waits| self.bounds.clock(heir, waits.ticks));
            if let (Some(line), Some(deadline)) = (&mut self.world.clients[heir].line, deadline) {
                line.waiter = waiter.with_deadline(deadline);
                line.heirloom = Some(self.client);
            }
            self.world.clients[self.client].stage = Stage::Bequeathed;
            return;
        }
        self.abandon();
        if let Some(heirloom) = heirloom {
            self.of(heirloom).abandon();
        }
    }

    /// The server has given this call the entry of another.
    fn taken_over(&mut self, heirloom: Option<usize>) {
        if let Some(heirloom) = heirloom {
            let mut other = self.of(heirloom);
            let client = &mut other.world.clients[heirloom];
            let next = client.attempts.succeeded();
            client.stage = Stage::Ended;
            other.carry_out(next);
        }
    }

    /// The call behind this one in the local queue of their process, where it still waits.
    fn heir(&self) -> Option<usize> {
        let follows = |client: &usize| {
            let waits = self.bounds.clients[*client].waits;
            waits.is_some_and(|waits| waits.follows == Some(self.client))
        };
        let still_waits = |client: &usize| self.world.clients[*client].stage == Stage::Acquiring;
        (0..self.world.clients.len()).filter(follows).find(still_waits)
    }

    /// How this client waits, if it does.
    pub(crate) fn line(&mut self) -> Option<&mut InLine> {
        let client = &mut self.world.clients[self.client];
        client.line.as_mut().filter(|_| client.stage == Stage::Acquiring)
    }

    pub(crate) fn is_past_deadline(&self) -> bool {
        let waits = self.bounds.clients[self.client].waits;
        waits.is_some_and(|waits| self.world.tick >= waits.ticks)
    }

    fn of(&mut self, client: usize) -> Acting<'_> {
        Acting { bounds: self.bounds, world: self.world, client }
    }
}
