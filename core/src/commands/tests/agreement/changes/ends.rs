//! Changes to releases: the end of a grant, which admits waiters, and the commands that admit nobody.

pub(in crate::commands::tests::agreement) const OF_ENDS: &str = "
End
    ends a damaged lease: SOUND => true
    ends a lease that a delete would end: drop $and from {name, $and, ...}
    sees no holders beside the target: {holders.1: _, value: _} => {name: 0}
    sees no queue beside the target: {queue.0: _} => {name: 0}
    matches any grant of its value: drop grant.id
    matches any share of its value: $elemMatch({value, id: _}) => $elemMatch({value})
    matches holders of a lease that is held by one:
        drop value from {value, holders: $elemMatch(holder), ...}
    matches shares in a document without an expiry: {expiresAt: $type('date'), ...} => {...}
    matches a queue that is no list: drop queue from {queue, queue.value, ...}
    ends any grant of its value:
        _($$each.id, $literal(_)) => true; _($grant.id, $literal(_)) => true
    admits the entry of the holder: $ne($$each.value, $value) => true
    ends the lease of another when it leaves the queue: $eq($value, $literal(_)) => true
    does not admit when it holds: $or($or(free), $and(_), any) => $or($or(free), any)
    does not admit in shared use: $or($or(free), $and(own), _) => $or($or(free), $and(own))
    does not admit to a free lease: $or($or(_), $and(own), any) => $or($and(own), any)
    finds a lease without an expiry held: ABSENT => false
    finds an expired lease held: PASSED => false
    takes expired holders for holders: $and($$shared, _) => $$shared
    admits nobody when the last expired holder ends: $or(UNEXPIRED, _) => UNEXPIRED
    admits nobody beside others: $or(UNEXPIRED, own) => own
    keeps expired holders: $and(UNEXPIRED, $not(own)) => $not(own)
    keeps itself: $and(UNEXPIRED, $not(_)) => UNEXPIRED
    admits its own entry: $and(sound, waits, $not(_)) => $and(sound, waits)
    admits where nobody may be admitted: $cond($$open, $let(admitted), _) => $let(admitted)
    admits nobody: $cond($$open, $let(_), closed) => closed
    stays in the queue where it admits nobody: drop queue from {queue, holders}
    stays in a corrupt list: drop holders from {queue, holders}
    frees the lease now:
        {value, expiresAt: _, holders, queue} => {value, expiresAt: $$NOW, holders, queue}
    leaves its value in a free lease: drop value from {value, expiresAt, holders, queue}
    leaves holders in a free lease: drop holders from {value, expiresAt, holders, queue}
    leaves dead entries in a free lease: drop queue from {value, expiresAt, holders, queue}
    admits one too many: $lte($$used, $$bound) => $lte($subtract($$used, 1), $$bound)
    does not look at the holders' limits: $concatArrays($$kept.limit, own) => own
    reads holders of a lease that is held by one: $eq($value, SHARED) => true
    counts a holder without a permit: $and(typed, $gte($$each.permits, 1)) => typed
    reads permits of any type: $type($$each.permits) => 'long'
    admits dead waiters: $and(UNEXPIRED, $ne(other)) => $ne(other)
    admits waiters that hold already: $not($in($$each.value, $$kept.value)) => true
    admits waiters for their whole ttl: $min($$each.ttlMs, _) => $$each.ttlMs
    admits for less than nothing: $max(0, $min(left)) => $min(left)
    counts an admission from $$NOW: $max(now, $$each.heartbeatAt) => now
    does not count its write: $add(WRITES, 1) => WRITES
    expires with its newest holder: $max($$all.expiresAt) => $arrayElemAt($$all.expiresAt, -1)
    does not tell the promoted waiter: drop promoted from {promoted, grant, ...}
    does not tell the admitted waiters: drop admitted from {admitted, holders, ...}
    keeps holders under an exclusive one: drop holders from {holders, grant, ...}
    does not tell of an earlier end: drop promoted from {promoted, admitted, ...}
    tells a waiter beside those that it admits:
        $and($eq($$admitted, []), waits, ends_earlier) => $and(waits, ends_earlier)
";

pub(in crate::commands::tests::agreement) const OF_RELEASES: &str = "
Delete
    deletes the queue: drop queue.0
    deletes any grant of its value: drop grant.id
    deletes any share of its value: drop holders.0.id
    deletes the share of another: drop holders.0.value
    deletes grants of calls that sort behind: drop $lt
    deletes grants of calls that sort before: drop $gte
    deletes the accepted grant: drop $ne
    deletes other holders: drop holders
    deletes a lease that is held by one for its stale list: drop value from {value, holders, ...}
    deletes a damaged document: drop $expr
Tombstone
    keeps the holder's grant: {name, value, expiresAt} => $set({name, value, expiresAt})
    expires now: {name, value, expiresAt: _} =>
        [$replaceWith({name: $literal(name), value, expiresAt: $$NOW})]
    buries a damaged document: drop $expr
    deletes the queue: drop queue.0
    buries other holders: drop holders
EndLater
    ends a damaged lease: drop $expr
    counts from now: $add($grant.acquiredAt, held) => $add($$NOW, held)
    does not call the first waiter: drop promoted
    calls nobody anew: $eq($type($$head), 'object') => true
    calls itself: $ne($$each.value, $value) => true
    calls a dead waiter: $and(UNEXPIRED, $ne(other)) => $ne(other)
    leaves the grant to the holder: drop grant.value
    leaves the lease to the holder: drop value from {value, grant.value, ...}
    names no grant: drop grant.id
";
