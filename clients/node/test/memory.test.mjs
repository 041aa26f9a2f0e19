// The store in memory: the same client without a server, and time in the test's hands.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createRequire } from 'node:module';
import * as imported from '../index.mjs';

const { inMemory } = imported;

test('one manager excludes the other, and the store tells why', async () => {
  const store = inMemory();
  const [alice, bob] = [store.manager({ owner: 'alice' }), store.manager({ owner: 'bob' })];
  const lease = await alice.acquire('invoice:42', { metadata: { order: 7 } });
  assert.equal(await bob.tryAcquire('invoice:42'), undefined);
  const { owner, metadata, remaining } = await bob.get('invoice:42');
  assert.match(owner, /^alice@/);
  assert.deepEqual([metadata, remaining], [{ order: 7 }, 31_000]);
  const { token } = lease;
  await lease.release();
  const next = await bob.acquire('invoice:42');
  assert.ok(next.token > token);
});

test('time passes only when the test says so: a lease is renewed, and one that is not ends', async () => {
  const store = inMemory();
  const leases = store.manager();
  const [kept, short] = [
    await leases.acquire('kept'),
    await leases.acquire('short', { renew: false }),
  ];
  assert.equal(kept.remaining(), 29_700);
  await store.advance(29_699);
  assert.equal(short.isValid(), true);
  let reason;
  short.signal.addEventListener('abort', () => ({ reason } = short.signal.reason));
  await store.advance(1);
  assert.deepEqual([short.isValid(), reason], [false, 'endedAsAsked']);
  await store.advance(3_600_000);
  assert.equal(kept.isValid(), true);
});

test('a crashed holder is followed by the next one when its lease has expired', async () => {
  const store = inMemory();
  const [crashed, other] = [store.manager(), store.manager()];
  await crashed.acquire('job', { renew: false, ttl: 10_000 });
  const waiting = other.acquire('job', { wait: 60_000 });
  let granted;
  waiting.then((lease) => (granted = lease));
  await store.advance(10_990);
  assert.equal(granted, undefined);
  await store.advance(20);
  assert.equal(granted.isValid(), true);
});

test('a hand-off needs no time, and waits end at their deadlines', async () => {
  const store = inMemory();
  const [a, b] = [store.manager(), store.manager()];
  const lease = await a.acquire('x');
  const late = b.acquire('x', { wait: 1000 });
  const refused = assert.rejects(late, { code: 'WAIT_TIMEOUT' });
  await store.advance(1000);
  await refused;
  const next = b.acquire('x', { wait: 60_000 });
  await store.advance(0);
  await lease.release();
  await store.advance(0);
  assert.equal((await next).isValid(), true);
  await a.close();
  await b.close();
});

test('a lost reply is repeated with the same value', async () => {
  const store = inMemory();
  const leases = store.manager();
  await leases.ready();
  store.loseNextReply();
  const call = leases.acquire('x');
  await store.advance(1000);
  const lease = await call;
  assert.equal((await leases.get('x')).value, lease.value);
  assert.equal(await lease.release(), 'released');
});

test('with a lease: the work is told of a loss, and the result is the loss', async () => {
  const store = inMemory();
  const leases = store.manager();
  const work = leases.withLease(
    'x',
    (lease) => new Promise((_, reject) => lease.signal.addEventListener('abort', () => reject(1))),
    { renew: false, ttl: 1000 },
  );
  const lost = assert.rejects(work, { code: 'LOST', reason: 'endedAsAsked' });
  await store.advance(1000);
  await lost;
  assert.equal(await leases.withLease('y', ({ name }) => name), 'y');
});

test('for require and for import it is one package, with the same names', () => {
  const required = createRequire(import.meta.url)('../dist/index.js');
  assert.deepEqual(Object.keys(required).sort(), Object.keys(imported).sort());
  assert.equal(required.inMemory, inMemory);
});

test('after the twentieth outage a hand-off needs no time again', async () => {
  const store = inMemory();
  const [a, b] = [store.manager(), store.manager()];
  // Somebody waits all the time, so that the stream stays open.
  await a.acquire('kept', { ttl: 3_600_000 });
  void b.acquire('kept').catch(() => undefined);
  for (let outage = 0; outage < 20; outage += 1) {
    const lease = await a.acquire('x', { ttl: 600_000 });
    let next;
    void b.acquire('x', { ttl: 600_000 }).then((granted) => (next = granted));
    // At first the longest delay between two tries to open the stream, twice.
    await store.advance(20_000);
    await lease.release();
    await store.advance(0);
    assert.ok(next?.isValid(), `not told after outage ${outage}`);
    // The event has begun a new read, which is tested by a ping after 250 ms. The ping hangs.
    await store.advance(100);
    store.hang();
    await store.advance(4_000);
    store.goOn();
    await store.advance(0);
    await next.release();
  }
  await b.close();
  await a.close();
});

test('no change stream is asked for while nothing gets through', async () => {
  const store = inMemory();
  const [a, b] = [store.manager(), store.manager()];
  const lease = await a.acquire('x', { ttl: 36_000_000 });
  let granted;
  void b.acquire('x', { wait: 36_000_000 }).then((next) => (granted = next));
  const { backend } = b.engine.runner;
  let streams = 0;
  const watch = backend.watch.bind(backend);
  backend.watch = (...told) => {
    streams += 1;
    return watch(...told);
  };
  await store.advance(1000);
  const before = streams;
  store.hang();
  await store.advance(1_800_000);
  store.goOn();
  await store.advance(12_000);
  assert.equal(streams - before, 1);
  await lease.release();
  await store.advance(0);
  assert.ok(granted?.isValid());
  await b.close();
  await a.close();
});

test('a store ends a lease in place of its holder, which learns it at its next renewal', async () => {
  const store = inMemory();
  const [leases, other] = [store.manager(), store.manager()];
  const [kept, taken, freed] = await Promise.all(
    ['kept', 'taken', 'freed'].map((name) => leases.acquire(name)),
  );
  const waiting = other.acquire('taken', { wait: 60_000 });
  await store.advance(0);
  assert.deepEqual(
    ['kept', 'taken', 'none'].map((name) => store.expire(name)),
    [true, true, false],
  );
  assert.deepEqual([store.release('freed'), store.release('freed')], [true, false]);
  await store.advance(0);
  // Both believe in it: a token tells them apart.
  const next = await waiting;
  assert.ok(taken.isValid() && next.token > taken.token);
  await store.advance(10_000);
  assert.deepEqual(
    [kept, taken, freed, next].map((lease) => lease.isValid()),
    [true, false, false, true],
  );
  assert.deepEqual(
    [taken, freed].map(({ signal }) => signal.reason.reason),
    ['takenOver', 'removed'],
  );
});

test('a close tells the work of its leases at once, and ends its call behind the release', async () => {
  const store = inMemory();
  const leases = store.manager();
  let signal;
  let hasEnded = false;
  const working = leases.withLease('x', (lease) => {
    ({ signal } = lease);
    return new Promise(() => undefined);
  });
  const ended = assert.rejects(working, { code: 'LOST', reason: 'released' });
  ended.then(() => (hasEnded = true));
  await store.advance(0);
  store.hang();
  const closing = leases.close();
  await store.advance(0);
  assert.deepEqual([signal.aborted, hasEnded], [true, false]);
  store.goOn();
  await ended;
  assert.equal((await closing).released, 1);
});

test('a close counts what it has released, and not what somebody else has', async () => {
  const store = inMemory();
  const [leases, other] = [store.manager(), store.manager()];
  await leases.acquire('mine');
  const { value } = await leases.acquire('x');
  assert.equal(await other.release('x', value), 'released');
  assert.deepEqual(await leases.close(), { released: 1, leftToExpire: [], commandsLeft: 0 });
});
