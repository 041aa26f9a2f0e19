// Every call ends by its own bound, and no clean-up delays news: in memory, by the store's clock, with exact times.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inMemory } from '../index.mjs';

/** Moves the clock until the promise has settled. Returns the milliseconds that took, with its value or its error. */
async function timed(store, promise, step = 10, most = 60_000) {
  let ended;
  promise.then(
    (value) => (ended = { value }),
    (error) => (ended = { error }),
  );
  const started = store.now();
  await store.advance(0);
  while (!ended && store.now() - started < most) await store.advance(step);
  return { after: store.now() - started, ...ended };
}

/** A lease of a store that hangs from then on, until its validity is over. */
async function lostWhileHanging(options) {
  const store = inMemory();
  const leases = store.manager(options);
  const lease = await leases.acquire('x', { ttl: 1000, renew: false });
  store.hang();
  return { store, leases, lease };
}

test('`withLease` tells a loss at once while the server hangs, and releases behind', async () => {
  const store = inMemory();
  const leases = store.manager();
  await leases.ready();
  const work = leases.withLease(
    'x',
    async () => {
      store.hang();
      await new Promise(() => undefined);
    },
    { ttl: 1000, renew: false },
  );
  const { after, error } = await timed(store, work);
  assert.deepEqual([after, error?.code, error?.reason], [990, 'LOST', 'endedAsAsked']);
  store.goOn();
  await store.advance(0);
  assert.equal(await leases.get('x'), undefined);
});

test('`withLease` waits for the release of a lease that is held', async () => {
  const store = inMemory();
  const leases = store.manager({ releaseTimeout: 3000 });
  await leases.ready();
  const work = leases.withLease('x', () => store.hang(), { ttl: 60_000 });
  const { after, value, error } = await timed(store, work);
  assert.deepEqual([after, value, error], [3000, undefined, undefined]);
  store.goOn();
});

test('the release of a lost lease takes a second at most, and goes on behind', async () => {
  const { store, leases, lease } = await lostWhileHanging();
  await store.advance(1000);
  assert.equal(lease.isValid(), false);
  const { after, error } = await timed(store, lease.release());
  assert.deepEqual([after, error?.code, error?.isTransient], [1000, 'UNKNOWN', true]);
  store.goOn();
  await store.advance(0);
  assert.equal(await leases.get('x'), undefined);
});

test('control: the release of a valid lease has its `releaseTimeout`', async () => {
  const { store, lease } = await lostWhileHanging();
  const { after, error } = await timed(store, lease.release());
  assert.deepEqual([after, error?.code], [10_000, 'UNKNOWN']);
  store.goOn();
});

test('a close has its `shutdownTimeout` for the leases that it ends', async () => {
  const { store, leases } = await lostWhileHanging({ shutdownTimeout: 4000 });
  const { after, value } = await timed(store, leases.close());
  const commandsLeft = value.commandsLeft > 0;
  assert.deepEqual([after, value.leftToExpire, commandsLeft], [4000, ['x'], true]);
  store.goOn();
});

test('work that has released its lease keeps its result', async () => {
  const leases = inMemory().manager();
  const result = await leases.withLease('x', async (lease) => {
    await lease.release();
    return 'done';
  });
  assert.equal(result, 'done');
});

test('work whose lease was over when it released it is told so', async () => {
  const store = inMemory();
  const leases = store.manager();
  const work = leases.withLease(
    'x',
    async (lease) => {
      await store.advance(1000);
      await lease.release();
    },
    { ttl: 1000, renew: false },
  );
  await assert.rejects(work, { code: 'LOST', reason: 'endedAsAsked' });
});

test('work whose manager is closed is told so', async () => {
  const leases = inMemory().manager();
  const work = leases.withLease('x', async () => {
    await leases.close();
    return 'done';
  });
  await assert.rejects(work, { code: 'LOST', reason: 'released' });
});

/** A manager whose store hangs before its first call. */
function away() {
  const store = inMemory();
  store.hang();
  return { store, leases: store.manager() };
}

test('the first call ends by its wait, although the server does not answer', async () => {
  const { store, leases } = away();
  const { after, error } = await timed(store, leases.acquire('x', { wait: 500 }));
  assert.deepEqual([after, error?.code, error?.isTransient], [500, 'WAIT_TIMEOUT', true]);
  assert.match(
    error.message,
    /^lease "x" was not granted within 500ms; the database did not answer/,
  );
});

test('the first call ends with its signal', async () => {
  const { store, leases } = away();
  const stop = new AbortController();
  const calls = [
    leases.acquire('x', { signal: stop.signal }),
    leases.tryAcquire('x', { signal: stop.signal }),
  ];
  const settled = Promise.allSettled(calls);
  await store.advance(300);
  const reason = new Error('no longer needed');
  stop.abort(reason);
  const { after, value } = await timed(store, settled);
  assert.deepEqual([after, ...value.map((each) => each.reason)], [0, reason, reason]);
});

test('the first attempt, query and check have bounds of their own', async () => {
  const found = [];
  for (const call of [
    (leases) => leases.tryAcquire('x'),
    (leases) => leases.get('x'),
    (leases) => leases.list().next(),
    (leases) => leases.ready(),
  ]) {
    const { store, leases } = away();
    const { after, error } = await timed(store, call(leases), 100);
    found.push([after, error?.code, error?.isTransient]);
  }
  const bounded = [10_000, 'UNKNOWN', true];
  assert.deepEqual(found, [bounded, bounded, bounded, [35_000, 'UNKNOWN', true]]);
});

test('a close ends the first calls at once, and waits for no answer', async () => {
  const { store, leases } = away();
  const calls = [leases.acquire('x'), leases.tryAcquire('y'), leases.get('z'), leases.ready()];
  const settled = Promise.allSettled(calls);
  await store.advance(300);
  const { after, value } = await timed(store, leases.close());
  assert.deepEqual([after, value], [0, { released: 0, leftToExpire: [], commandsLeft: 0 }]);
  const codes = (await settled).map(({ reason }) => reason?.code);
  assert.deepEqual(codes, ['SHUT_DOWN', 'SHUT_DOWN', 'SHUT_DOWN', 'SHUT_DOWN']);
});

test('after a first call that was given up, the next one is served', async () => {
  const { store, leases } = away();
  const { error } = await timed(store, leases.acquire('x', { wait: 500 }));
  assert.equal(error.code, 'WAIT_TIMEOUT');
  store.goOn();
  const { value } = await timed(store, leases.acquire('x', { wait: 500 }));
  assert.equal(value?.isValid(), true);
});

test('of 10,000 calls at once, those that were not sent say so', async () => {
  const store = inMemory();
  const leases = store.manager({ maxInFlight: 40 });
  await leases.ready();
  store.hang();
  let sent = 0;
  const { untilAwake } = store;
  store.untilAwake = () => {
    sent += 1;
    return untilAwake.call(store);
  };
  const calls = Array.from({ length: 10_000 }, (_, i) =>
    leases.acquire(`call ${i}`, { wait: 500 }),
  );
  const settled = Promise.allSettled(calls);
  await store.advance(500);
  const texts = new Map();
  for (const { reason } of await settled) {
    // What else a silence may mean is of no interest here.
    const message = reason?.message
      .replace(/"call \d+"/, 'NAME')
      .replace(/(not answer in time).*/, '$1');
    const text = `${reason?.code}: ${message}`;
    texts.set(text, (texts.get(text) ?? 0) + 1);
  }
  const begin = 'WAIT_TIMEOUT: lease NAME was not granted within 500ms; ';
  const waited =
    'the call waited in its own process until its time was over, because the process starts more ' +
    'calls than the database carries out; it sent nothing';
  const silent =
    'the database did not answer; the last error: the outcome is ' +
    'unknown: the database did not answer in time';
  assert.ok(sent > 1 && sent <= 40, `${sent} were sent`);
  assert.deepEqual(
    [...texts].sort(),
    [
      [begin + silent, sent],
      [begin + waited, 10_000 - sent],
    ].sort(),
  );
  store.goOn();
});
