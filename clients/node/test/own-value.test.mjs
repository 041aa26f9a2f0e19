// A caller's own value, for services that grant leases to others: two calls with one value are one holder.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inMemory } from '../index.mjs';

test('a second call with the value of the holder is told that it is the same holder', async () => {
  const store = inMemory();
  const [one, other] = [store.manager(), store.manager()];
  const first = await one.acquire('a', { value: 'mine' });
  const second = await other.acquire('a', { value: 'mine' });
  assert.deepEqual([first.isGrantedAgain, second.isGrantedAgain], [false, true]);
  assert.ok(second.token > first.token);
  // Both are renewed, and nobody else gets it.
  await store.advance(3_600_000);
  assert.deepEqual([first.isValid(), second.isValid()], [true, true]);
  assert.equal(await other.tryAcquire('a', { value: 'yours' }), undefined);
  assert.equal(await other.tryAcquire('a'), undefined);
  // The release of one is that of the holder.
  assert.equal(await second.release(), 'released');
  await store.advance(30_000);
  assert.deepEqual([first.isValid(), first.signal.reason.reason], [false, 'removed']);
  assert.equal(await first.release(), 'notHeld');
});

test('a holder whose value nobody has used before is not told so', async () => {
  const store = inMemory();
  const [one, other] = [store.manager(), store.manager()];
  const held = await one.acquire('a');
  assert.equal(held.isGrantedAgain, false);
  // One that waited, and one that comes after its own release.
  let waited;
  void other.acquire('a', { value: 'mine', wait: Infinity }).then((lease) => (waited = lease));
  await store.advance(0);
  await held.release();
  await store.advance(0);
  assert.equal(waited.isGrantedAgain, false);
  await waited.release();
  const again = await one.acquire('a', { value: 'mine' });
  assert.equal(again.isGrantedAgain, false);
  await again.release();
  // A repeated attempt finds the grant of its own call.
  store.loseNextReply();
  const asked = one.acquire('a', { value: 'mine' });
  await store.advance(1000);
  const lease = await asked;
  assert.equal(lease.isGrantedAgain, false);
});

test('permits with one value are one holder too', async () => {
  const store = inMemory();
  const [one, other] = [store.manager(), store.manager()];
  const first = await one.acquire('a', { value: 'mine', limit: 3, permits: 2 });
  const second = await other.acquire('a', { value: 'mine', limit: 3 });
  const third = await other.acquire('a', { value: 'yours', limit: 3 });
  assert.deepEqual(
    [first, second, third].map((lease) => lease.isGrantedAgain),
    [false, true, false],
  );
  // It keeps the number of its permits.
  assert.deepEqual([second.permits, (await one.get('a')).inUse], [2, 3]);
  // An exclusive lease and permits exclude each other also with one value.
  assert.equal(await other.tryAcquire('a', { value: 'mine' }), undefined);
});

test("a second call that is given up does not free the first one's lease", async () => {
  const store = inMemory();
  const [one, other] = [store.manager(), store.manager()];
  const first = await one.acquire('a', { value: 'mine' });
  await other.ready();
  store.hang();
  const stop = new AbortController();
  const second = assert.rejects(
    other.acquire('a', { value: 'mine', signal: stop.signal }),
    /enough/,
  );
  await store.advance(0);
  stop.abort(new Error('enough'));
  await second;
  store.goOn();
  // The close ends after the answer and all its consequences.
  await other.close();
  assert.equal((await one.get('a')).value, 'mine');
  await first.renew();
  assert.equal(await first.release(), 'released');
});
