use crate::bson::{Bson, Document, doc};

use super::super::paths::assert_same;
use super::super::{SENT, acquire, joining};
use super::{
    ECHO, entries, filtered, heartbeat_update, is_entry, is_live, is_sound, literal, majority,
    one_more, projection, simple,
};
use crate::commands::Command;
use crate::commands::acquire::FullAcquire;

/// The differences between a call with its own queue entry and one that inherits an entry.
struct Of {
    /// A condition on a value: it is the call's own or its predecessor's.
    is_own: fn(Bson) -> Document,
    /// The index of the call's entry in the queue.
    place: Document,
    /// The condition under which a predecessor's grant is free for this call.
    inherited: Option<Document>,
    /// The id of its entry after the command.
    entry_id: Document,
}

/// The lower of two indexes; the index of a missing entry is -1.
fn first_of(own: Document, before: Document) -> Document {
    let is_there = doc! { "$gte": ["$$entry", 0] };
    let there = doc! {
        "$filter": { "input": [own, before], "as": "entry", "cond": is_there },
    };
    doc! { "$ifNull": [{ "$min": there }, -1] }
}

impl Of {
    fn a_call_alone() -> Of {
        Of {
            is_own: |value| doc! { "$eq": [value, literal("$$NOW")] },
            place: doc! { "$indexOfArray": ["$$line.value", literal("$$NOW")] },
            inherited: None,
            // The id with which it joined.
            entry_id: doc! { "$ifNull": ["$$old.id", literal("$call.3")] },
        }
    }

    fn a_successor() -> Of {
        let own = doc! { "$indexOfArray": ["$$line.value", literal("$$NOW")] };
        let before = doc! { "$indexOfArray": ["$$line.value", literal("$before")] };
        let is_mine = doc! { "$eq": ["$$old.value", literal("$$NOW")] };
        Of {
            is_own: |value| doc! { "$in": [value, [literal("$$NOW"), literal("$before")]] },
            place: first_of(own, before),
            inherited: Some(doc! { "$eq": ["$value", literal("$before")] }),
            // Not the id of the other call: a promotion would go to that call.
            entry_id: doc! { "$cond": [is_mine, "$$old.id", literal("$call.3")] },
        }
    }

    fn owns_entry(&self) -> Document {
        (self.is_own)("$$entry.value".into())
    }

    /// The entries that count: this call's, and all live ones.
    fn line(&self) -> Document {
        let counts = doc! { "$or": [self.owns_entry(), is_live()] };
        let condition = doc! { "$and": [is_entry(), counts] };
        filtered(entries(), condition)
    }

    /// The condition for a grant: the lease is free, and no live waiter comes before this call.
    fn may_take(&self) -> Document {
        let absent = doc! { "$in": [{ "$type": "$expiresAt" }, ["missing", "null"]] };
        let is_date = doc! { "$eq": [{ "$type": "$expiresAt" }, "date"] };
        let expired = doc! { "$lte": ["$expiresAt", "$$NOW"] };
        let is_first = doc! {
            "$or": ["$$mine", { "$eq": ["$$place", 0] }, { "$eq": ["$$line", []] }],
        };
        let (ours, is_our_turn) = match &self.inherited {
            None => (Bson::from("$$mine"), is_first),
            Some(inherited) => (
                doc! { "$or": ["$$mine", inherited] }.into(),
                doc! { "$or": [is_first, inherited] },
            ),
        };
        let over = doc! { "$or": [expired, ours] };
        let is_free = doc! { "$or": [absent, { "$and": [is_date, over] }] };
        doc! { "$and": [is_free, is_our_turn] }
    }

    /// The fields that a grant changes in the document.
    fn granted(&self) -> Document {
        let anew = doc! {
            "value": literal("$$NOW"),
            "id": literal("$call.3"),
            "sentMicros": "$$sent",
            "owner": literal("$owner"),
            "acquiredAt": "$$NOW",
            "ttlMs": 30_000_i64,
            "maxClockSkewMs": 1_000_i64,
            "metadata": { "$literal": { "$meta": "$meta" } },
            "writes": one_more(),
        };
        let again = doc! {
            "sentMicros": "$$sent",
            "ttlMs": { "$max": ["$grant.ttlMs", 30_000_i64] },
            "maxClockSkewMs": { "$max": ["$grant.maxClockSkewMs", 1_000_i64] },
            "writes": one_more(),
        };
        let granted_to_me = doc! { "$eq": ["$grant.value", literal("$$NOW")] };
        let same_grant = doc! { "$and": ["$$mine", granted_to_me] };
        let prolonged = doc! { "$max": ["$expiresAt", "$$until"] };
        let changes = doc! {
            "value": literal("$$NOW"),
            "expiresAt": { "$cond": ["$$mine", prolonged, "$$until"] },
            "grant": { "$cond": [same_grant, { "$mergeObjects": ["$grant", again] }, anew] },
        };
        // Counts from the newest heartbeat if that overtook, with its echo.
        let overtook = doc! { "$gt": ["$$old.heartbeatAt", "$$NOW"] };
        let vars = doc! {
            "until": { "$add": [{ "$max": ["$$NOW", "$$old.heartbeatAt"] }, 31_000_i64] },
            "sent": { "$cond": [overtook, "$$old.sentMicros", ECHO] },
        };
        let rest = doc! { "queue": filtered("$$line", doc! { "$not": self.owns_entry() }) };
        let rest = doc! { "$cond": [{ "$isArray": ["$queue"] }, rest, {}] };
        doc! { "$let": { "vars": vars, "in": { "$mergeObjects": [changes, rest] } } }
    }

    /// The fields that change for a call that joins, in a queue of at most seven.
    fn joined(&self) -> Document {
        let mut me = doc! {
            "value": literal("$$NOW"),
            "id": self.entry_id.clone(),
            "ttlMs": 30_000_i64,
            "maxClockSkewMs": 1_000_i64,
            "owner": literal("$owner"),
            "metadata": { "$literal": { "$meta": "$meta" } },
        };
        me.extend(heartbeat_update("$$old"));
        let each = doc! { "$cond": [self.owns_entry(), "$$me", "$$entry"] };
        let in_place = doc! { "$map": { "input": "$$line", "as": "entry", "in": each } };
        let at_the_end = doc! { "$concatArrays": ["$$line", ["$$me"]] };
        let has_place = doc! { "$gte": ["$$place", 0] };
        let line = doc! { "$cond": [has_place.clone(), in_place, at_the_end] };
        let line = doc! { "$let": { "vars": { "me": me }, "in": line } };
        let has_room = doc! { "$or": [has_place, { "$lt": [{ "$size": "$$line" }, 7_i64] }] };
        doc! { "$cond": [{ "$and": [is_sound(), has_room] }, { "queue": line }, {}] }
    }

    /// The whole command: `refused` has the changes for a lease that is not free.
    fn command(&self, refused: Document, fields: Document) -> Document {
        let changes = doc! { "$cond": [self.may_take(), self.granted(), refused] };
        let has_place = doc! { "$gte": ["$$place", 0] };
        let old = doc! { "$cond": [has_place, { "$arrayElemAt": ["$$line", "$$place"] }, {}] };
        let vars = doc! { "old": old, "mine": { "$eq": ["$value", literal("$$NOW")] } };
        let changes = doc! { "$let": { "vars": vars, "in": changes } };
        let vars = doc! { "place": self.place.clone() };
        let changes = doc! { "$let": { "vars": vars, "in": changes } };
        let changes = doc! { "$let": { "vars": { "line": self.line() }, "in": changes } };
        doc! {
            "findAndModify": "locks",
            "query": { "name": "$name" },
            "update": [{ "$replaceWith": { "$mergeObjects": ["$$ROOT", changes] } }],
            "upsert": true,
            "new": true,
            "fields": fields,
            "hint": { "name": 1 },
            "collation": simple(),
            "writeConcern": majority(),
        }
    }
}

/// With the position in the queue, which only a call that joins requests.
fn projection_with_ahead() -> Document {
    let place = doc! { "$indexOfArray": ["$queue.value", literal("$$NOW")] };
    let mut fields = projection();
    fields.insert("ahead", doc! { "$cond": [{ "$isArray": ["$queue"] }, place, -1] });
    fields
}

#[test]
fn an_acquire_that_does_not_wait_is_written_out() {
    // A call that does not wait has no entry, and yet it must not overtake live waiters.
    let wanted = Of::a_call_alone().command(doc! {}, projection());
    assert_same(&acquire().build("locks", SENT), &wanted);
}

#[test]
fn an_acquire_that_joins_the_line_is_written_out() {
    let call = Of::a_call_alone();
    let wanted = call.command(call.joined(), projection_with_ahead());
    assert_same(&joining().build("locks", SENT), &wanted);
}

#[test]
fn an_acquire_that_takes_over_a_place_is_written_out() {
    let acquire = FullAcquire { predecessor: Some("$before".to_owned()), ..joining() };
    let call = Of::a_successor();
    let wanted = call.command(call.joined(), projection_with_ahead());
    assert_same(&acquire.build("locks", SENT), &wanted);
}

/// The attempts of one call differ only in the number within their grant ids.
#[test]
fn attempts_differ_in_the_id_of_their_grant_alone() {
    let text =
        |attempt| Bson::from(FullAcquire { attempt, ..joining() }.build("locks", SENT)).to_string();
    let (third, tenth) = (text(3), text(10));
    assert!(third.contains("\"$call.3\"") && !third.contains("\"$call.10\""), "{third}");
    assert_eq!(third.replace("\"$call.3\"", "\"$call.10\""), tenth);
}
