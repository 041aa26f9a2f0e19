// Leases that are detached and resumed, in the store's own time.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inMemory } from '../index.mjs';

const lost = (reason) => ({ code: 'LOST', reason });

test('a detached lease is taken up by another manager, from JSON', async () => {
  const store = inMemory();
  const [here, there] = [store.manager(), store.manager()];
  const lease = await here.acquire('a "$name" 🔒');
  const { value, token, signal } = lease;
  const key = await lease.detach();
  assert.deepEqual([lease.isValid(), signal.reason.reason], [false, 'released']);
  const json = JSON.stringify(key);
  // A number in JSON would lose digits.
  assert.ok(json.includes(`"token":"${token}"`), json);
  await here.close();
  const resumed = await there.resume(JSON.parse(json));
  assert.deepEqual([resumed.name, resumed.value, resumed.token], ['a "$name" 🔒', value, token]);
  assert.equal(resumed.remaining(), 29_700);
  // It is renewed.
  await store.advance(3_600_000);
  assert.ok(resumed.isValid());
  assert.equal(await resumed.release(), 'released');
  assert.equal(await there.get(key.name), undefined);
});

test('a handle that was detached gives nothing back', async () => {
  const store = inMemory();
  const leases = store.manager();
  const lease = await leases.acquire('a');
  const key = await lease.detach();
  assert.equal(await lease.release(), 'notHeld');
  await lease[Symbol.asyncDispose]();
  await assert.rejects(lease.detach(), lost('released'));
  assert.equal((await leases.get('a')).value, key.value);
  // Work may hand its lease on.
  const handed = await leases.withLease('b', (held) => held.detach());
  assert.equal((await leases.get('b')).value, handed.value);
  assert.deepEqual(await leases.close(), { released: 0, leftToExpire: [], commandsLeft: 0 });
  const [a, b] = [await store.manager().resume(key), await store.manager().resume(handed)];
  assert.deepEqual([a.isValid(), b.isValid()], [true, true]);
});

test('it stays held for its whole ttl from then on, and no longer', async () => {
  const store = inMemory();
  const [here, there] = [store.manager(), store.manager()];
  const lease = await here.acquire('a', { ttl: 9000 });
  await store.advance(2000);
  const key = await lease.detach();
  await store.advance(9999);
  assert.equal(await there.tryAcquire('a'), undefined);
  await store.advance(1);
  await assert.rejects(there.resume(key), lost('notRenewed'));
  assert.ok(await there.tryAcquire('a'));
});

test('a resumed lease keeps its ttl, and its key works once', async () => {
  const store = inMemory();
  const [here, there] = [store.manager(), store.manager()];
  const key = await (await here.acquire('a', { ttl: 9000 })).detach();
  const ends = await Promise.allSettled([here.resume(key), there.resume(key)]);
  const [granted] = ends.filter(({ status }) => status === 'fulfilled');
  const [refused] = ends.filter(({ status }) => status === 'rejected');
  assert.equal(refused.reason.reason, 'resumed');
  assert.ok(granted.value.remaining() <= 9000 && granted.value.remaining() > 8000);
  await assert.rejects(here.resume(key), lost('resumed'));
  // The next key is another one, and equally good.
  const next = await granted.value.detach();
  assert.notEqual(next.grant, key.grant);
  assert.equal(next.token, key.token);
  assert.equal(await (await there.resume(next)).release(), 'released');
});

test('the key of a lost lease is refused with the reason, and changes nothing', async () => {
  const store = inMemory();
  const leases = store.manager({ maxClockSkew: 0 });
  const key = await (await leases.acquire('a', { ttl: 3000 })).detach();
  await store.advance(3000);
  const successor = await leases.acquire('a');
  await assert.rejects(leases.resume(key), lost('takenOver'));
  assert.ok(successor.isValid());
  await successor.release();
  await assert.rejects(leases.resume(key), lost('removed'));
  const removed = await leases.acquire('a');
  await leases.release('a', removed.value);
  await assert.rejects(removed.detach(), lost('removed'));
  assert.equal(await leases.get('a'), undefined);
});

test('a resume whose reply is lost finds what it has resumed', async () => {
  const store = inMemory();
  const leases = store.manager();
  const key = await (await leases.acquire('a')).detach();
  store.loseNextReply();
  const resuming = leases.resume(key);
  await store.advance(1000);
  const lease = await resuming;
  await lease.renew();
  assert.equal(await lease.release(), 'released');
});

test('a detach whose renewal is not confirmed gives no key, and the lease stays', async () => {
  const store = inMemory();
  const leases = store.manager();
  const lease = await leases.acquire('a');
  store.hang();
  const refused = assert.rejects(lease.detach(), { code: 'UNKNOWN' });
  await store.advance(10_000);
  await refused;
  store.goOn();
  await store.advance(1000);
  assert.ok(lease.isValid());
  assert.equal(await lease.release(), 'released');
});

test('a resumed lease is handed off to who waits', async () => {
  const store = inMemory();
  const [here, there] = [store.manager(), store.manager()];
  const lease = await here.acquire('a');
  let next;
  void there.acquire('a', { wait: Infinity }).then((granted) => (next = granted));
  await store.advance(0);
  const resumed = await here.resume(await lease.detach());
  assert.equal(next, undefined);
  await resumed.release();
  await store.advance(0);
  assert.ok(next.isValid());
});

test('permits have no key, and a forged one is refused', async () => {
  const store = inMemory();
  const leases = store.manager();
  const reader = await leases.acquire('shared', { shared: true });
  await assert.rejects(reader.detach(), {
    code: 'UNSUPPORTED',
    message:
      /`detach` works for exclusive leases only: a key names one holder of an exclusive lease/,
  });
  assert.ok(reader.isValid());
  const key = await (await leases.acquire('a')).detach();
  const held = await leases.resume(key);
  // Nobody resumed a lease with one that is made up.
  await assert.rejects(leases.resume({ ...key, grant: 'made-up.1' }), lost('removed'));
  const before = await leases.get('a');
  for (const [forged, code] of [
    [{ value: 'mongo-lease/shared' }, 'INVALID_OPTION'],
    [{ value: 'released:x' }, 'INVALID_OPTION'],
    [{ value: '' }, 'INVALID_OPTION'],
    [{ name: '' }, 'INVALID_NAME'],
    [{ name: undefined }, 'INVALID_NAME'],
    [{ value: undefined }, 'INVALID_OPTION'],
    [{ grant: 7 }, 'INVALID_OPTION'],
    [{ token: 7 }, 'INVALID_OPTION'],
    [{ token: '+7' }, 'INVALID_OPTION'],
    [{ token: '18446744073709551616' }, 'INVALID_OPTION'],
    [{ grant: '\ud800' }, 'INVALID_OPTION'],
  ]) {
    await assert.rejects(leases.resume({ ...key, ...forged }), { code }, JSON.stringify(forged));
  }
  for (const none of [undefined, null, 5, JSON.stringify(key)]) {
    await assert.rejects(leases.resume(none), {
      code: 'INVALID_OPTION',
      option: 'key',
      message: 'key: must be a key that `detach` has returned',
    });
  }
  assert.deepEqual(await leases.get('a'), before);
  assert.ok(held.isValid());
});

test('a resume after a close is refused', async () => {
  const store = inMemory();
  const leases = store.manager();
  const key = await (await leases.acquire('a')).detach();
  await leases.close();
  await assert.rejects(leases.resume(key), { code: 'SHUT_DOWN' });
});

test('a close while a key is used up releases the lease', async () => {
  const store = inMemory();
  const [here, there] = [store.manager(), store.manager()];
  const key = await (await here.acquire('a')).detach();
  await there.ready();
  store.hang();
  const refused = assert.rejects(there.resume(key), { code: 'SHUT_DOWN' });
  await store.advance(0);
  const closing = there.close();
  await store.advance(0);
  store.goOn();
  await closing;
  await refused;
  assert.equal(await here.get('a'), undefined);
});
