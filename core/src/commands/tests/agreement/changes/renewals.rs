//! Changes to the commands that prolong: of holders, and of waiters.

pub(in crate::commands::tests::agreement) const OF_RENEWALS: &str = "
RenewMany
    shortens a grant: $max($expiresAt, new) => new
    renews any grant of its value: drop grant.id
    repairs an expiry of a foreign type: drop $expr
    keeps the old echo: drop grant.sentMicros
    prolongs for the stored ttl: $add($$NOW, _) => STORED
RenewHolders
    shortens a grant: $max($$each.expiresAt, new) => new
    is content with one grant of two: $all(ids) => $in(ids)
    repairs a corrupt holder: drop holders from {name, holders, ...}
    repairs an expiry of a foreign type: drop $expr
    renews what is not held by several: drop value
    renews each holder: $cond($in($$each.id, _), renewed, _) => renewed
    keeps the old echo: drop sentMicros
    keeps the expiry of the document: $set({expiresAt: _}) => $set({expiresAt: $expiresAt})
    prolongs for the stored ttl: $add($$NOW, _) => $add(
        $$NOW,
        $cond($eq($type($$each.ttlMs), 'long'), $min($$each.ttlMs, FAR), null),
        $cond($eq($type($$each.maxClockSkewMs), 'long'), $min($$each.maxClockSkewMs, FAR), null))
Guard
    prolongs for the stored ttl: $add($$NOW, _) => STORED
    does not prolong: drop expiresAt from {expiresAt, grant.writes, ...}
    does not count its write: drop grant.writes
    guards any grant of its value: drop grant.id
Resume
    keeps a ttl that no lease may have: $cond(_, $grant.ttlMs, _) => $grant.ttlMs
    resumes an expired grant: drop $expr
    does not store the ttl: drop grant.ttlMs
    keeps the id of the grant: drop grant.id from {grant.id, grant.writes, ...}
    does not find what it resumed before: {grant.id: $in(key, _), ...} => {grant.id: key, ...}
Heartbeat
    moves the time of the newest one back: $max(now, $$each.heartbeatAt) => now
    shortens the waiter_ttl of the entry: $max($$each.expiresAt, new) => new
    stores an older echo: $cond($gt($$each.heartbeatAt, $$NOW), _, own) => own
    revives all entries: $in($$each.value, _) => true
    revives corrupt entries: $and(_, is_own) => is_own
    writes to a queue that is no list: drop queue from {queue, queue.value, ...}
    writes to a damaged document: SOUND => true
FindEntries
    finds entries of a damaged document: SOUND => true
    sees the first entry alone:
        $setIntersection($queue.value, own) => $setIntersection($slice($queue.value, 1), own)
";
