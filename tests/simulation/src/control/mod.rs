//! Deliberate mistakes, each of which the simulation must find: one table.
//!
//! A mistake is in the library's glue ([`Mistake`]), in a protection of the specification that is switched off, in what
//! the server sees and writes ([`documents`]), in a command or its reply on the way ([`messages`]), or in a part of the
//! simulation itself, which asks for it by its name.

// Each reader wants a few of the many kinds of mistakes.
#![allow(clippy::wildcard_enum_match_arm)]

mod documents;
mod messages;

use std::any::Any;
use std::str::FromStr;
use std::time::Duration;

use mongo_lease::simulated::{Lens, Mistake, SentCommand, make, make_of_server};
use mongo_lease_core::commands::StreamEvent;
use mongo_lease_core::spec::Off;

use crate::world::World;
use documents::Look;

/// A deliberate mistake.
#[derive(Debug)]
pub struct Control {
    /// Its name on the command line.
    pub name: &'static str,
    /// The first seed of its test, which saves the rounds that do not show it.
    pub seed: u64,
    place: Place,
}

/// The place of a mistake.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// A part of the simulation asks for it by its name.
    Here,
    /// In the library's glue.
    Glue(Mistake),
    /// This protection of the specification is switched off.
    Off(&'static str),
    /// The server sees or writes something else, where this returns a look for the command.
    Server(fn(&dyn Any) -> Option<Look>),
    /// The command is changed before the server carries it out.
    Command(fn(&World, &mut dyn Any)),
    /// The reply is changed that was so long under way, with its command.
    Reply(fn(&World, &dyn Any, &mut dyn Any, Duration)),
    /// The event of a change stream is changed.
    Event(fn(&mut StreamEvent)),
}

const fn control(name: &'static str, seed: u64, place: Place) -> Control {
    Control { name, seed, place }
}

/// All that must be found.
pub static CONTROLS: &[Control] = &[
    // Beside the library: the resource, the holders, the calls, the clocks, the server.
    control("open-resource", 1, Place::Here),
    control("believes-longer", 1, Place::Here),
    control("late-answer", 1, Place::Here),
    control("held-back", 1, Place::Here),
    control("kept-token", 1, Place::Here),
    control("retried-token", 1, Place::Here),
    control("own-line", 1, Place::Here),
    control("slow-clocks", 1, Place::Here),
    control("distant-members", 4, Place::Here),
    control("w1", 1, Place::Here),
    control("cut-off-goes-on", 20_035, Place::Here),
    control("unconfirmed-read", 1, Place::Here),
    control("late-event", 1, Place::Here),
    control("closed-streams", 1, Place::Here),
    control("unguarded", 1, Place::Here),
    control("unanswered-commits", 1, Place::Here),
    control("unread", 1, Place::Here),
    // The library's glue: events over time.
    control("slot-kept", 1, Place::Glue(Mistake::SlotKept)),
    control("answers-shifted", 1, Place::Glue(Mistake::AnswersShifted)),
    control("hint-believed", 1, Place::Glue(Mistake::HintBelieved)),
    control("renewal-forgotten", 2, Place::Glue(Mistake::RenewalForgotten)),
    control("entry-skipped", 1, Place::Glue(Mistake::EntrySkipped)),
    control("lease-forgotten", 1, Place::Glue(Mistake::LeaseForgotten)),
    control("promotion-shared", 1, Place::Glue(Mistake::PromotionShared)),
    control("dropped-kept", 1, Place::Glue(Mistake::DroppedKept)),
    control("turn-kept", 1, Place::Glue(Mistake::TurnKept)),
    control("attempt-counted-twice", 200, Place::Glue(Mistake::AttemptCountedTwice)),
    control("given-back-at-once", 1, Place::Glue(Mistake::GivenBackAtOnce)),
    control("piece-counts-anew", 2, Place::Glue(Mistake::PieceCountsAnew)),
    control("piece-keeps-ids", 2, Place::Glue(Mistake::PieceKeepsIds)),
    control("believed-at-once", 1, Place::Glue(Mistake::BelievedAtOnce)),
    control("echo-ignored", 1, Place::Glue(Mistake::EchoIgnored)),
    control("any-answer-confirms", 1, Place::Glue(Mistake::AnyAnswerConfirms)),
    control("applied-repeated", 1, Place::Glue(Mistake::AppliedRepeated)),
    control("drop-not-awaited", 1, Place::Glue(Mistake::DropNotAwaited)),
    // The protections of the commands.
    control("renewal-without-max", 2, Place::Off("renewed")),
    control("permit-without-max", 3, Place::Off("permit_renewed")),
    control("again-without-max", 5, Place::Off("granted_again")),
    control("stored-ttl", 1, Place::Off("renewed_for")),
    control("shorter-life", 1, Place::Off("entry_expires_at")),
    control("newcomers-first", 1, Place::Off("has_order")),
    control("place-lost", 1, Place::Off("keeps_position")),
    control("last-first", 1, Place::Off("in_order")),
    control("damaged-written", 1, Place::Off("may_write")),
    control("never-freed", 2, Place::Off("frees_without_waiter")),
    control("leaver-keeps", 1, Place::Off("ends_when_leaving")),
    control("full-tombstone", 2, Place::Off("empties_tombstones")),
    control("newest-expiry", 1, Place::Off("shared_expiry")),
    control("second-permit", 1, Place::Off("fast_attempt_finds_own")),
    control("added-again", 1, Place::Off("attempt_finds_own")),
    control("own-limit", 1, Place::Off("limit_in_force")),
    control("passed-over", 1, Place::Off("admits_in_order")),
    control("nobody-admitted", 1, Place::Off("admits_when_leaving")),
    control("all-removed", 1, Place::Off("removes_expired_only")),
    control("own-lease-free", 1, Place::Off("keeps_own_lease")),
    control("untold-end", 1, Place::Off("tells_of_earlier_end")),
    // The server, and the messages.
    control("early-take-over", 1, Place::Server(documents::early_take_over)),
    control("far-expiry", 1, Place::Server(documents::far_expiry)),
    control("out-of-line", 1, Place::Server(documents::out_of_line)),
    control("left-document", 1, Place::Server(documents::left_document)),
    control("left-share", 1, Place::Server(documents::left_share)),
    control("reader-beside-writer", 1, Place::Server(documents::reader_beside_writer)),
    control("barging", 1, Place::Server(documents::barging)),
    control("empty-first", 1, Place::Server(documents::empty_first)),
    control("counted-down", 1, Place::Server(documents::counted_down)),
    control("put-back", 1, Place::Command(messages::put_back)),
    control("one-too-many", 1, Place::Command(messages::one_too_many)),
    control("release-by-name", 1, Place::Command(messages::release_by_name)),
    control("validity-from-reply", 1, Place::Reply(messages::validity_from_reply)),
    control("all-matched", 1, Place::Reply(messages::all_matched)),
    control("boundless-event", 1, Place::Event(messages::boundless_event)),
];

/// These can be made, and no promise names their harm: the README says why.
pub static HARMLESS: &[Control] = &[
    control("heartbeat-back", 1, Place::Off("heartbeat_at")),
    control("promoted-from-now", 1, Place::Off("promoted_from")),
    control("taken-over-from-now", 1, Place::Off("taken_over_from")),
    control("forgotten-look", 1, Place::Reply(messages::forgotten_look)),
];

impl FromStr for &'static Control {
    type Err = String;

    fn from_str(name: &str) -> Result<&'static Control, String> {
        let all = || CONTROLS.iter().chain(HARMLESS);
        let names = || all().map(|it| it.name).collect::<Vec<_>>().join(", ");
        let found = all().find(|it| it.name == name);
        found.ok_or_else(|| format!("the controls are {}", names()))
    }
}

impl Control {
    /// Makes the part of the mistake that lasts for the whole round; `None` ends it.
    pub(crate) fn begin(control: Option<&'static Control>) {
        let place = control.map(|it| it.place);
        make(match place {
            Some(Place::Glue(mistake)) => Some(mistake),
            _ => None,
        });
        make_of_server(off(place), None);
    }

    /// Lets the server see and write through the lens, from now on, beside the round's mistake.
    pub(crate) fn see_through(control: Option<&'static Control>, lens: Option<Box<dyn Lens>>) {
        make_of_server(off(control.map(|it| it.place)), lens);
    }

    /// Carries a command out with the mistake.
    pub(crate) fn carry_out(&self, world: &World, command: &mut dyn SentCommand) {
        match self.place {
            Place::Command(change) => change(world, command.parts().0),
            Place::Server(look) => {
                if let Some(look) = look(command.parts().0) {
                    make_of_server(Off::default(), Some(Box::new(look)));
                }
            }
            _ => {}
        }
        command.carry_out();
        if matches!(self.place, Place::Server(_)) {
            make_of_server(Off::default(), None);
        }
    }

    /// Changes the reply of a command that was sent so long ago.
    pub(crate) fn reply(&self, world: &World, command: &mut dyn SentCommand, under_way: Duration) {
        if let Place::Reply(change) = self.place {
            let (command, reply) = command.parts();
            change(world, command, reply, under_way);
        }
    }

    /// Changes an event that a process hears.
    pub(crate) fn event(&self, event: &mut StreamEvent) {
        if let Place::Event(change) = self.place {
            change(event);
        }
    }
}

fn off(place: Option<Place>) -> Off {
    match place {
        Some(Place::Off(method)) => Off(method),
        _ => Off::default(),
    }
}
