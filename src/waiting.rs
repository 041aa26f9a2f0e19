//! Waiting: an acquire call that stands in line.
//!
//! Its process's line first, and when its turn comes, the queue in the document. What it does next is said by
//! `rules::waiter`; here is only how that is done.

use std::sync::Arc;
use std::time::Duration;

use crate::asking::{Asking, is_for_want_of_time, timeout};
use crate::clock;
use crate::commands::acquire::Refused;
use crate::commands::watch::Promotion;
use crate::error::{Error, Result};
use crate::events::Event as Told;
use crate::info::LeaseInfo;
use crate::lease::Lease;
use crate::lines::{Heirloom, Member};
use crate::places::{PlaceGuard, Signal};
use crate::rules::backoff::POLL;
use crate::rules::time::Instant;
use crate::rules::waiter::{Event, Next, Refusal, Waiter};
use crate::telemetry;

/// A call that stands in line. Dropping it gives up.
pub(crate) struct Waiting {
    asking: Asking,
    deadline: Instant,
    waiter: Waiter,
    /// The call's own place in the queue.
    place: Option<PlaceGuard>,
    /// The place of the call before it, as long as this one has not taken it over.
    heirloom: Option<Heirloom>,
    /// What the server last said.
    held: Option<Box<LeaseInfo>>,
    /// The place in the line of this process. Given up last.
    member: Member,
}

/// What came of asking.
enum Asked {
    Granted(Lease),
    Refused(Box<Refused>),
    /// It was promoted while it asked.
    Promoted(Promotion),
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let waiter = self.waiter;
        // Who has not asked has only what it was left with. Who has asked has a place of its own, if any.
        let heirloom = match (self.heirloom.take(), self.place.take()) {
            (Some(mut heirloom), _) if !self.asking.has_asked() => {
                heirloom.waiter = waiter;
                Some(heirloom)
            }
            (_, Some(place)) if place.call().has_an_heirloom() => {
                self.asking.pass_on();
                Some(Heirloom { place, waiter })
            }
            (_, _) => None,
        };
        if let Some(heirloom) = heirloom {
            self.member.bequeath(heirloom);
        }
    }
}

impl Waiting {
    /// Joins the line of this process.
    pub(crate) fn new(asking: Asking, deadline: Instant) -> Waiting {
        let member = asking.engine.lines.join(&asking.ask.name);
        let waiter = Waiter::new(deadline, asking.engine.options.waiter_ttl);
        Waiting { asking, deadline, waiter, place: None, heirloom: None, held: None, member }
    }

    /// Waits until the lease is granted, or the deadline comes.
    pub(crate) async fn wait(mut self) -> Result<Lease> {
        let Some(heirloom) = clock::before(self.deadline, self.member.turn()).await else {
            return Err(self.timeout(None));
        };
        if let Some(heirloom) = heirloom {
            heirloom.place.set_deadline(self.deadline);
            self.waiter = heirloom.waiter.successor(self.deadline);
            self.heirloom = Some(heirloom);
        }
        let call = Arc::clone(&self.asking.call);
        let place = self.asking.engine.places.take(call, self.deadline);
        self.place = Some(place);
        self.until_granted().await
    }

    async fn until_granted(&mut self) -> Result<Lease> {
        let mut delays = clock::jittered(POLL);
        let mut event = Event::Tick;
        let mut promotion = None;
        loop {
            event = match self.waiter.on(&self.asking.ask.timing, clock::now(), event) {
                Next::GiveUp => return Err(self.timeout(None)),
                Next::WakeAt(at) => match clock::before(at, self.signal()).await {
                    Some(Signal::AskAgain) => Event::AskAgain,
                    Some(Signal::Promoted(told)) => promoted(told, &mut promotion),
                    None => Event::Tick,
                },
                Next::Take => {
                    let term = self.waiter.term(&self.asking.ask.timing);
                    let lease =
                        promotion.take().and_then(|it| self.asking.take_promotion(it, term));
                    if let Some(lease) = lease {
                        return Ok(lease);
                    }
                    Event::AskAgain
                }
                Next::Ask => match self.ask().await? {
                    Asked::Granted(lease) => return Ok(lease),
                    Asked::Refused(refused) => {
                        let poll = delays.next().unwrap_or(POLL.longest);
                        self.refused(*refused, poll)?
                    }
                    Asked::Promoted(told) => promoted(told, &mut promotion),
                },
            };
        }
    }

    async fn ask(&mut self) -> Result<Asked> {
        let Some(place) = &self.place else {
            return Err(self.timeout(None));
        };
        place.asks();
        let predecessor =
            self.heirloom.as_ref().map(|heirloom| heirloom.place.call().ask.value.clone());
        let answer = self.asking.until_answered(self.deadline, predecessor.as_deref());
        let answer = tokio::select! {
            biased;
            answer = clock::before(self.deadline, answer) => answer,
            told = place.promotion() => return Ok(Asked::Promoted(told)),
        };
        match answer {
            Some(Ok(answer)) => {
                // Whatever it is: the server has put this call into the other's place.
                if let Some(heirloom) = self.heirloom.take() {
                    heirloom.taken_over();
                }
                Ok(match answer {
                    Ok(lease) => Asked::Granted(lease),
                    Err(refused) => Asked::Refused(refused),
                })
            }
            Some(Err(error)) if is_for_want_of_time(&error) && clock::now() >= self.deadline => {
                Err(self.timeout(Some(error)))
            }
            Some(Err(error)) => Err(error),
            None => Err(self.timeout(None)),
        }
    }

    /// The server has refused: notes what it has said.
    fn refused(&mut self, refused: Refused, poll: Duration) -> Result<Event> {
        let engine = &self.asking.engine;
        let Refused { sent, info, ahead, at } = refused;
        let (Some(ahead), Some(place)) = (ahead, &self.place) else {
            return Err(Error::QueueFull { name: info.name, waiting: info.waiting });
        };
        // Before the look at the stream: who is told of its end is who stands in line.
        place.stands_in_line(sent, at);
        if self.held.is_none() {
            telemetry::queued(&info.name, ahead);
            engine.events.tell(|| Told::Queued { name: info.name.clone(), ahead });
        }
        // Nobody tells when another program lets go.
        let is_told = info.owner.is_some() && engine.places.are_told();
        let remaining = info.remaining;
        self.member.seen(&info);
        self.held = Some(Box::new(info));
        Ok(Event::Refused(Refusal {
            sent,
            ahead,
            remaining,
            is_told,
            poll,
            poll_floor: clock::about(engine.options.poll_floor),
        }))
    }

    /// Waits until this call is told something, or the one whose place it has.
    async fn signal(&self) -> Signal {
        let own = async {
            match &self.place {
                Some(place) => place.signal().await,
                None => std::future::pending().await,
            }
        };
        let inherited = async {
            match &self.heirloom {
                // What that one was promoted to is not this one's to believe in: it takes it over by asking.
                Some(heirloom) => drop(heirloom.place.signal().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            signal = own => signal,
            () = inherited => Signal::AskAgain,
        }
    }

    fn timeout(&self, source: Option<Error>) -> Error {
        let held = self.held.clone().or_else(|| self.member.last_seen());
        timeout(&self.asking.ask.name, self.asking.started, held, source)
    }
}

fn promoted(told: Promotion, kept: &mut Option<Promotion>) -> Event {
    let sent = told.sent;
    *kept = Some(told);
    Event::Promoted { sent }
}
