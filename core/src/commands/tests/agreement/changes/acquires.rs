//! Changes to acquires: the slow one, the admission of waiters in it, and the fast attempts.

/// Changes to the slow acquire: who it is, its entry, and what it finds again.
pub(in crate::commands::tests::agreement) const OF_ACQUIRES: &str = "
SlowAcquire
    shortens a grant that it finds again: $max($expiresAt, new) => new
    shortens a share that it finds again: $max($$each.expiresAt, new) => new
    shortens the waiter_ttl of its entry: $max($$old.expiresAt, new) => new
    counts from $$NOW, although its heartbeat is newer: $max($$NOW, $$old.heartbeatAt) => $$NOW
    stores an older echo: $cond($gt($$old.heartbeatAt, $$NOW), _, own) => own
    reads an expiry of a foreign type as a time: DATED => true
    finds a lease without an expiry held: ABSENT => false
    finds an expired lease held: PASSED => false
    does not count its write: $add(WRITES, 1) => WRITES
    does not count its write to a share: $add(COUNTED, 1) => COUNTED
    takes the shorter ttl: $max($$grant.ttlMs, own) => own
    takes the smaller clock skew: $max($$grant.maxClockSkewMs, own) => own
    takes the shorter ttl of a share: $max($$each.ttlMs, own) => own
    takes the smaller clock skew of a share: $max($$each.maxClockSkewMs, own) => own
    keeps the echo of a share:
        drop sentMicros from {expiresAt, sentMicros, ttlMs, maxClockSkewMs, writes}
    joins a full queue: $lt($size($$line), _) => true
    is refused by a queue that it is in:
        $or($gte($$place, 0), room) => room; $or($gte($$place, 0), room, holds) => $or(room, holds)
    is refused by a full queue that it need not join:
        $or($gte($$place, 0), room, _) => $or($gte($$place, 0), room)
    joins a damaged document: SOUND => true
    writes where it is refused: $cond(_, $let(written), {}) => $let(written)
    goes before the waiters: $cond(_, $$place, $size(_)) => 0
    loses its place: $cond(_, $$place, $size(all)) => $size(all)
    keeps its earlier entry: $filter({input: $$line, ...}) => $$line
    stays in the queue where it holds: $cond(_, $$others, else) => else
    inherits behind the waiters: $cond(_, 0, $cond(place)) => $cond(place)
    does not inherit a lease: $or($or(free), $and(_)) => $or(free)
    keeps the id of an inherited entry: $cond(_, $$old.id, new) => $ifNull($$old.id, new)
    takes a new id for its entry: $ifNull($$old.id, new) => new
    is granted its own lease anew: $cond($$mine, _, anew) => anew
    takes an exclusive lease for its share:
        $ne($$kept, []) => $or($ne($$kept, []), $eq($value, $$me.value))
    takes a lease for which others wait: $and($$free, _) => $$free
    takes a lease that is held: $and($$free, is_first) => is_first
    stays in the queue where it takes the lease:
        drop queue from {value, grant, expiresAt, queue, holders}
    does not call the first waiter: $cond($$free, $concat(_), else) => else
    calls the first waiter of a held lease: $cond($$free, $concat(call), _) => $concat(call)
    calls the last waiter: $arrayElemAt($$waiting.id, 0) => $arrayElemAt($$waiting.id, -1)
    takes the grant of another for its own: $eq($grant.value, _) => true
    does not see that it holds:
        $or(_, $in(own, $$admitted.value)) => $in(own, $$admitted.value)
    does not see that it is admitted: $or(holds, $in(_, $$admitted.value)) => holds
    loses its expired share: $or(UNEXPIRED, _) => UNEXPIRED
    keeps expired holders: $filter({input: $$elements, as: _, cond: $or(_)}) => $$elements
";

/// Changes to the admission in a slow acquire: who counts, how many fit, and what is written.
pub(in crate::commands::tests::agreement) const OF_ADMISSIONS: &str = "
SlowAcquire
    admits where nobody may be admitted: $cond($$open, bound, _) => bound
    admits nobody beside holders: $ne($$kept, []) => false
    admits one too many: $lte($$used, $$bound) => $lte($subtract($$used, 1), $$bound)
    passes a waiter that does not fit: {count: $$value.count, used: 0, bound: -1} => $$value
    does not count the holders' permits: $sum($$kept.permits) => 0
    does not look at the holders' limits: $concatArrays($$kept.limit, own) => own
    looks at the waiter's limit alone: $min($$value.bound, $$this.limit) => $$this.limit
    does not look at the waiter's limit: $min($$value.bound, $$this.limit) => $$value.bound
    counts a waiter as one permit: $add($$value.used, $$this.permits) => $add($$value.used, 1)
    expires with its newest holder: $max($$all.expiresAt) => $arrayElemAt($$all.expiresAt, -1)
    counts a holder without a permit: $and(typed, $gte($$each.permits, 1)) => typed
    reads holders of a lease that is held by one: $eq($value, SHARED) => true
    tells of an empty list: $gt($size($$elements), 0) => true
    reads corrupt holders: $and(a, b, c, $allElementsTrue(_)) => $and(a, b, c)
    admits a waiter for no permit: $and(a, b, c, _, e, f) => $and(a, b, c, e, f)
    admits a waiter for more permits than its limit: $and(a, b, c, d, _, f) => $and(a, b, c, d, f)
    admits a waiter under too large a limit: $and(a, b, c, d, e, _) => $and(a, b, c, d, e)
    reads permits of any type: $type($$each.permits) => 'long'
    reads a limit of any type: $type($$each.limit) => 'long'
    reads an echo of any type: $type($$each.sentMicros) => 'long'
    admits dead waiters: $and(UNEXPIRED, $ne(other)) => $ne(other)
    admits the entry of the holder: $ne($$each.value, $value) => true
    admits waiters that hold already: $not($in($$each.value, $$kept.value)) => true
    reads corrupt entries: $and($and(_, _, _, _, _, _), $or(waits)) => $or(waits)
    makes an exclusive holder of a share: $eq($$first.limit, _) => true
    makes a sharer of an exclusive holder: $eq($$first.limit, _) => false
    does not tell the promoted waiter: drop promoted from {promoted, grant, ...}
    does not tell the admitted waiters: drop admitted from {admitted, holders, ...}
    tells of its own admission: $filter({input: $$admitted, ...}) => $$admitted
    forgets whom it told before: $cond($eq($$told, ''), _, told) => told
    keeps holders under an exclusive one: drop holders from {holders, grant, ...}
    keeps the promoted waiter in the queue: drop queue from {queue, grant, promoted, ...}
    keeps the admitted waiters in the queue: drop queue from {queue, admitted, ...}
    does not join: {queue: _} => {}; {queue: _, promoted: _} => {}
    admits waiters for their whole ttl: $min($$each.ttlMs, _) => $$each.ttlMs
    admits for less than nothing: $max(0, $min(left)) => $min(left)
    is granted no more than the waiter_ttl of its entry:
        $cond(_, $$each.ttlMs, $max(left)) => $max(left)
    counts an admission from $$NOW: $max(now, $$each.heartbeatAt) => now
";

pub(in crate::commands::tests::agreement) const OF_FAST_ATTEMPTS: &str = "
FastAcquire
    is granted a lease that has a queue: NO_QUEUE => true
    is granted a lease that is held: PASSED => true
    is granted a damaged lease: DATED => true
    finds a lease without an expiry held: ABSENT => false
    does not count its write: $add(WRITES, 1) => WRITES
    looks the name up before it inserts:
        {findAndModify, query: {name: $in([])},
            update: [$replaceWith($mergeObjects(root, {name: $literal(name)}, new))], ...} =>
        {findAndModify, query: {name: name},
            update: [$replaceWith($mergeObjects(root, {name: $literal(name)}, new))], ...}
FastAcquireMany
    grants until $$NOW: $add($$NOW, _) => $$NOW
    does not count its write: $add(WRITES, 1) => WRITES
    is granted a lease that has a queue: NO_QUEUE => true
FastAdmit
    does not look for its own grant: $not($in(_, $$kept.value)) => true
    goes before the queue: NO_QUEUE => true
    is refused beside holders: $gt($size($$kept), 0) => false
    is admitted beside an exclusive holder: $gt($size($$kept), 0) => true
    finds a lease without an expiry held: ABSENT => false
    finds an expired lease held: PASSED => false
    reads an expiry of a foreign type as a time: DATED => true
    is admitted where it does not fit: $lte($add(_), _) => true
    looks at its own limit alone: $concatArrays($$kept.limit, own) => own
    looks at the others' limits alone: $concatArrays($$kept.limit, _) => $$kept.limit
    does not count the permits in use: $sum($$kept.permits) => 0
    counts expired holders: UNEXPIRED => true
    counts a holder without a permit: $and(typed, $gte($$each.permits, 1)) => typed
    reads holders of a lease that is held by one: $eq($value, SHARED) => true
    expires with its newest holder: $max($$all.expiresAt) => $arrayElemAt($$all.expiresAt, -1)
";
