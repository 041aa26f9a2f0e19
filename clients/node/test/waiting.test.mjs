// Calls that wait, permits, readers, renewals together, and the close.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { PATIENCE, World, lossOf, queueOf, uri, within } from './help.mjs';

test('an aborted wait leaves the queue, and the next local call inherits its place', async (t) => {
  const world = World.of(t);
  const [holder, here, rival] = [world.manager(), world.manager(), world.manager()];
  const db = world.db();
  const lease = await holder.acquire('inherit');
  const stop = new AbortController();
  const first = here.acquire('inherit', { signal: stop.signal });
  await queueOf(db, 'inherit', 1);
  const second = here.acquire('inherit');
  const other = rival.acquire('inherit');
  await queueOf(db, 'inherit', 2);
  stop.abort(new Error('no longer needed'));
  await assert.rejects(first, /no longer needed/);
  await lease.release();
  // It has the place of the first one, before the rival.
  const won = await Promise.race([second.then(() => 'second'), other.then(() => 'other')]);
  assert.equal(won, 'second');
  await (await second).release();
  await (await other).release();
  assert.equal(await db.collection('locks').countDocuments({}), 0);
});

test('the last aborted call takes its entry out of the queue', async (t) => {
  const world = World.of(t);
  const [holder, here] = [world.manager(), world.manager()];
  const lease = await holder.acquire('leave');
  const stop = new AbortController();
  const waiting = here.acquire('leave', { signal: stop.signal });
  await queueOf(world.db(), 'leave', 1);
  stop.abort();
  await assert.rejects(waiting, { name: 'AbortError' });
  await queueOf(world.db(), 'leave', 0);
  assert.equal(await lease.release(), 'released');
});

test('a wait that is over tells who held the lease', async (t) => {
  const world = World.of(t);
  const lease = await world.manager({ owner: 'billing' }).acquire('busy');
  const other = world.manager();
  await other.ready();
  const begun = performance.now();
  // Long enough for an answer.
  await assert.rejects(other.acquire('busy', { wait: 3000 }), (error) => {
    assert.equal(error.name, 'WaitTimeoutError');
    assert.match(
      error.message,
      /^lease "busy" was not granted within .*; billing@.* held it when the database last/,
    );
    assert.equal(error.held.owner.startsWith('billing@'), true);
    assert.equal(error.isTransient, true);
    return true;
  });
  const took = performance.now() - begun;
  // The default wait is 30 s.
  assert.ok(took >= 2995 && took < PATIENCE, `${took}`);
  await lease.release();
});

test('a hand-off comes by the change stream, and a poll is not needed', async (t) => {
  const world = World.of(t);
  const [holder, here] = [
    world.manager(),
    world.manager({ recheckEvery: 60_000, waiterTtl: 60_000 }),
  ];
  const lease = await holder.acquire('handed');
  const waiting = here.acquire('handed', { wait: 60_000 });
  await queueOf(world.db(), 'handed', 1);
  await lease.release();
  const next = await within(PATIENCE, waiting);
  assert.ok(next, 'it was not told, and a poll would have come after a minute');
  // At first it lasts for the waiter ttl, and is made whole soon.
  await next.renew();
  assert.ok(next.remaining() > 20_000);
  await next.release();
});

test('a waiter keeps its place for longer than its entry lasts: its heartbeats prolong it', async (t) => {
  const world = World.of(t);
  // A heartbeat may be late by two thirds of it.
  const waiterTtl = 3000;
  const [holder, here] = [world.manager(), world.manager({ waiterTtl, recheckEvery: 60_000 })];
  const lease = await holder.acquire('kept');
  const waiting = here.acquire('kept');
  const db = world.db();
  await queueOf(db, 'kept', 1);
  const locks = db.collection('locks');
  const { id, expiresAt } = (await locks.findOne({ name: 'kept' })).queue[0];
  // Until the entry lasts for longer than its first heartbeat gave it.
  const changes = locks.watch([], { maxAwaitTimeMS: 1000 });
  let entry;
  const deadline = performance.now() + PATIENCE;
  do {
    await changes.tryNext();
    [entry] = (await locks.findOne({ name: 'kept' })).queue;
  } while (entry.expiresAt - expiresAt < waiterTtl && performance.now() < deadline);
  await changes.close();
  assert.equal(entry.id, id);
  assert.ok(entry.expiresAt - expiresAt >= waiterTtl);
  await lease.release();
  await (await waiting).release();
});

test('a transaction of another program on one of many leases costs the others nothing', async (t) => {
  const world = World.of(t);
  const leases = world.manager({ ttl: 6000 });
  const all = await Promise.all(Array.from({ length: 20 }, (_, i) => leases.acquire(`b${i}`)));
  const client = world.client();
  const session = client.startSession();
  session.startTransaction();
  const locks = world.db(client).collection('locks');
  await locks.updateOne({ name: 'b7' }, { $set: { foreign: 1 } }, { session });
  const reason = await lossOf(all[7]);
  // The blocked one is told in time, and the others are renewed meanwhile.
  assert.equal(reason.reason, 'outOfReach');
  assert.deepEqual(
    all.map((lease) => lease.isValid()),
    all.map((_, place) => place !== 7),
  );
  await session.abortTransaction();
  await session.endSession();
});

test('without a change stream, waiting calls poll', async (t) => {
  const world = World.of(t);
  const [holder, here] = [world.manager(), world.manager({ changeStream: false })];
  const lease = await holder.acquire('polled');
  const waiting = here.acquire('polled');
  await queueOf(world.db(), 'polled', 1);
  await lease.release();
  await (await waiting).release();
});

test('permits: as many as the limit are granted, and the next one waits', async (t) => {
  const world = World.of(t);
  const [here, there] = [
    world.manager().semaphore('five', 5),
    world.manager().semaphore('five', 5),
  ];
  const held = [await here.acquire({ permits: 2 }), await there.acquire({ permits: 3 })];
  assert.equal(held[1].permits, 3);
  assert.equal(await here.tryAcquire(), undefined);
  const waiting = [here.acquire(), there.acquire(), here.acquire()];
  await queueOf(world.db(), 'five', 3);
  await held[1].release();
  for (const permit of await Promise.all(waiting)) await permit.release();
  await held[0].release();
  assert.equal(await world.db().collection('locks').countDocuments({}), 0);
});

test('readers share, and exclude a writer, also a Rust one', async (t) => {
  const world = World.of(t);
  const rust = await world.rust();
  const leases = world.manager();
  await rust.ask('shared doc', 'granted');
  const reader = await leases.acquire('doc', { shared: true });
  assert.equal(await rust.ask('try doc', ''), 'busy');
  await rust.ask('release doc', 'Released');
  assert.equal(await rust.ask('try doc', ''), 'busy');
  await reader.release();
  await rust.ask('acquire doc', 'granted');
  assert.equal(await leases.tryAcquire('doc', { shared: true }), undefined);
});

test('a hundred leases are renewed together, in few commands', async (t) => {
  const world = World.of(t);
  const client = world.client(uri, { monitorCommands: true });
  const ttl = 6000;
  const leases = world.manager({ ttl }, client);
  const all = await Promise.all(Array.from({ length: 100 }, (_, i) => leases.acquire(`l${i}`)));
  let updates = 0;
  client.on('commandStarted', ({ commandName }) => (updates += Number(commandName === 'update')));
  // A renewal moves the end by a third of the ttl. The end itself is compared: what is left depends on when one looks.
  const endOf = (lease) => performance.now() + lease.remaining();
  const ends = all.map(endOf);
  const isRenewed = (lease, place) => endOf(lease) > ends[place] + ttl / 6;
  const renewed = new Set();
  while (renewed.size < all.length) {
    await new Promise((resolve) => client.once('commandSucceeded', resolve));
    await new Promise((resolve) => setImmediate(resolve));
    all.forEach((lease, place) => isRenewed(lease, place) && renewed.add(place));
    assert.ok(
      all.every((lease) => lease.isValid()),
      'one was not renewed',
    );
  }
  // One command has those that were granted within the slack of a renewal, and a slow machine takes longer to grant all.
  // Meanwhile the first ones are due again.
  const spread = Math.max(...ends) - Math.min(...ends);
  const most = (spread / (ttl / 48) + 2) * (spread / (ttl / 3) + 1) * 2;
  assert.ok(updates <= most, `${updates} commands for grants within ${spread} ms`);
});

test('with renew: false a lease ends by itself', async (t) => {
  const lease = await World.of(t).manager({ ttl: 400 }).acquire('short', { renew: false });
  assert.equal((await lossOf(lease)).reason, 'endedAsAsked');
});

test('a close releases all leases and ends all waits, and a second one does nothing', async (t) => {
  const world = World.of(t);
  const [here, other] = [world.manager(), world.manager()];
  await here.acquire('one');
  const two = await here.acquire('two');
  await other.acquire('three');
  const waiting = here.acquire('three');
  waiting.catch(() => undefined);
  await queueOf(world.db(), 'three', 1);
  const report = await here.close();
  assert.deepEqual(report, { released: 2, leftToExpire: [], commandsLeft: 0 });
  await assert.rejects(waiting, {
    code: 'SHUT_DOWN',
    message: 'the lease manager has been shut down',
  });
  await assert.rejects(here.acquire('four'), { code: 'SHUT_DOWN' });
  assert.equal(two.isValid(), false);
  assert.equal(two.signal.reason.reason, 'released');
  const left = await world.db().collection('locks').find({}).toArray();
  assert.deepEqual(
    left.map(({ name, queue }) => [name, (queue ?? []).length]),
    [['three', 0]],
  );
  assert.deepEqual(await here.close(), report);
});

test('after the close nothing keeps the process: no timer, no cursor, no session', async (t) => {
  const world = World.of(t);
  const program = `
    import { MongoClient } from 'mongodb';
    import { LeaseManager } from 'mongo-lease';
    const client = new MongoClient(${JSON.stringify(uri)}, { monitorCommands: true });
    const sent = [];
    client.on('commandStarted', ({ commandName }) => sent.push(commandName));
    const [a, b] = [1, 2].map(() => new LeaseManager(client.db(${JSON.stringify(world.name)}), { ensureIndexes: true }));
    const lease = await a.acquire('x');
    const next = b.acquire('x');
    // Once a stream is read.
    while (!sent.includes('getMore')) await a.get('x');
    await lease.release();
    await (await next).release();
    await a.acquire('y');
    await a.close();
    await b.close();
    const closed = sent.includes('killCursors') ? 'closed' : 'open';
    await client.close();
    console.log(closed, process.getActiveResourcesInfo().filter((it) => it === 'Timeout').length);
  `;
  const told = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
    cwd: new URL('..', import.meta.url),
    timeout: 60_000,
  });
  assert.equal(told.stderr.toString(), '');
  assert.equal(told.stdout.toString(), 'closed 0\n');
  assert.equal(told.status, 0);
});

test('names, states and holders are listed in order', async (t) => {
  const world = World.of(t);
  const leases = world.manager({ owner: 'lister' });
  for (const name of ['job:b', 'job:a', 'other']) await leases.acquire(name);
  await leases.acquire('job:c', { shared: true, metadata: { why: 'a test' } });
  const names = [];
  for await (const lease of leases.list({ glob: 'job:*' })) names.push(lease.name);
  assert.deepEqual(names, ['job:a', 'job:b', 'job:c']);
  const shared = await leases.get('job:c');
  assert.deepEqual([shared.shared, shared.holders[0].metadata], [true, { why: 'a test' }]);
  assert.equal(await leases.get('nobody'), undefined);
});

test('a lease that is renewed is not renewed again before a third of its ttl is over', async (t) => {
  const world = World.of(t);
  const client = world.client(uri, { monitorCommands: true });
  const ttl = 4000;
  // A renewal that is not answered in that time is repeated: then less is left, as it has prolonged nothing.
  const leases = world.manager({ ttl, attemptTimeout: 300 }, client);
  const lease = await leases.acquire('once');
  const left = [];
  await new Promise((resolve) => {
    client.on('commandStarted', ({ commandName }) => {
      if (commandName === 'update' && left.push(lease.remaining()) === 3) resolve();
    });
  });
  // A renewal may go out a little early, to share a command with others.
  const most = ttl - ttl / 3 + ttl / 48;
  assert.ok(
    left.every((it) => it <= most),
    `${left} of ${most} ms were left`,
  );
  await lease.release();
});
