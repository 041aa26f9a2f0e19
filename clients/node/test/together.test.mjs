// Jobs, sets, keys, events and campaigns on a server, beside a Rust process at the same names.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PATIENCE, World, lossOf, queueOf, within } from './help.mjs';

/** The first event that fits. */
async function heard(events, fits) {
  for await (const event of events) if (fits(event)) return event;
  throw new Error('the events have ended');
}

test('a job runs once over processes, and a Rust process finds its name kept', async (t) => {
  const world = World.of(t);
  const [one, other] = [world.manager(), world.manager()];
  const rust = await world.rust();
  // Longer than the test.
  const options = { atLeast: 3_600_000 };
  let runs = 0;
  const work = () => (runs += 1);
  const ends = await Promise.all(
    [one, other].map((leases) => leases.job('job', options).run(work)),
  );
  assert.deepEqual(ends.map(({ outcome }) => outcome).sort(), ['done', 'skipped']);
  assert.equal((await one.job('job', options).run(work)).outcome, 'skipped');
  assert.equal(await rust.ask('try job', ''), 'busy');
  assert.equal(runs, 1);
  // It is a reservation, which an operator can free.
  const { value } = await world.db().collection('locks').findOne({ name: 'job' });
  assert.match(value, /^released:/);
  assert.equal(await one.release('job', value), 'released');
  assert.equal(await rust.ask('try job', ''), 'granted');
});

test('ticks are those of the server, and each is run once', async (t) => {
  const world = World.of(t);
  const every = 250;
  const runs = [];
  const stop = new AbortController();
  const pods = [world.manager(), world.manager(), world.manager()];
  const { signal } = stop;
  const work = (lease, tick) => {
    runs.push([tick, lease.token]);
    if (runs.length === 8) stop.abort();
  };
  const all = pods.map((leases) => leases.job('job', { every }).start(work, { signal }));
  await Promise.all(all);
  const ticks = runs.map(([tick]) => tick);
  assert.equal(new Set(ticks).size, ticks.length);
  assert.deepEqual(
    ticks,
    [...ticks].sort((a, b) => a - b),
  );
  const { localTime } = await world.db().command({ hello: 1 });
  assert.ok(Math.abs(localTime.getTime() / every - ticks.at(-1)) < PATIENCE / every);
});

test('a set waits for a name that a Rust process holds, and excludes it from all', async (t) => {
  const world = World.of(t);
  const leases = world.manager();
  const rust = await world.rust();
  await rust.ask('acquire b', 'granted');
  const waiting = leases.acquireAll(['c', 'b', 'a'], { wait: 60_000 });
  await queueOf(world.db(), 'b', 1);
  await rust.ask('release b', 'Released');
  const set = await waiting;
  assert.deepEqual(
    [...set].map(({ name }) => name),
    ['a', 'b', 'c'],
  );
  for (const name of ['a', 'b', 'c']) assert.equal(await rust.ask(`try ${name}`, ''), 'busy');
  const loss = lossOf(set);
  assert.equal(await leases.release('b', set.get('b').value), 'released');
  await assert.rejects(set.get('b').renew(), { code: 'LOST' });
  assert.equal((await loss).reason, 'removed');
  assert.equal(await set.release(), 'notHeld');
  for (const name of ['a', 'b', 'c']) assert.equal(await rust.ask(`try ${name}`, ''), 'granted');
});

test('a lease goes from Node to a Rust process and back, by its key', async (t) => {
  const world = World.of(t);
  const leases = world.manager();
  const rust = await world.rust();
  const lease = await leases.acquire('order');
  const { token } = lease;
  const key = JSON.stringify(await lease.detach());
  assert.equal(await rust.ask('try order', ''), 'busy');
  assert.equal(await rust.ask(`resume ${key}`, 'granted'), `granted order ${token}`);
  await assert.rejects(leases.resume(JSON.parse(key)), { code: 'LOST', reason: 'resumed' });
  const back = JSON.parse(await rust.ask('detach order', '{'));
  const resumed = await leases.resume(back);
  assert.equal(resumed.token, token);
  await resumed.renew();
  await rust.ask('wait order', 'queued');
  assert.equal(await resumed.release(), 'released');
  await rust.line((line) => line.startsWith('granted order'));
});

test('two calls with one own value are one holder, and each is told so', async (t) => {
  const world = World.of(t);
  const [one, other] = [world.manager(), world.manager()];
  const first = await one.acquire('a', { value: 'mine' });
  const second = await other.acquire('a', { value: 'mine', wait: 0 });
  assert.deepEqual([first.isGrantedAgain, second.isGrantedAgain], [false, true]);
  assert.ok(second.token > first.token);
  assert.equal(await second.release(), 'released');
  await assert.rejects(first.renew(), { code: 'LOST', reason: 'removed' });
});

test('events tell of a queue, a stream and a grant', async (t) => {
  const world = World.of(t);
  const leases = world.manager();
  const rust = await world.rust();
  await rust.ask('acquire a', 'granted');
  const [queued, watching, granted] = [leases.events(), leases.events(), leases.events()];
  const waiting = leases.acquire('a', { wait: 60_000 });
  assert.deepEqual(await heard(queued, ({ event }) => event === 'queued'), {
    event: 'queued',
    name: 'a',
    ahead: 0,
  });
  await heard(watching, ({ event }) => event === 'watching');
  await rust.ask('release a', 'Released');
  const { token } = await heard(granted, ({ event }) => event === 'granted');
  assert.equal(token, String((await waiting).token));
});

test('a leader steps down for a Rust process that waits, and is told before its lease ends', async (t) => {
  const world = World.of(t);
  const leases = world.manager();
  const rust = await world.rust();
  const leadership = await leases.campaign('leader', { metadata: { at: 'here' } });
  assert.deepEqual((await leases.get('leader')).metadata, { at: 'here' });
  await rust.ask('wait leader', 'queued');
  const run = leadership.run(async ({ signal }) => {
    const told = new Promise((resolve) =>
      signal.addEventListener('abort', resolve, { once: true }),
    );
    leadership.stepDown();
    await told;
    return leadership.stopReason;
  });
  assert.equal(await run, 'asked');
  await rust.line((line) => line.startsWith('granted leader'));
  // And the other way round.
  const next = leases.campaign('leader');
  await queueOf(world.db(), 'leader', 1);
  await rust.ask('release leader', 'Released');
  const won = await within(PATIENCE, next);
  assert.ok(won.lease.isValid());
  await won.release();
});

test('a transaction that guards each lease of a set commits only while all are held', async (t) => {
  const world = World.of(t);
  const client = world.client();
  const papers = world.db(client).collection('papers');
  await world.db(client).createCollection('papers');
  const accounts = await world.manager({}, client).acquireAll(['account:7', 'account:3']);
  const transfer = () =>
    client.withSession((session) =>
      session.withTransaction(async () => {
        for (const lease of accounts) await lease.guard(session);
        await papers.insertOne({ to: 'account:3' }, { session });
      }),
    );
  await transfer();
  assert.equal(await papers.countDocuments(), 1);
  // Its holder has not heard of it, and still believes in both.
  const { value } = accounts.get('account:7');
  assert.equal(await world.manager().release('account:7', value), 'released');
  await assert.rejects(transfer(), { code: 'LOST' });
  assert.equal(await papers.countDocuments(), 1);
});
