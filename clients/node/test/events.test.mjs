// The events of a manager, in the store's own time.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inMemory } from '../index.mjs';

/** Begins to listen, and returns a function that gives all that was heard since. */
function hearing(store, listener) {
  const heard = [];
  void (async () => {
    for await (const event of listener) heard.push(event);
  })();
  return async () => {
    await store.advance(0);
    return heard.splice(0);
  };
}

test('a lease tells of its grant, its renewals and its release', async () => {
  const store = inMemory();
  const leases = store.manager();
  const heard = hearing(store, leases.events());
  const lease = await leases.acquire('a');
  const token = String(lease.token);
  await lease.renew();
  await store.advance(20_000);
  await lease.release();
  const capped = await leases.acquire('b', { maxHold: 3000 });
  const second = String(capped.token);
  await store.advance(3000);
  await capped.release();
  const all = await heard();
  assert.deepEqual(all, [
    { event: 'granted', name: 'a', token },
    { event: 'renewed', name: 'a', token, remaining: 29_700 },
    { event: 'renewed', name: 'a', token, remaining: 29_700 },
    { event: 'renewed', name: 'a', token, remaining: 29_700 },
    { event: 'released', name: 'a', token },
    { event: 'granted', name: 'b', token: second },
    { event: 'lost', name: 'b', token: second, reason: 'endedAsAsked' },
    // The server had it still.
    { event: 'released', name: 'b', token: second },
  ]);
  // They are JSON, and no number has lost digits.
  assert.equal(JSON.parse(JSON.stringify(all[0])).token, token);
});

test('failing renewals tell what is left, and then comes the loss', async () => {
  const store = inMemory();
  const leases = store.manager();
  await leases.acquire('a', { ttl: 15_000 });
  const heard = hearing(store, leases.events());
  store.hang();
  await store.advance(20_000);
  const all = await heard();
  const failed = all.slice(0, -1);
  assert.ok(
    failed.length > 1 &&
      failed.every(({ event, reason }) => event === 'renewalFailed' && reason.length > 0),
    JSON.stringify(all),
  );
  const left = failed.map(({ remaining }) => remaining);
  assert.deepEqual(
    left,
    [...left].sort((a, b) => b - a),
  );
  assert.deepEqual([all.at(-1).event, all.at(-1).reason], ['lost', 'outOfReach']);
  store.goOn();
});

test('a call that waits tells that it is queued, and the stream that it watches', async () => {
  const store = inMemory();
  const [leases, others] = [store.manager(), store.manager()];
  const held = await others.acquire('a', { ttl: 3_600_000 });
  const heard = hearing(store, leases.events());
  const calls = [leases.acquire('a', { wait: 600_000 }), leases.acquire('a', { wait: 600_000 })];
  await store.advance(60_000);
  let all = await heard();
  assert.deepEqual(all, [{ event: 'queued', name: 'a', ahead: 0 }, { event: 'watching' }]);
  store.hang();
  await store.advance(20_000);
  store.goOn();
  await store.advance(20_000);
  all = await heard();
  assert.deepEqual(
    all.map(({ event }) => event),
    ['polling', 'watching'],
  );
  assert.equal(typeof all[0].reason, 'string');
  await held.release();
  await store.advance(0);
  await (await calls[0]).release();
  await store.advance(1000);
  await (await calls[1]).release();
});

test('a slow listener learns how much it has missed, and keeps the newest', async () => {
  const store = inMemory();
  const leases = store.manager();
  const [slow, quick] = [leases.events(), leases.events()];
  const LEASES = 1000;
  let told = 0;
  for (let number = 0; number < LEASES; number += 1) {
    await (await leases.acquire(`lease:${number}`)).release();
    for (const _ of ['granted', 'released']) {
      assert.equal((await quick.next()).value.event, _);
      told += 1;
    }
  }
  assert.equal(told, 2 * LEASES);
  const heard = hearing(store, slow);
  const all = await heard();
  const [{ event, missed }, ...kept] = all;
  assert.deepEqual([event, missed, kept.length], ['missed', 2 * LEASES - 1024, 1024]);
  // In their order, up to the newest.
  const names = kept.map(({ name }) => Number(name.slice(6)));
  assert.deepEqual(
    names,
    [...names].sort((a, b) => a - b),
  );
  assert.equal(names.at(-1), LEASES - 1);
  // It goes on from there.
  await leases.acquire('next');
  assert.deepEqual(
    (await heard()).map(({ name }) => name),
    ['next'],
  );
});

test('a close releases, and ends all listeners', async () => {
  const store = inMemory();
  const leases = store.manager();
  const lease = await leases.acquire('a');
  const token = String(lease.token);
  const heard = [];
  const listening = (async () => {
    for await (const event of leases.events()) heard.push(event);
  })();
  const late = leases.events();
  await leases.close();
  await listening;
  await lease.release();
  assert.deepEqual(heard, [{ event: 'released', name: 'a', token }]);
  assert.deepEqual([(await late.next()).value, (await late.next()).done], [heard[0], true]);
  assert.equal((await leases.events().next()).done, true);
});

test('a close tells of its leases at once, and a release of which nothing is heard is told too', async () => {
  const store = inMemory();
  const leases = store.manager();
  const heard = hearing(store, leases.events());
  const [lease] = [await leases.acquire('a'), await leases.acquire('b')];
  await heard();
  store.hang();
  const releasing = assert.rejects(lease.release(), { code: 'UNKNOWN' });
  await store.advance(10_000);
  await releasing;
  const told = (all) => all.map(({ event, name }) => `${event} ${name}`);
  assert.deepEqual(
    told(await heard()).filter((it) => it.startsWith('released')),
    ['released a'],
  );
  const closing = leases.close();
  assert.deepEqual(told(await heard()), ['released b']);
  await store.advance(10_000);
  assert.deepEqual((await closing).leftToExpire, ['b']);
  store.goOn();
});

test('a listener that leaves its loop is forgotten', async () => {
  const store = inMemory();
  const leases = store.manager();
  const { events } = leases.engine;
  for (let round = 0; round < 10; round += 1) {
    const listening = (async () => {
      for await (const { event } of leases.events()) if (event === 'granted') return;
    })();
    await leases.withLease('a', () => 1);
    await listening;
  }
  assert.equal(events.areHeard, false);
});
