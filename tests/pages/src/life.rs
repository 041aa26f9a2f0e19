//! The life of a lease.

use crate::picture::{Ink, Picture};

const HOLDER: f64 = 100.0;
const LEASE: f64 = 190.0;
const DATA: f64 = 290.0;
const NEXT: f64 = 380.0;

/// Moments, from left to right.
const GRANTED: f64 = 200.0;
const RENEWED: f64 = 345.0;
const STALLED: f64 = 460.0;
const LOST: f64 = 600.0;
const EXPIRED: f64 = 690.0;
const GRANTED_AGAIN: f64 = 710.0;
const WRITTEN: f64 = 810.0;
const REFUSED: f64 = 940.0;
const END: f64 = 976.0;

/// The list below the lanes.
const STEPS: [(Ink, &str, &str); 7] = [
    (
        Ink::First,
        "granted",
        "A acquires the lease. Its validity counts from the sending of the command.",
    ),
    (Ink::First, "renewed", "Each renewal that MongoDB confirms moves the end of the validity."),
    (Ink::Stalled, "stalled", "Renewals get no answer: the database hangs, or the network is cut."),
    (
        Ink::Refused,
        "lost",
        "The validity ends by A's own clock, and A is told. No reply is needed for that.",
    ),
    (
        Ink::Second,
        "next grant",
        "Later, the lease expires by MongoDB's clock, and B is granted it.",
    ),
    (Ink::Second, "fenced write", "B's write stores its token in the document that it changes."),
    (
        Ink::Refused,
        "stale write",
        "A's late write carries the smaller token, and MongoDB refuses it.",
    ),
];

pub(crate) fn draw() -> Picture {
    let mut picture = Picture::new(
        640.0,
        "The life of a lease",
        "Process A is granted a lease and renews it. Its renewals stall. A is told that the lease \
         is lost before the server grants it to process B. B's fenced write stores the token 42, \
         so A's late write with the token 41 is refused.",
    );
    picture.lane(HOLDER, "process A", "");
    picture.lane(LEASE, "lease", "in MongoDB");
    picture.lane(DATA, "your data", "in MongoDB");
    picture.lane(NEXT, "process B", "");

    picture.moment(LOST, 68.0, NEXT + 30.0, Ink::Refused);
    picture.moment(GRANTED_AGAIN, 68.0, NEXT + 30.0, Ink::Second);

    picture.bar(HOLDER, GRANTED, STALLED, Ink::First, &["is_valid() is true"]);
    picture.bar(HOLDER, STALLED, LOST, Ink::Stalled, &["still true"]);
    picture.bar(LEASE, GRANTED + 6.0, EXPIRED, Ink::First, &["granted to A, with token 41"]);
    picture.bar(LEASE, GRANTED_AGAIN, END, Ink::Second, &["granted to B, token 42"]);
    picture.bar(DATA, WRITTEN, END, Ink::Second, &["token 42 stored"]);
    picture.bar(NEXT, GRANTED_AGAIN, END, Ink::Second, &["is_valid() is true"]);

    picture.arrow(GRANTED, HOLDER, LEASE, Ink::First);
    picture.arrow(RENEWED, HOLDER + 19.0, LEASE - 19.0, Ink::First);
    picture.arrow(STALLED + 12.0, HOLDER + 19.0, LEASE - 36.0, Ink::Stalled);
    picture.cross(STALLED + 12.0, LEASE - 36.0);
    picture.arrow(GRANTED_AGAIN, NEXT, LEASE + 19.0, Ink::Second);
    picture.arrow(WRITTEN, NEXT - 19.0, DATA + 19.0, Ink::Second);
    picture.arrow(REFUSED, HOLDER, DATA - 34.0, Ink::Refused);
    picture.cross(REFUSED, DATA - 34.0);

    picture.step(1, GRANTED, HOLDER - 36.0, Ink::First);
    picture.step(2, RENEWED, HOLDER - 36.0, Ink::First);
    picture.step(3, STALLED + 12.0, HOLDER - 36.0, Ink::Stalled);
    picture.step(4, LOST, HOLDER - 36.0, Ink::Refused);
    picture.step(5, GRANTED_AGAIN, NEXT + 40.0, Ink::Second);
    picture.step(6, WRITTEN, NEXT + 40.0, Ink::Second);
    picture.step(7, REFUSED, HOLDER - 36.0, Ink::Refused);
    picture.note(LOST + 14.0, HOLDER - 9.0, "no holder", Ink::Refused);

    picture.steps(466.0, &STEPS);
    picture
}
