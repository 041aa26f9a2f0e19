// The main promises, beside Rust processes at the same names.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LeaseLostError } from '../index.mjs';
import { World, queueOf } from './help.mjs';
import { Proxy } from './proxy.mjs';

/** The entries of a collection into which each holder writes as it begins and ends: two at once are found. */
function findOverlap(events) {
  let holder;
  for (const { who, what } of events) {
    if (what === 'begin') {
      if (holder !== undefined) return `${who} began while ${holder} held`;
      holder = who;
    } else if (holder === who) holder = undefined;
  }
  return undefined;
}

async function contest(world, hold) {
  const events = [];
  const managers = [1, 2, 3].map(() => world.manager());
  const counter = world.db().collection('counter');
  await counter.insertOne({ _id: 1, count: 0 });
  const work = async (who, leases) => {
    for (let round = 0; round < 12; round += 1) {
      await hold(leases, async () => {
        events.push({ who, what: 'begin' });
        // To read and write back loses a write where two hold at once.
        const { count } = await counter.findOne({ _id: 1 });
        await counter.updateOne({ _id: 1 }, { $set: { count: count + 1 } });
        events.push({ who, what: 'end' });
      });
    }
  };
  const tasks = managers.flatMap((leases, place) => [
    work(`${place}a`, leases),
    work(`${place}b`, leases),
  ]);
  await Promise.all(tasks);
  const { count } = await counter.findOne({ _id: 1 });
  return { overlap: findOverlap(events), lost: tasks.length * 12 - count };
}

test('of six tasks in three managers, one holds at a time', async (t) => {
  const found = await contest(World.of(t), (leases, work) => leases.withLease('one', work));
  assert.deepEqual(found, { overlap: undefined, lost: 0 });
});

test('control: the contest finds holders without a lease', async (t) => {
  const { overlap } = await contest(World.of(t), (_, work) => work());
  assert.match(overlap, /began while/);
});

test('a Rust process and this one exclude each other, and their tokens are in one order', async (t) => {
  const world = World.of(t);
  const rust = await world.rust();
  const leases = world.manager();
  let last = 0n;
  for (let round = 0; round < 10; round += 1) {
    const lease = await leases.acquire('both');
    assert.ok(lease.token > last);
    last = lease.token;
    assert.equal(await rust.ask('try both', ''), 'busy');
    assert.equal(await lease.release(), 'released');
    const [, , token] = (await rust.ask('acquire both', 'granted')).split(' ');
    assert.ok(BigInt(token) > last);
    last = BigInt(token);
    assert.equal(await leases.tryAcquire('both'), undefined);
    await rust.ask('release both', 'Released');
  }
});

test('200 tokens rise over deletions', async (t) => {
  const leases = World.of(t).manager();
  let last = 0n;
  for (let round = 0; round < 200; round += 1) {
    const lease = await leases.acquire('again');
    assert.ok(lease.token > last);
    last = lease.token;
    await lease.release();
  }
});

test('waiting processes are served in the order in which they came, Rust and Node alike', async (t) => {
  const world = World.of(t);
  const [first, second, third] = [world.manager(), world.manager(), world.manager()];
  const rust = await world.rust();
  const db = world.db();
  const order = [];
  const holder = await first.acquire('line');
  const waitHere = async (leases, who) => {
    const lease = await leases.acquire('line', { wait: 60_000 });
    order.push([who, lease.token]);
    return lease;
  };
  const one = waitHere(second, 'node 1');
  await queueOf(db, 'line', 1);
  await rust.ask('wait line', 'queued');
  await queueOf(db, 'line', 2);
  const two = waitHere(third, 'node 2');
  await queueOf(db, 'line', 3);
  await holder.release();
  await (await one).release();
  const [, , token] = (await rust.line((line) => line.startsWith('granted line'))).split(' ');
  order.push(['rust', BigInt(token)]);
  await rust.ask('release line', 'Released');
  await (await two).release();
  assert.deepEqual(
    order.map(([who]) => who),
    ['node 1', 'rust', 'node 2'],
  );
  const tokens = order.map(([, it]) => it);
  assert.ok(tokens[0] < tokens[1] && tokens[1] < tokens[2]);
});

test('a holder is told of its loss before another one can hold, although nothing comes through', async (t) => {
  const world = World.of(t);
  const proxy = await Proxy.start(world);
  const cut = world.manager({ ttl: 1500, shutdownTimeout: 500 }, world.client(proxy.uri));
  const other = world.manager();
  await other.ready();
  const lease = await cut.acquire('cut');
  const told = new Promise((resolve) => {
    lease.signal.addEventListener('abort', () => resolve(performance.now()));
  });
  const { token } = lease;
  proxy.standStill();
  const next = await other.acquire('cut', { wait: 30_000 });
  const grantedAt = performance.now();
  assert.ok((await told) < grantedAt, 'told after the next grant');
  assert.equal(lease.isValid(), false);
  assert.ok(lease.signal.reason instanceof LeaseLostError);
  assert.equal(lease.signal.reason.reason, 'outOfReach');
  assert.throws(() => lease.token, { code: 'LOST' });
  assert.ok(next.token > token);
  proxy.goOn();
});

test('a blocked event loop fires no timer: isValid reads the clock', async (t) => {
  const leases = World.of(t).manager({ ttl: 300 });
  const lease = await leases.acquire('blocked');
  let isTold = false;
  lease.signal.addEventListener('abort', () => (isTold = true));
  const until = performance.now() + 400;
  while (performance.now() < until);
  // The control: whoever relies on the timer alone believes in a lease that is over.
  assert.equal(isTold, false);
  assert.equal(lease.isValid(), false);
  assert.throws(() => lease.token, LeaseLostError);
  assert.equal(isTold, true);
});

test('a lease that is taken over is lost at its next renewal', async (t) => {
  const world = World.of(t);
  const leases = world.manager({ ttl: 900 });
  const lease = await leases.acquire('taken');
  const lost = new Promise((resolve) => {
    lease.signal.addEventListener('abort', () => resolve(lease.signal.reason));
  });
  const foreign = { $set: { value: 'foreign', expiresAt: new Date(Date.now() + 60_000) } };
  await world.db().collection('locks').updateOne({ name: 'taken' }, foreign);
  const error = await lost;
  assert.equal(error.reason, 'takenOver');
  assert.match(error.message, /^lease "taken" is lost: another program has taken it over$/);
  assert.equal(await lease.release(), 'notHeld');
});
