// Leases of several names at once: all, or none. In the store's own time.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inMemory } from '../index.mjs';

/** The code and the text of the error of a call. */
async function refusal(call) {
  try {
    await call();
    return undefined;
  } catch (error) {
    return `${error.code} ${error.message}`;
  }
}

const namesOf = (set) => [...set].map(({ name }) => name);
const isFree = async (leases, name) => {
  const lease = await leases.tryAcquire(name);
  await lease?.release();
  return lease !== undefined;
};

test('all names are granted in their order, with a token each', async () => {
  const store = inMemory();
  const leases = store.manager();
  const set = await leases.acquireAll(['c', 'a', 'b'], { owner: 'me', metadata: { job: 7 } });
  assert.deepEqual(namesOf(set), ['a', 'b', 'c']);
  assert.deepEqual(
    [set.isValid(), set.remaining(), set.signal.aborted, set.get('d')],
    [true, 29_700, false, undefined],
  );
  set.check();
  for (const name of ['a', 'b', 'c']) {
    const info = await leases.get(name);
    assert.equal(info.value, set.get(name).value);
    assert.match(info.owner, /^me@/);
    assert.deepEqual(info.metadata, { job: 7 });
    assert.equal(typeof set.get(name).token, 'bigint');
  }
  assert.equal(await set.release(), 'released');
  assert.equal(await set.release(), 'released');
  assert.deepEqual(
    [set.isValid(), set.remaining(), set.signal.reason.reason],
    [false, 0, 'released'],
  );
  for (const name of ['a', 'b', 'c']) assert.equal(await leases.get(name), undefined);
});

test('a taken name is named, and nothing is held', async () => {
  const store = inMemory();
  const [leases, others] = [store.manager(), store.manager()];
  for (const shared of [false, true]) {
    const held = await others.acquire('b', { shared });
    const busy = await leases.acquireAll(['a', 'b', 'c'], { wait: 0 }).catch((error) => error);
    assert.deepEqual([busy.code, busy.held.name, busy.held.shared], ['BUSY', 'b', shared]);
    await store.advance(0);
    assert.deepEqual([await isFree(others, 'a'), await isFree(others, 'c')], [true, true]);
    const late = leases.acquireAll(['a', 'b', 'c'], { wait: 5000 }).catch((error) => error);
    await store.advance(5000);
    const { code, message, held: seen } = await late;
    assert.match(message, /^lease "b" was not granted within 5s/);
    assert.deepEqual([code, seen.name], ['WAIT_TIMEOUT', 'b']);
    await held.release();
    await store.advance(0);
    for (const name of ['a', 'b', 'c']) assert.equal(await leases.get(name), undefined);
  }
});

test('a call that waits gives the names before back once, and those after always', async () => {
  const store = inMemory();
  const [leases, others] = [store.manager(), store.manager()];
  const take = async (name) => {
    await store.advance(0);
    return others.acquire(name, { wait: 0, ttl: 3_600_000 });
  };
  let second = await others.acquire('b', { shared: true });
  let set;
  void leases.acquireAll(['a', 'b', 'c'], { wait: Infinity }).then((granted) => (set = granted));
  const [first, third] = [await take('a'), await take('c')];
  await second.release();
  // It is granted "b", finds "a" taken, and waits for that.
  second = await take('b');
  await first.release();
  // From now on it keeps what comes before.
  await store.advance(0);
  assert.equal(await isFree(others, 'a'), false);
  await second.release();
  await store.advance(0);
  assert.deepEqual([await isFree(others, 'a'), await isFree(others, 'b')], [false, false]);
  await third.release();
  await store.advance(0);
  assert.deepEqual([namesOf(set), set.isValid()], [['a', 'b', 'c'], true]);
  await set.release();
});

test('calls for overlapping names do not wait for each other in a circle', async () => {
  const store = inMemory();
  const pods = Array.from({ length: 4 }, () => store.manager());
  let [working, done] = [0, 0];
  const work = async (leases, names) => {
    const set = await leases.acquireAll(names, { wait: Infinity });
    working += 1;
    assert.equal(working, 1);
    assert.ok(set.isValid());
    working -= 1;
    await set.release();
    done += 1;
  };
  const orders = [
    ['a', 'b', 'c'],
    ['c', 'b', 'a'],
    ['b', 'c', 'a'],
    ['c', 'a', 'b'],
  ];
  const all = Array.from({ length: 40 }, (_, number) =>
    work(pods[number % 4], orders[(number * 7) % 4]),
  );
  // A guard against a circle: it would stand still for ever.
  for (let second = 0; done < 40 && second < 600; second += 1) await store.advance(1000);
  assert.equal(done, 40);
  await Promise.all(all);
});

test('the order is that of bytes, as in every other process', async () => {
  const leases = inMemory().manager();
  // In UTF-16, the first of them comes last.
  const set = await leases.acquireAll(['\u{1f512}', '\uffee', 'a']);
  assert.deepEqual(namesOf(set), ['a', '\uffee', '\u{1f512}']);
});

test('a loss of one ends the signal, is named, and leaves the others held', async () => {
  const store = inMemory();
  const [leases, others] = [store.manager(), store.manager()];
  const set = await leases.acquireAll(['a', 'b']);
  const { signal } = set;
  await others.release('b', set.get('b').value);
  await assert.rejects(set.get('b').renew(), { code: 'LOST', reason: 'removed' });
  assert.match(signal.reason.message, /"b"/);
  assert.equal(signal.reason.reason, 'removed');
  assert.deepEqual([set.isValid(), set.remaining(), set.get('a').isValid()], [false, 0, true]);
  assert.throws(() => set.check(), { code: 'LOST', message: signal.reason.message });
  assert.equal(await set.release(), 'notHeld');
  assert.equal(await leases.get('a'), undefined);
});

test('a name that is lost during the wait is acquired anew', async () => {
  const store = inMemory();
  const [leases, others] = [store.manager(), store.manager()];
  const long = { ttl: 3_600_000 };
  // The call waits for "b", for "a", and again for "b": the last time it keeps "a".
  let held = await others.acquire('b', long);
  let set;
  void leases.acquireAll(['a', 'b'], { wait: Infinity }).then((granted) => (set = granted));
  await store.advance(0);
  const first = await others.acquire('a', { ...long, wait: 0 });
  await held.release();
  await store.advance(0);
  held = await others.acquire('b', { ...long, wait: 0 });
  await first.release();
  await store.advance(0);
  const { value } = await others.get('a');
  assert.equal(await others.release('a', value), 'released');
  // The next renewal finds it out.
  await store.advance(11_000);
  const anew = await others.get('a');
  assert.ok(anew !== undefined && anew.value !== value);
  await held.release();
  await store.advance(1000);
  assert.ok(set.isValid());
  assert.equal(set.get('a').value, anew.value);
});

test('a call ends with its signal and with a close, and leaves nothing behind', async () => {
  const store = inMemory();
  const [leases, others] = [store.manager(), store.manager()];
  const held = await others.acquire('b', { ttl: 3_600_000 });
  const stop = new AbortController();
  const asked = leases.acquireAll(['a', 'b', 'c'], { signal: stop.signal, wait: Infinity });
  const ended = assert.rejects(asked, /enough/);
  await store.advance(0);
  stop.abort(new Error('enough'));
  await ended;
  await store.advance(0);
  assert.deepEqual([await isFree(others, 'a'), await isFree(others, 'c')], [true, true]);
  await assert.rejects(leases.acquireAll(['a'], { signal: stop.signal }), /enough/);
  const closed = assert.rejects(leases.acquireAll(['a', 'b'], { wait: Infinity }), {
    code: 'SHUT_DOWN',
  });
  await store.advance(0);
  await leases.close();
  await closed;
  assert.equal((await others.get('b')).waiting, 0);
  await held.release();
  for (const name of ['a', 'b', 'c']) assert.equal(await others.get(name), undefined);
});

test('a call ends at its deadline while the database hangs', async () => {
  for (const seconds of [60, 2]) {
    const store = inMemory();
    const leases = store.manager();
    await leases.ready();
    store.hang();
    let ended;
    const call = leases
      .acquireAll(['a', 'b'], { wait: seconds * 1000 })
      .catch((error) => (ended = error));
    await store.advance(seconds * 1000 - 1);
    assert.equal(ended, undefined);
    await store.advance(1001);
    assert.equal((await call).code, 'WAIT_TIMEOUT');
    store.goOn();
    await store.advance(1000);
    for (const name of ['a', 'b']) assert.equal(await leases.get(name), undefined);
  }
});

test('names that cannot be acquired together are refused, with the texts of the library', async () => {
  const store = inMemory();
  const leases = store.manager();
  const many = Array.from({ length: 1001 }, (_, number) => String(number));
  for (const [names, told] of [
    [[], 'INVALID_OPTION names: must not be empty'],
    [['a', 'b', 'a'], 'INVALID_OPTION names: "a" is named twice'],
    [many, 'INVALID_OPTION names: must be at most 1000, and are 1001'],
    ['ab', 'INVALID_OPTION names: must be a list of names'],
    [undefined, 'INVALID_OPTION names: must be a list of names'],
  ]) {
    assert.equal(await refusal(() => leases.acquireAll(names)), told);
  }
  for (const names of [
    ['a', 'b\0'],
    ['a', 5],
    ['a', '\ud800'],
  ]) {
    assert.match(await refusal(() => leases.acquireAll(names)), /^INVALID_NAME /);
  }
  for (const [options, told] of [
    [{ ttl: 0 }, /^INVALID_OPTION ttl: /],
    [{ wait: -1 }, /^INVALID_OPTION wait: must be a number of milliseconds/],
    [{ limit: 2 }, /^INVALID_OPTION options: there is no option "limit"/],
    [{ signal: {} }, /^INVALID_OPTION signal: must be an AbortSignal/],
  ]) {
    assert.match(await refusal(() => leases.acquireAll(['a'], options)), told);
  }
  assert.equal(await leases.get('a'), undefined);
});

test('a thousand sets leave no listener at a signal', async () => {
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
  for (let round = 0; round < 1000; round += 1) {
    const set = await leases.acquireAll(['a', 'b'], { signal });
    await set.release();
  }
  assert.equal(listeners, 0);
});
