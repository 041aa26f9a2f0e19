//! The rule in a pipeline: who holds, who waits, how many waiters fit, and the fields that their admission changes.
//!
//! An element of `holders` that lacks a field, or has one of a foreign type, makes the list corrupt: nobody is admitted
//! beside it. The list counts only while the document's value is `mongo-lease/shared`.

use super::*;

/// More than a queue may have.
pub(super) const LENGTH_MAX: i32 = 10_000;

/// The list of holders as an array.
pub(super) fn elements() -> Document {
    queue::list(format::HOLDERS)
}

/// A condition: the lease is held by several, and each element is a holder with a permit at least.
pub(super) fn is_shared(elements: Variable) -> Document {
    const FIELDS: [(&str, &str); 7] = [
        (holder::VALUE, "string"),
        (holder::ID, "string"),
        (holder::EXPIRES_AT, "date"),
        (holder::TTL_MS, "long"),
        (holder::MAX_CLOCK_SKEW_MS, "long"),
        (holder::PERMITS, "long"),
        (holder::LIMIT, "long"),
    ];
    let each = map(elements, |each| {
        let has_permit = doc! { "$gte": [each.field(holder::PERMITS), 1] };
        all([queue::has_types(each, FIELDS), has_permit])
    });
    all([
        eq(path(format::VALUE), format::SHARED_VALUE),
        is_date(format::EXPIRES_AT),
        doc! { "$gt": [{ "$size": elements }, 0] },
        doc! { "$allElementsTrue": [each] },
    ])
}

/// A condition: the lease has no expiry, or one in the past. An expiry of another type is corrupt: the lease is never
/// granted.
pub(super) fn has_no_holder() -> Document {
    let absent = doc! { "$in": [{ "$type": path(format::EXPIRES_AT) }, ["missing", "null"]] };
    let expired = doc! { "$lte": [path(format::EXPIRES_AT), "$$NOW"] };
    any([absent, all([is_date(format::EXPIRES_AT), expired])])
}

/// The list under an exclusive holder. With the former holders, each later command would carry them until the document
/// is deleted.
pub(super) fn no_holders() -> Document {
    let has_no_field = eq(doc! { "$type": path(format::HOLDERS) }, "missing");
    cond(has_no_field, "$$REMOVE", NO_ELEMENT)
}

/// A condition: this holder has not expired.
pub(super) fn is_unexpired(each: Variable) -> Document {
    doc! { "$gt": [each.field(holder::EXPIRES_AT), "$$NOW"] }
}

/// A condition: this holder or entry has this value.
pub(super) fn is_of(each: Variable, value: &str) -> Document {
    eq(each.field(holder::VALUE), literal(value))
}

/// A condition: this entry is live, and its waiter holds nothing.
pub(super) fn waits(each: Variable, kept: Variable) -> Document {
    let holds = is_in(each.field(entry::VALUE), kept.field(holder::VALUE));
    all([queue::is_live(each), not(holds)])
}

/// A write that admits as many waiters as fit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room<'a> {
    /// The caller, where it asks for permits. It is alive, so it gets its whole ttl.
    pub(super) asker: Option<&'a AcquireRequest>,
    /// `None` where the grant of an exclusive holder ends: anybody may be admitted, and nobody stays. Without the parts
    /// for those who stay, the server has less to parse.
    pub(super) beside: Option<Beside>,
}

/// The holders beside whom waiters are admitted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beside {
    /// The holders in the list that stay.
    pub(super) kept: Variable,
    /// Whether anybody may be admitted.
    pub(super) open: Variable,
}

/// A line of which the first entries are admitted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Admitted {
    /// The holders that these become.
    pub(super) admitted: Variable,
    /// Those that wait.
    pub(super) rest: Variable,
}

impl Room<'_> {
    /// Binds those entries of this line that fit, from the first one on.
    pub(super) fn of_line(self, scope: &mut Scope, line: impl Into<Bson>) -> Admitted {
        let line = scope.bind("callers", line);
        let count = scope.bind("fit", self.fitting(line)).field("count");
        // The server refuses to take no element of a list.
        let is_any = doc! { "$gt": [&count, 0] };
        let first = cond(is_any, doc! { "$slice": [line, &count] }, NO_ELEMENT);
        let admitted = scope.bind("admitted", map(first, |each| self.admitted(each)));
        let rest = scope.bind("rest", doc! { "$slice": [line, count, LENGTH_MAX] });
        Admitted { admitted, rest }
    }

    /// How many entries fit: the first that does not fit blocks the others.
    fn fitting(self, line: Variable) -> Document {
        let limit_max = i64::from(LIMIT_MAX);
        let (used, bound) = match self.beside {
            None => (Bson::from(0), Bson::from(limit_max)),
            Some(Beside { kept, open }) => {
                let limits = doc! { "$concatArrays": [kept.field(holder::LIMIT), vec![limit_max]] };
                let used = doc! { "$sum": kept.field(holder::PERMITS) };
                (used.into(), cond(open, doc! { "$min": limits }, -1).into())
            }
        };
        reduce(line, doc! { "count": 0, "used": used, "bound": bound }, |value, this| {
            in_scope(|scope| {
                let used = doc! { "$add": [value.field("used"), this.field(entry::PERMITS)] };
                let used = scope.bind("used", used);
                let bound = doc! { "$min": [value.field("bound"), this.field(entry::LIMIT)] };
                let bound = scope.bind("bound", bound);
                let count = doc! { "$add": [value.field("count"), 1] };
                let one_more = doc! { "count": count, "used": used, "bound": bound };
                // Nothing fits behind it.
                let full = doc! { "count": value.field("count"), "used": 0, "bound": -1 };
                cond(doc! { "$lte": [used, bound] }, one_more, full)
            })
        })
    }

    /// The holder that an entry becomes.
    fn admitted(self, each: Variable) -> Document {
        let mut holder = each.fields([
            holder::VALUE,
            holder::ID,
            holder::SENT_MICROS,
            holder::OWNER,
            holder::TTL_MS,
            holder::MAX_CLOCK_SKEW_MS,
            holder::METADATA,
            holder::PERMITS,
            holder::LIMIT,
        ]);
        holder.insert(holder::ACQUIRED_AT, "$$NOW");
        holder.insert(holder::EXPIRES_AT, self.until(each));
        holder.insert(holder::WRITES, 1_i64);
        holder
    }

    /// Until when an admission lasts. It counts from the waiter's newest heartbeat where `$$NOW` is older.
    ///
    /// A waiter that sent no command for it may have died since that heartbeat, so it gets no more than the life of its
    /// entry.
    fn until(self, of: Variable) -> Document {
        let heartbeat_at = of.field(entry::HEARTBEAT_AT);
        let waiter_ttl = doc! { "$subtract": [of.field(entry::EXPIRES_AT), &heartbeat_at] };
        let term = max(0_i64, doc! { "$min": [of.field(entry::TTL_MS), waiter_ttl] });
        let term = match self.asker {
            None => term,
            Some(asker) => cond(is_of(of, &asker.value), of.field(entry::TTL_MS), term),
        };
        doc! { "$add": [max("$$NOW", heartbeat_at), term, of.field(entry::MAX_CLOCK_SKEW_MS)] }
    }

    /// The fields that change: the first waiter has the exclusive lease, or the waiters are beside the `refreshed`
    /// holders, or nobody holds.
    pub(super) fn changes(
        self,
        of: Admitted,
        refreshed: impl Into<Bson>,
        nobody: Document,
    ) -> Document {
        let all = match self.beside {
            None => of.admitted.into(),
            Some(_) => Bson::from(doc! { "$concatArrays": [refreshed.into(), of.admitted] }),
        };
        let shared =
            bind("all", all, |all| cond(doc! { "$ne": [all, []] }, self.shared(of, all), nobody));
        bind("first", doc! { "$arrayElemAt": [of.admitted, 0] }, |first| {
            cond(eq(first.field(holder::LIMIT), 1), self.exclusive(of, first), shared)
        })
    }

    /// The fields that change where the first waiter asked for the exclusive lease.
    fn exclusive(self, of: Admitted, first: Variable) -> Document {
        let echo = doc! { "$toString": first.field(holder::SENT_MICROS) };
        let told = doc! { "$concat": [first.field(holder::ID), "@", echo] };
        let grant = first.fields([
            grant::VALUE,
            grant::ID,
            grant::SENT_MICROS,
            grant::OWNER,
            grant::ACQUIRED_AT,
            grant::TTL_MS,
            grant::MAX_CLOCK_SKEW_MS,
            grant::METADATA,
        ]);
        doc! {
            format::VALUE: first.field(holder::VALUE),
            format::GRANT: with(grant, grant::WRITES, one_more_write()),
            format::EXPIRES_AT: first.field(holder::EXPIRES_AT),
            format::PROMOTED: told,
            format::QUEUE: queue::left(of.rest),
            format::HOLDERS: no_holders(),
        }
    }

    /// The fields that change where these hold together afterwards.
    fn shared(self, of: Admitted, all: Variable) -> Document {
        let latest = doc! { "$max": all.field(holder::EXPIRES_AT) };
        let told =
            bind("told", self.told(of.admitted), |told| cond(eq(told, ""), "$$REMOVE", told));
        let mut changes = doc! {
            format::VALUE: format::SHARED_VALUE,
            format::HOLDERS: all,
            format::EXPIRES_AT: &latest,
            format::QUEUE: queue::left(of.rest),
            format::ADMITTED: told,
        };
        if self.asker.is_none() && self.beside.is_some() {
            changes.insert(format::PROMOTED, recheck(of, latest));
        }
        changes
    }

    /// The text of `admitted`: the waiters that are admitted besides the caller.
    fn told(self, admitted: Variable) -> Document {
        let others: Bson = match self.asker {
            None => admitted.into(),
            Some(asker) => filter(admitted, |each| not(is_of(each, &asker.value))).into(),
        };
        reduce(others, "", |value, this| {
            let sent = doc! { "$toString": this.field(holder::SENT_MICROS) };
            let until = queue::millis(this.field(holder::EXPIRES_AT));
            let gap = cond(eq(value, ""), "", " ");
            doc! { "$concat": [value, gap, this.field(holder::ID), "@", sent, "@", until] }
        })
    }
}

/// `promoted` after a release: it tells the first waiter where nobody is admitted and the lease ends earlier.
///
/// The waiter sleeps until the end that it has read, and an expiry sends no event. Two releases in one millisecond have
/// different texts if they have different ends. Where a renewal between them makes both ends the same, the waiter's own
/// time for its next attempt remains.
fn recheck(of: Admitted, latest: Document) -> Document {
    let head = doc! { "$arrayElemAt": [of.rest.field(entry::ID), 0] };
    let mark = format!("@{}", queue::RECHECK);
    let is_told = all([
        eq(of.admitted, NO_ELEMENT),
        doc! { "$ne": [of.rest, []] },
        doc! { "$lt": [&latest, path(format::EXPIRES_AT)] },
    ]);
    let [now, until] = [Bson::from("$$NOW"), latest.into()].map(queue::millis);
    let text = doc! { "$concat": [head, mark, now, "-", until] };
    // The document keeps the field as it was.
    cond(is_told, text, "$$REMOVE")
}
