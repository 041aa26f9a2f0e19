// Elections: one leader, whose work stops before its lease ends. In the store's own time.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inspect } from 'node:util';
import { inMemory } from '../index.mjs';

const NAME = 'leader';
const forever = () => new Promise(() => undefined);
const untilTold = ({ signal }) =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });

test('of five one leads at a time, and each comes to lead', async () => {
  const store = inMemory();
  let leading = 0;
  const tokens = [];
  const nodes = Array.from({ length: 5 }, async () => {
    const leadership = await store.manager().campaign(NAME);
    await leadership.run(async ({ lease }) => {
      leading += 1;
      assert.equal(leading, 1);
      await lease.renew();
      tokens.push(lease.token);
      leading -= 1;
    });
  });
  let done = false;
  const all = Promise.all(nodes).then(() => (done = true));
  for (let second = 0; !done && second < 600; second += 1) await store.advance(1000);
  await all;
  assert.equal(new Set(tokens).size, 5);
  assert.deepEqual(
    tokens,
    [...tokens].sort((a, b) => (a < b ? -1 : 1)),
  );
});

test('a leader that cannot renew is told while it still leads', async () => {
  const store = inMemory();
  const leases = store.manager({ maxClockSkew: 0 });
  const leadership = await leases.campaign(NAME, { ttl: 9000, notice: 3000 });
  assert.deepEqual([leadership.stopReason, leadership.signal.aborted], [undefined, false]);
  let left;
  const run = leadership.run(async () => {
    await untilTold(leadership);
    left = leadership.lease.remaining();
    assert.ok(leadership.lease.isValid());
    return 'what it gives';
  });
  store.hang();
  await store.advance(8000);
  store.goOn();
  assert.equal(await run, 'what it gives');
  assert.equal(left, 3000);
  assert.equal(leadership.stopReason, 'nearEnd');
});

test('the default notice is a sixth, and half of the ttl is the most', async () => {
  for (const [notice, told] of [
    [undefined, 5000 / 6],
    [60_000, 2500],
    [0, 0],
  ]) {
    const store = inMemory();
    const leases = store.manager({ maxClockSkew: 0 });
    const leadership = await leases.campaign(NAME, {
      ttl: 5000,
      ...(notice !== undefined && { notice }),
    });
    const whole = leadership.lease.remaining();
    let left;
    leadership.signal.addEventListener('abort', () => (left = leadership.lease.remaining()));
    store.hang();
    await store.advance(5000);
    const expected = (told * whole) / 5000;
    assert.ok(Math.abs(left - expected) < 1, `${notice}: ${left}, and not ${expected}`);
    assert.equal(leadership.stopReason, notice === 0 ? 'lost' : 'nearEnd');
    store.goOn();
    await leases.close();
  }
});

test('a leader that renews is not told to stop', async () => {
  const store = inMemory();
  const leases = store.manager();
  const leadership = await leases.campaign(NAME, { ttl: 9000, notice: 60_000 });
  await store.advance(3_600_000);
  assert.equal(leadership.stopReason, undefined);
  await leadership.release();
  assert.equal(leadership.stopReason, 'lost');
});

test('a leader that was handed the lease is not told to stop in its short first term', async () => {
  const store = inMemory();
  const [leases, others] = [store.manager(), store.manager({ waiterTtl: 10_000 })];
  const first = await leases.campaign(NAME);
  let second;
  void others.campaign(NAME, { ttl: 36_000, notice: 12_000 }).then((won) => (second = won));
  await store.advance(0);
  await first.release();
  await store.advance(0);
  assert.ok(second.lease.remaining() < 12_000);
  await store.advance(3_600_000);
  assert.equal(second.stopReason, undefined);
});

test('work that was told and goes on ends with the loss, before another can lead', async () => {
  const store = inMemory();
  const [leases, others] = [store.manager(), store.manager()];
  const leadership = await leases.campaign(NAME, { ttl: 9000, notice: 3000 });
  let next;
  void others.campaign(NAME).then((won) => (next = won));
  await store.advance(0);
  let ended;
  const run = leadership.run(forever).catch((error) => (ended = error));
  store.hang();
  for (let step = 0; !ended && step < 100; step += 1) {
    await store.advance(100);
    assert.equal(next, undefined);
  }
  assert.ok(['outOfReach', 'notRenewed'].includes(ended.reason), `${ended.reason}`);
  await run;
  store.goOn();
  await store.advance(20_000);
  assert.ok(next.lease.isValid());
});

test('a renewal that succeeds after the word to stop does not take it back', async () => {
  const store = inMemory();
  const leases = store.manager();
  const leadership = await leases.campaign(NAME, { ttl: 9000, notice: 4000 });
  let ended;
  const run = leadership.run(forever).catch((error) => (ended = error));
  store.hang();
  while (leadership.stopReason === undefined) await store.advance(100);
  store.goOn();
  await store.advance(1000);
  assert.deepEqual([leadership.stopReason, leadership.lease.isValid()], ['nearEnd', true]);
  await store.advance(4000);
  await run;
  assert.equal(ended.code, 'LOST');
  // It was released, and may be won again.
  assert.ok(await leases.tryAcquire(NAME));
});

test('a leader that is asked steps down, and another follows', async () => {
  const store = inMemory();
  const [leases, others] = [store.manager(), store.manager()];
  const stop = new AbortController();
  const first = await leases.campaign(NAME, { signal: stop.signal });
  let second;
  void others.campaign(NAME).then((won) => (second = won));
  await store.advance(0);
  const run = first.run(async (leadership) => {
    await untilTold(leadership);
    return leadership.stopReason;
  });
  stop.abort();
  assert.equal(await run, 'asked');
  await store.advance(0);
  assert.ok(second.lease.isValid());
  second.stepDown();
  assert.deepEqual([second.stopReason, second.signal.reason.code], ['asked', 'LOST']);
  assert.equal(await second.release(), 'released');
});

test('work that does not step down in time ends with a loss, and the lease is released', async () => {
  const store = inMemory();
  const leases = store.manager();
  const leadership = await leases.campaign(NAME, { notice: 100 });
  let ended;
  const run = leadership.run(forever).catch((error) => (ended = error));
  leadership.stepDown();
  await store.advance(99);
  assert.equal(ended, undefined);
  await store.advance(1);
  await run;
  assert.deepEqual([ended.code, ended.reason], ['LOST', 'released']);
  assert.equal(await leases.get(NAME), undefined);
});

test('a signal ends a campaign, and a follower leaves the queue', async () => {
  const store = inMemory();
  const [leases, others] = [store.manager(), store.manager()];
  const leadership = await leases.campaign(NAME);
  const stop = new AbortController();
  const follower = assert.rejects(others.campaign(NAME, { signal: stop.signal }), /enough/);
  await store.advance(0);
  assert.equal((await leases.get(NAME)).waiting, 1);
  stop.abort(new Error('enough'));
  await follower;
  await store.advance(0);
  assert.equal((await leases.get(NAME)).waiting, 0);
  await assert.rejects(others.campaign(NAME, { signal: stop.signal }), /enough/);
  assert.ok(leadership.lease.isValid());
});

test('a campaign waits while the database hangs', async () => {
  const store = inMemory();
  const leases = store.manager();
  await leases.ready();
  store.hang();
  let won;
  void leases.campaign(NAME).then((leadership) => (won = leadership));
  await store.advance(3_600_000);
  store.goOn();
  await store.advance(20_000);
  assert.ok(won.lease.isValid());
});

test('a close ends the leadership, and the work is told', async () => {
  const store = inMemory();
  const leases = store.manager();
  const leadership = await leases.campaign(NAME);
  const run = assert.rejects(leadership.run(forever), { code: 'LOST', reason: 'released' });
  assert.equal((await leases.close()).released, 1);
  await run;
  assert.equal(leadership.stopReason, 'lost');
  await assert.rejects(leases.campaign(NAME), { code: 'SHUT_DOWN' });
});

test('work that ends behind the end of its lease has not succeeded', async () => {
  const store = inMemory();
  const leases = store.manager();
  const leadership = await leases.campaign(NAME);
  const run = leadership.run(async () => {
    store.hang();
    // The event loop is blocked: the clock goes on, and no timer fires.
    store.clock.micros += 60e6;
    return 'done';
  });
  await assert.rejects(run, { code: 'LOST' });
  store.goOn();
});

test('options are checked', async () => {
  const leases = inMemory().manager();
  for (const [options, message] of [
    [{ notice: -1 }, 'notice: must be a number of milliseconds'],
    [{ notice: '1' }, 'notice: must be a number of milliseconds'],
    [
      { wait: 1 },
      'options: there is no option "wait"; there are ttl, notice, signal, owner, metadata',
    ],
    [
      { value: 'a' },
      'options: there is no option "value"; there are ttl, notice, signal, owner, metadata',
    ],
    [{ signal: {} }, 'signal: must be an AbortSignal'],
    [5, 'options: must be an object, with any of ttl, notice, signal, owner, metadata'],
  ]) {
    await assert.rejects(leases.campaign(NAME, options), { code: 'INVALID_OPTION', message });
  }
  await assert.rejects(leases.campaign(''), { code: 'INVALID_NAME' });
  const leadership = await leases.campaign(NAME);
  await assert.rejects(leadership.run(), { message: 'work: must be a function' });
  assert.equal((await leases.get(NAME)).state, 'held');
});

test('a term leaves no listener at its signal, and no timer', async () => {
  const store = inMemory();
  const leases = store.manager();
  const { signal } = new AbortController();
  let listeners = 0;
  const { addEventListener, removeEventListener } = signal;
  signal.addEventListener = (...all) => {
    listeners += 1;
    addEventListener.apply(signal, all);
  };
  signal.removeEventListener = (...all) => {
    listeners -= 1;
    removeEventListener.apply(signal, all);
  };
  for (let term = 0; term < 1000; term += 1) {
    const leadership = await leases.campaign(NAME, { signal });
    await leadership.run(() => term);
  }
  assert.equal(listeners, 0);
  await leases.close();
  assert.equal(store.clock.timers.size, 0);
});

test('a leadership shows its lease, and not its engine', async () => {
  const leadership = await inMemory().manager().campaign(NAME);
  const shown = inspect(leadership);
  assert.match(shown, /^Leadership { name: '.*', token: '\d+', valid: true, remaining: [\d.]+ }$/);
});
