// Many calls at once: no more commands go out than there are slots, and what keeps a lease does not wait for them.

import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { PATIENCE, World, within } from './help.mjs';
import { Proxy } from './proxy.mjs';

const { Fifo } = createRequire(import.meta.url)('../dist/fifo.js');

// On a slow machine a thousand calls take long, and an attempt that is repeated counts twice.
const SLOW = { attemptTimeout: 15_000, wait: 300_000, releaseTimeout: 300_000 };

/** Counts the commands of a client that are under way. */
function watch(client, names) {
  const seen = { underWay: 0, most: 0, sent: 0 };
  client.on('commandStarted', ({ commandName }) => {
    if (!names.includes(commandName)) return;
    seen.sent += 1;
    seen.underWay += 1;
    seen.most = Math.max(seen.most, seen.underWay);
  });
  const over = ({ commandName }) => (seen.underWay -= Number(names.includes(commandName)));
  client.on('commandSucceeded', over).on('commandFailed', over);
  return seen;
}

test('of a thousand calls, as many are under way as there are slots, and each is sent once', async (t) => {
  const world = World.of(t);
  const client = world.client(undefined, { monitorCommands: true });
  const leases = world.manager({ maxInFlight: 8, ...SLOW }, client);
  await leases.ready();
  const seen = watch(client, ['findAndModify', 'delete']);
  const calls = Array.from({ length: 1000 }, async (_, number) => {
    const lease = await leases.acquire(`call ${number}`);
    assert.equal(await lease.release(), 'released');
  });
  await Promise.all(calls);
  assert.ok(seen.most <= 8, `${seen.most} were under way`);
  assert.ok(seen.most > 4, `only ${seen.most} were under way`);
  assert.equal(seen.sent, 2000);
});

test('by default as many are under way as the pool has connections beside that of the stream', async (t) => {
  const world = World.of(t);
  const client = world.client(undefined, { monitorCommands: true, maxPoolSize: 5 });
  const leases = world.manager(SLOW, client);
  await leases.ready();
  const seen = watch(client, ['findAndModify', 'delete']);
  const calls = Array.from({ length: 200 }, async (_, number) => {
    await (await leases.acquire(`call ${number}`)).release();
  });
  await Promise.all(calls);
  assert.ok(seen.most > 1 && seen.most <= 4, `${seen.most} were under way`);
});

/** Releases while a second read of the stream has the last connection. Returns whether there was such a read. */
async function releasesDuringRead(world, name) {
  const lease = await world.manager().acquire(name);
  const client = world.client(undefined, { monitorCommands: true, maxPoolSize: 2 });
  const leases = world.manager({}, client);
  await leases.ready();
  let [waits, reads, ends, silent] = [0, 0, 0, 0];
  const changed = new EventEmitter();
  const count = (name, counted) =>
    client.on(name, (event) => {
      counted(event);
      changed.emit('seen');
    });
  count('connectionCheckOutStarted', () => (waits += 1));
  count('connectionCheckedOut', () => (waits -= 1));
  count('connectionCheckOutFailed', () => (waits -= 1));
  count('commandStarted', ({ commandName }) => {
    reads += Number(commandName === 'getMore');
    ends += Number(commandName === 'killCursors');
  });
  // A read that has nothing to tell takes the server's 10 s.
  count(
    'commandSucceeded',
    ({ commandName, duration }) => (silent += Number(commandName === 'getMore' && duration > 9000)),
  );
  const until = async (isSo) => {
    while (!isSo()) await once(changed, 'seen');
  };
  // It has one of the connections from now on.
  const foreign = world.db(client).collection('foreign').watch([], { maxAwaitTimeMS: 60_000 });
  foreign.tryNext().catch(() => undefined);
  await until(() => reads === 1);
  const waiting = leases.acquire(name);
  // The manager's stream has the other one, and its ping waits.
  await until(() => reads === 2 && waits === 1);
  // The event gives the connection to the ping, and the next read takes it for 10 s.
  await lease.release();
  const granted = await waiting;
  // On a busy machine the ping has failed before that, and the stream is closed already.
  await until(() => reads === 3 || ends > 0);
  const isReadAgain = ends === 0;
  assert.equal(await granted.release(), 'released');
  assert.equal(silent, 0, 'the release has waited for the read');
  await foreign.close();
  return isReadAgain;
}

test('a read of the change stream holds up nobody, although the ping before it passed', async (t) => {
  const world = World.of(t);
  let tries = 0;
  while (!(await releasesDuringRead(world, `try ${tries}`))) tries += 1;
});

test('while nothing is answered little is sent, and all waits end by their deadlines', async (t) => {
  const world = World.of(t);
  const proxy = await Proxy.start(world);
  const client = world.client(proxy.uri, { monitorCommands: true });
  const leases = world.manager({ maxInFlight: 8, ttl: 1000 }, client);
  await leases.ready();
  const seen = watch(client, ['findAndModify']);
  proxy.standStill();
  // Four attempts would fit into each wait.
  const calls = Array.from({ length: 1000 }, (_, number) =>
    leases.acquire(`call ${number}`, { wait: 2000 }),
  );
  const ended = await within(20_000, Promise.allSettled(calls));
  assert.ok(
    ended?.every(({ reason }) => reason?.code === 'WAIT_TIMEOUT'),
    'a wait has not ended',
  );
  assert.ok(seen.sent <= 8, `${seen.sent} were sent`);
  proxy.goOn();
  // What was sent is answered now, and given back; the next call finds a slot.
  const lease = await leases.acquire('after');
  await lease.release();
  await leases.close();
  const locks = world.db().collection('locks');
  assert.equal(await locks.countDocuments(), 0);
});

test('renewals and releases do not wait for acquires that hang', async (t) => {
  const world = World.of(t);
  const proxy = await Proxy.start(world);
  // What hangs does so for 30 s, in attempts of which each may have half of that.
  const leases = world.manager({ maxInFlight: 4, attemptTimeout: 15_000 }, world.client(proxy.uri));
  const held = await leases.acquire('held');
  // A transaction of another program blocks this lease.
  await world
    .db()
    .collection('locks')
    .insertOne({ name: 'blocked', value: 'x', expiresAt: new Date(0) });
  const client = world.client();
  const session = client.startSession();
  session.startTransaction();
  await world
    .db(client)
    .collection('locks')
    .updateOne({ name: 'blocked' }, { $set: { x: 1 } }, { session });
  const hanging = Array.from({ length: 200 }, () =>
    leases.tryAcquire('blocked').catch((error) => error),
  );
  const renewed = await within(
    PATIENCE,
    held.renew().then(() => 'renewed'),
  );
  const released = await within(PATIENCE, held.release());
  await session.abortTransaction();
  await session.endSession();
  await Promise.all(hanging);
  assert.deepEqual([renewed, released], ['renewed', 'released']);
});

test('one slot is enough for everything: a wait, a renewal and a hand-off', async (t) => {
  const world = World.of(t);
  const [one, other] = [world.manager({ maxInFlight: 1 }), world.manager({ maxInFlight: 1 })];
  const first = await one.acquire('a', { ttl: 6000 });
  const waiting = other.acquire('a', { ttl: 6000 });
  await first.renew();
  await first.release();
  const second = await waiting;
  await second.renew();
  assert.equal(await second.release(), 'released');
});

test('what waits when the manager closes is refused, and nothing of it is sent', async (t) => {
  const world = World.of(t);
  const client = world.client(undefined, { monitorCommands: true });
  const leases = world.manager({ maxInFlight: 4 }, client);
  await leases.ready();
  const seen = watch(client, ['findAndModify']);
  const calls = Array.from({ length: 500 }, (_, number) => leases.tryAcquire(`call ${number}`));
  const settled = Promise.allSettled(calls);
  await leases.close();
  const ended = await settled;
  assert.ok(ended.filter(({ reason }) => reason?.code === 'SHUT_DOWN').length > 400);
  assert.ok(seen.sent < 100, `${seen.sent} were sent`);
  assert.equal(await world.db().collection('locks').countDocuments(), 0);
});

test('a queue of a hundred thousand is left from everywhere, at the same cost for each', () => {
  const queue = new Fifo();
  const members = Array.from({ length: 100_000 }, (_, number) => ({ number, hasLeft: false }));
  members.forEach((member) => queue.push(member));
  // All but every hundredth leave.
  members.forEach((member) => (member.hasLeft = member.number % 100 !== 0));
  const order = [];
  for (let next = queue.shift(); next; next = queue.shift()) order.push(next.number);
  assert.deepEqual(
    order,
    Array.from({ length: 1000 }, (_, number) => number * 100),
  );
  // Those that have left do not pile up, although nobody is taken out.
  for (let round = 0; round < 10_000; round += 1) {
    const member = { hasLeft: false };
    queue.push(member);
    member.hasLeft = true;
  }
  assert.ok(queue.members.length <= 64);
});
