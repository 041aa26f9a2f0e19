//! A hand-off in the queue.

use crate::picture::{Ink, Picture};

const HOLDER: f64 = 100.0;
const LEASE: f64 = 205.0;
const FIRST: f64 = 310.0;
const SECOND: f64 = 390.0;

/// Moments, from left to right.
const BEGIN: f64 = 195.0;
const JOINED: f64 = 320.0;
const JOINED_NEXT: f64 = 480.0;
const RELEASED: f64 = 680.0;
const WOKEN: f64 = 760.0;
const END: f64 = 976.0;

/// The list below the lanes.
const STEPS: [(Ink, &str, &str); 5] = [
    (Ink::Quiet, "join", "B is refused, and joins the queue in the lease document."),
    (Ink::Quiet, "join", "C joins behind B. Heartbeats keep their entries alive, each for 10 s."),
    (
        Ink::First,
        "release",
        "A's release promotes the first live waiter: the end of A's grant and B's grant are one \
         write.",
    ),
    (
        Ink::Second,
        "wake-up",
        "The change stream carries the promotion to B alone. B sends nothing to be granted the \
         lease.",
    ),
    (
        Ink::Quiet,
        "next",
        "C is now the first in the queue. A release skips a process that has died.",
    ),
];

pub(crate) fn draw() -> Picture {
    let mut picture = Picture::new(
        580.0,
        "A hand-off in the queue",
        "Process A holds a lease. Processes B and C join the queue in the lease document, in this \
         order. The release of A makes B the holder in one write, and the change stream wakes B. \
         C waits on, as the first.",
    );
    picture.lane(HOLDER, "process A", "");
    picture.lane(LEASE, "lease document", "in MongoDB");
    picture.lane(FIRST, "process B", "");
    picture.lane(SECOND, "process C", "");

    picture.arrow(JOINED_NEXT, SECOND, LEASE + 28.5, Ink::Quiet);
    picture.bar(HOLDER, BEGIN, RELEASED, Ink::First, &["holds the lease"]);
    picture.bar(LEASE, BEGIN, JOINED, Ink::First, &["holder: A", "queue: –"]);
    picture.bar(LEASE, JOINED, JOINED_NEXT, Ink::First, &["holder: A", "queue: B"]);
    picture.bar(LEASE, JOINED_NEXT, RELEASED, Ink::First, &["holder: A", "queue: B, C"]);
    picture.bar(LEASE, RELEASED, END, Ink::Second, &["holder: B", "queue: C"]);
    picture.bar(FIRST, JOINED, WOKEN, Ink::Quiet, &["waits, and sends heartbeats"]);
    picture.bar(FIRST, WOKEN, END, Ink::Second, &["holds the lease"]);
    picture.bar(SECOND, JOINED_NEXT, END, Ink::Quiet, &["waits, and sends heartbeats"]);

    picture.arrow(JOINED, FIRST, LEASE + 28.5, Ink::Quiet);
    picture.arrow(RELEASED, HOLDER, LEASE - 28.5, Ink::First);
    picture.arrow(WOKEN, LEASE + 28.5, FIRST - 19.0, Ink::Second);

    picture.step(1, JOINED, FIRST + 42.0, Ink::Quiet);
    picture.step(2, JOINED_NEXT, SECOND + 42.0, Ink::Quiet);
    picture.step(3, RELEASED, HOLDER - 36.0, Ink::First);
    picture.note(RELEASED + 12.0, LEASE - 45.0, "one write", Ink::First);
    picture.step(4, WOKEN + 24.0, LEASE + 57.0, Ink::Second);
    picture.note(WOKEN + 44.0, LEASE + 62.5, "change stream", Ink::Second);
    picture.step(5, END - 12.0, SECOND + 42.0, Ink::Quiet);

    picture.steps(466.0, &STEPS);
    picture
}
