// Many calls at once leave the event loop time for everything else, and keep their order.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { BSON } from 'mongodb';
import { inMemory } from '../index.mjs';

const require = createRequire(import.meta.url);
const { Turns } = require('../dist/turns.js');

const turnOfLoop = () => new Promise((resolve) => setImmediate(resolve));

/** A store in memory that notes which commands are sent. */
function noting() {
  const store = inMemory();
  const sent = [];
  const { carryOut } = store;
  store.carryOut = (command, ...told) => {
    sent.push(Object.keys(BSON.deserialize(command.build('locks', 0)))[0]);
    return carryOut.call(store, command, ...told);
  };
  return { store, sent };
}

/**
 * How much of what `count` counts comes at first, and at the most in one turn of the event loop after that, until the
 * work is over.
 */
async function paceOf(count, work) {
  let isOver = false;
  const end = () => (isOver = true);
  work.then(end, end);
  let before = count();
  await turnOfLoop();
  const first = count() - before;
  let most = 0;
  before = count();
  while (!isOver) {
    await turnOfLoop();
    most = Math.max(most, count() - before);
    before = count();
  }
  return [first, most];
}

test('fifty go on at once and fifty in each turn, in their order, and few ask for no turn', async () => {
  const asked = [];
  const turns = new Turns({ soon: (callback) => asked.push(callback) });
  const gone = [];
  const enter = (number) => {
    const turn = turns.next();
    if (turn) void turn.then(() => gone.push(number));
    else gone.push(number);
  };
  for (let number = 0; number < 49; number += 1) enter(number);
  assert.deepEqual([gone.length, asked.length], [49, 0]);
  for (let number = 49; number < 130; number += 1) enter(number);
  assert.deepEqual([gone.length, asked.length], [50, 1]);
  asked[0]();
  await turnOfLoop();
  // One that comes now is behind those that wait.
  enter(130);
  assert.deepEqual([gone.length, asked.length], [100, 2]);
  asked[1]();
  await turnOfLoop();
  assert.deepEqual([gone.length, asked.length], [131, 2]);
  assert.deepEqual(
    gone,
    Array.from({ length: 131 }, (_, number) => number),
  );
  enter(131);
  assert.equal(gone.length, 132);
});

for (const count of [10, 1000, 10_000]) {
  test(`${count} acquires, tries and releases at once begin over turns of the loop`, async () => {
    const { store, sent } = noting();
    // The slots hold nothing back here.
    const leases = store.manager({ maxInFlight: 10_000 });
    await leases.ready();
    const all = Array.from({ length: count }, (_, number) => number);
    // Fifty at once, and those of the next turn.
    const pace = [Math.min(count, 100), count > 100 ? 50 : 0];
    for (const method of ['acquire', 'tryAcquire']) {
      const acquiring = Promise.all(all.map((number) => leases[method](`job ${number}`)));
      assert.deepEqual(await paceOf(() => sent.length, acquiring), pace);
      const held = await acquiring;
      const releasing = Promise.all(held.map((lease) => lease.release()));
      // Nobody believes in them from the calls on.
      assert.ok(held.every((lease) => !lease.isValid()));
      assert.deepEqual(await paceOf(() => sent.length, releasing), pace);
      assert.ok((await releasing).every((released) => released === 'released'));
    }
    const held = await Promise.all(all.map((number) => leases.acquire(`job ${number}`)));
    const closing = leases.close();
    assert.ok(held.every((lease) => !lease.isValid()));
    assert.deepEqual(await paceOf(() => sent.length, closing), pace);
    assert.equal((await closing).released, count);
  });
}

test('1,000 calls whose time is over at once are told over turns of the loop', async () => {
  const store = inMemory();
  const leases = store.manager();
  await leases.acquire('job');
  let told = 0;
  const waiting = Array.from({ length: 1000 }, () =>
    leases.acquire('job', { wait: 500 }).catch((error) => {
      told += 1;
      return error.code;
    }),
  );
  const all = Promise.all(waiting);
  void store.advance(500);
  const [first, most] = await paceOf(() => told, all);
  assert.ok(first <= 100 && most === 50, `${first} at first, then ${most}`);
  assert.deepEqual(new Set(await all), new Set(['WAIT_TIMEOUT']));
});

test('calls for one name are granted in the order of the calls', async () => {
  const store = inMemory();
  const leases = store.manager();
  await leases.ready();
  const order = [];
  const calls = Array.from({ length: 300 }, async (_, number) => {
    const metadata = number % 7 === 0 ? { number } : undefined;
    const lease = await leases.acquire('job', { metadata });
    order.push(number);
    await lease.release();
  });
  await Promise.all(calls);
  assert.deepEqual(
    order,
    Array.from({ length: 300 }, (_, number) => number),
  );
});

test('a call counts from when it was made: its options, its signal, and its time', async () => {
  const store = inMemory();
  const leases = store.manager();
  await leases.ready();
  const others = Array.from({ length: 200 }, (_, number) => leases.acquire(`other ${number}`));
  const metadata = { by: 'me' };
  const options = { metadata, wait: 1000 };
  const calling = leases.acquire('job', options);
  metadata.by = 'somebody else';
  options.metadata = { by: 'nobody' };
  const gone = new AbortController();
  const aborted = leases.acquire('job', { signal: gone.signal });
  gone.abort(new Error('gone'));
  const wrong = leases.acquire('\0', { ttl: 1 });
  const lease = await calling;
  assert.deepEqual((await leases.get('job')).metadata, { by: 'me' });
  await assert.rejects(aborted, /^Error: gone$/);
  await assert.rejects(wrong, { code: 'INVALID_NAME' });
  await lease.release();
  await Promise.all(others);
  // Time passes before the turn of most of them comes: they have had it.
  const held = await leases.acquire('job');
  const late = Array.from({ length: 200 }, () => leases.acquire('job', { wait: 1000 }));
  store.clock.micros += 1e6;
  for (const { reason } of await Promise.allSettled(late))
    assert.match(reason.message, /within 1s/);
  await held.release();
});

test('calls whose turn comes after a close are told of it', async () => {
  const leases = inMemory().manager();
  await leases.ready();
  const calls = Array.from({ length: 200 }, (_, number) => leases.acquire(`job ${number}`));
  const closing = leases.close();
  const all = await Promise.allSettled(calls);
  const told = all.filter(({ reason }) => reason?.code === 'SHUT_DOWN').length;
  assert.ok(told >= 150, `${told}`);
  await closing;
});

/** The commands of this work. */
async function commandsOf(sent, work) {
  sent.length = 0;
  await work();
  return [...sent];
}

test('a holder that knows of waiters hands off with one write', async () => {
  const { store, sent } = noting();
  const [leases, others] = [store.manager(), store.manager()];
  const alone = await leases.acquire('job');
  assert.deepEqual(await commandsOf(sent, () => alone.release()), ['delete']);

  // A call of this process has told it.
  const first = await leases.acquire('job');
  const second = leases.acquire('job');
  await store.advance(0);
  assert.deepEqual(await commandsOf(sent, () => first.release()), ['update']);
  const promoted = await second;

  // It has looked, at a call of another process.
  const third = others.acquire('job');
  await store.advance(0);
  await promoted.release();
  const holder = await third;
  const fourth = leases.acquire('job');
  await store.advance(0);
  assert.equal((await others.get('job')).waiting, 1);
  assert.deepEqual(await commandsOf(sent, () => holder.release()), ['update']);
  await (await fourth).release();

  // What it knew of one lease is not believed of the next: nor what a call has seen that gave up.
  const held = await others.acquire('job');
  const waiting = assert.rejects(leases.acquire('job', { wait: 100 }), { code: 'WAIT_TIMEOUT' });
  await store.advance(100);
  await waiting;
  await held.release();
  const next = await leases.acquire('job');
  assert.deepEqual(await commandsOf(sent, () => next.release()), ['delete']);
});

test('a holder that knows of no waiter, or of one that has gone, finds the other command', async () => {
  const { store, sent } = noting();
  const [leases, others] = [store.manager(), store.manager()];
  const holder = await leases.acquire('job');
  const waiting = others.acquire('job');
  await store.advance(0);
  const unknown = await commandsOf(sent, () => holder.release());
  assert.deepEqual(unknown.slice(0, 2), ['delete', 'update']);
  await (await waiting).release();

  const again = await leases.acquire('job');
  const gone = new AbortController();
  const leaving = leases.acquire('job', { signal: gone.signal });
  await store.advance(0);
  gone.abort();
  await assert.rejects(leaving);
  await store.advance(0);
  assert.deepEqual(await commandsOf(sent, () => again.release()), ['update', 'delete']);
});

test('a call that was promoted goes on before the next read of the stream is sent', async () => {
  const store = inMemory();
  const [leases, others] = [store.manager(), store.manager()];
  const order = [];
  const { backend } = others.engine.runner;
  const { watch } = backend;
  backend.watch = async (...told) => {
    const stream = await watch.apply(backend, told);
    const next = () => {
      order.push('read');
      return stream.next();
    };
    return { next, close: () => stream.close() };
  };
  const first = await leases.acquire('job');
  const second = others.acquire('job').then(() => order.push('granted'));
  // Its stream is open, and reads.
  await store.advance(1000);
  order.length = 0;
  await first.release();
  await second;
  await turnOfLoop();
  await turnOfLoop();
  assert.deepEqual(order.slice(0, 2), ['granted', 'read']);
});
