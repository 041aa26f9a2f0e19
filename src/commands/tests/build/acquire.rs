use mongodb::bson::{Bson, Document, doc};

use super::super::paths::assert_same;
use super::super::{SENT, acquire, joining};
use super::{
    ECHO, entries, filtered, heartbeat_update, is_entry, is_live, literal, majority, one_more,
    projection, simple,
};
use crate::commands::Command;
use crate::commands::acquire::FullAcquire;

/// What differs between a call that has a place of its own and one that takes over another's.
struct Of {
    /// Of a value: that it is the call's, or that of the one before it.
    is_own: fn(Bson) -> Document,
    /// Where in the line it stands.
    place: Document,
    /// Whether another's grant is this call's to take.
    inherited: Option<Document>,
    /// The id that its entry has from now on.
    entry_id: Document,
}

/// The lower of two places; a place that is not there is -1.
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
            // That under which it joined.
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
            // Not that of the other call, to which a promotion would go.
            entry_id: doc! { "$cond": [is_mine, "$$old.id", literal("$call.3")] },
        }
    }

    fn owns_entry(&self) -> Document {
        (self.is_own)("$$entry.value".into())
    }

    /// Who counts: this call, and everybody who lives.
    fn line(&self) -> Document {
        let counts = doc! { "$or": [self.owns_entry(), is_live()] };
        let condition = doc! { "$and": [is_entry(), counts] };
        filtered(entries(), condition)
    }

    /// Whether it may take the lease: it is free, and nobody comes before this call.
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

    /// What a grant changes in the document.
    fn granted(&self) -> Document {
        let anew = doc! {
            "value": literal("$$NOW"),
            "id": literal("$call.3"),
            "sent": "$$sent",
            "owner": literal("$owner"),
            "acquiredAt": "$$NOW",
            "ttlMs": 30_000_i64,
            "allowanceMs": 1_000_i64,
            "meta": { "$literal": { "$meta": "$meta" } },
            "n": one_more(),
        };
        let again = doc! {
            "sent": "$$sent",
            "ttlMs": { "$max": ["$grant.ttlMs", 30_000_i64] },
            "allowanceMs": { "$max": ["$grant.allowanceMs", 1_000_i64] },
            "n": one_more(),
        };
        let granted_to_me = doc! { "$eq": ["$grant.value", literal("$$NOW")] };
        let same_grant = doc! { "$and": ["$$mine", granted_to_me] };
        let prolonged = doc! { "$max": ["$expiresAt", "$$until"] };
        let changes = doc! {
            "value": literal("$$NOW"),
            "expiresAt": { "$cond": ["$$mine", prolonged, "$$until"] },
            "grant": { "$cond": [same_grant, { "$mergeObjects": ["$grant", again] }, anew] },
        };
        // From the newest sign of life on, where that overtook; and with its echo.
        let overtook = doc! { "$gt": ["$$old.beatAt", "$$NOW"] };
        let vars = doc! {
            "until": { "$add": [{ "$max": ["$$NOW", "$$old.beatAt"] }, 31_000_i64] },
            "sent": { "$cond": [overtook, "$$old.sent", ECHO] },
        };
        let rest = doc! { "queue": filtered("$$line", doc! { "$not": self.owns_entry() }) };
        let rest = doc! { "$cond": [{ "$isArray": ["$queue"] }, rest, {}] };
        doc! { "$let": { "vars": vars, "in": { "$mergeObjects": [changes, rest] } } }
    }

    /// What changes for a call that joins, where the queue takes seven.
    fn joined(&self) -> Document {
        let mut me = doc! {
            "value": literal("$$NOW"),
            "id": self.entry_id.clone(),
            "ttlMs": 30_000_i64,
            "allowanceMs": 1_000_i64,
            "owner": literal("$owner"),
            "meta": { "$literal": { "$meta": "$meta" } },
        };
        me.extend(heartbeat_update("$$old"));
        let each = doc! { "$cond": [self.owns_entry(), "$$me", "$$entry"] };
        let in_place = doc! { "$map": { "input": "$$line", "as": "entry", "in": each } };
        let at_the_end = doc! { "$concatArrays": ["$$line", ["$$me"]] };
        let has_place = doc! { "$gte": ["$$place", 0] };
        let line = doc! { "$cond": [has_place.clone(), in_place, at_the_end] };
        let line = doc! { "$let": { "vars": { "me": me }, "in": line } };
        let has_room = doc! { "$or": [has_place, { "$lt": [{ "$size": "$$line" }, 7_i64] }] };
        let is_sound = doc! { "$in": [{ "$type": "$expiresAt" }, ["date", "missing", "null"]] };
        doc! { "$cond": [{ "$and": [is_sound, has_room] }, { "queue": line }, {}] }
    }

    /// The whole command: `refused` is what changes when the lease is not free.
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

/// With the place in line, which only who joins asks for.
fn projection_with_ahead() -> Document {
    let place = doc! { "$indexOfArray": ["$queue.value", literal("$$NOW")] };
    let mut fields = projection();
    fields.insert("ahead", doc! { "$cond": [{ "$isArray": ["$queue"] }, place, -1] });
    fields
}

#[test]
fn an_acquire_that_does_not_wait_is_written_out() {
    // It stands in no line, and yet nobody before whom others wait may barge.
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

/// The attempts of one call differ in the number of the grant that each of them may be, and in nothing else.
#[test]
fn attempts_differ_in_the_id_of_their_grant_alone() {
    let text =
        |attempt| Bson::from(FullAcquire { attempt, ..joining() }.build("locks", SENT)).to_string();
    let (third, tenth) = (text(3), text(10));
    assert!(third.contains("\"$call.3\"") && !third.contains("\"$call.10\""), "{third}");
    assert_eq!(third.replace("\"$call.3\"", "\"$call.10\""), tenth);
}
