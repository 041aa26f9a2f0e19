// Every argument is checked before anything is sent, and what is refused is an error of this package.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inspect } from 'node:util';
import mongoose from 'mongoose';
import * as mongoLease from '../index.mjs';

const { LeaseManager, fencedUpdate, inMemory } = mongoLease;

/** The error of a call, as its code, its option and its text. */
async function refusal(call) {
  try {
    await call();
    return undefined;
  } catch (error) {
    return `${error.code} ${error.option ?? ''}: ${error.message}`;
  }
}

const NAME = "a lease's name must have 1 to 512 bytes without NUL";
const OF_TRY =
  'ttl, signal, metadata, renew, maxHold, holdAtLeast, owner, value, permits, limit, shared';
const cyclic = {};
cyclic.self = cyclic;

test('bad metadata and a bad signal are invalid options', async () => {
  const leases = inMemory().manager();
  const document = 'INVALID_OPTION metadata: metadata: must be a document';
  const signal = 'INVALID_OPTION signal: signal: must be an AbortSignal';
  for (const [options, told] of [
    [{ metadata: 5 }, document],
    [{ metadata: 'text' }, document],
    [{ metadata: null }, document],
    [{ metadata: [1] }, document],
    [{ metadata: cyclic }, /^INVALID_OPTION metadata: metadata: .*circular/],
    [{ metadata: new Date() }, /^INVALID_OPTION metadata: metadata: ./],
    [{ metadata: { 'a\0b': 1 } }, /^INVALID_OPTION metadata: metadata: ./],
    [{ signal: {} }, signal],
    [{ signal: 5 }, signal],
    [{ signal: null }, signal],
    [{ signal: new AbortController() }, signal],
  ]) {
    for (const call of [
      () => leases.acquire('x', options),
      () => leases.tryAcquire('x', options),
    ]) {
      const found = await refusal(call);
      if (typeof told === 'string') assert.equal(found, told);
      else assert.match(found ?? '', told);
    }
  }
  // The control: what is right is granted.
  const { signal: good } = new AbortController();
  await (await leases.acquire('x', { metadata: { a: 1 }, signal: good })).release();
});

test('options that are no object are refused, and not ignored', async () => {
  const leases = inMemory().manager();
  const told = (names) =>
    `INVALID_OPTION options: options: must be an object, with any of ${names}`;
  const five = leases.semaphore('five', 5);
  const noObjects = [
    5000,
    'wait',
    null,
    [],
    () => 1,
    Promise.resolve({ ttl: 5 }),
    new Map([['ttl', 5]]),
    new Date(),
    /x/,
  ];
  for (const options of noObjects) {
    assert.equal(await refusal(() => leases.acquire('x', options)), told(`wait, ${OF_TRY}`));
    assert.equal(await refusal(() => leases.tryAcquire('x', options)), told(OF_TRY));
    assert.equal(
      await refusal(() => leases.list(options).next()),
      told('prefix, glob, heldBy, withFree'),
    );
    assert.match(
      await refusal(() => inMemory().manager(options)),
      /must be an object, with any of collection, /,
    );
    for (const call of [
      five.acquire(options),
      five.tryAcquire(options),
      five.withLease(() => 1, options),
    ]) {
      assert.match(
        await refusal(() => call),
        /^INVALID_OPTION options: options: must be an object, with any of wait, ttl/,
      );
    }
  }
});

test('an option that there is not is refused with those that there are', async () => {
  const leases = inMemory().manager();
  const told = (option, names) =>
    `INVALID_OPTION options: options: there is no option "${option}"; there are ${names}`;
  for (const option of ['timeout', 'ttlMs', 'constructor', '__proto__', '']) {
    const options = JSON.parse(`{ "${option}": 5 }`);
    assert.equal(
      await refusal(() => leases.acquire('x', options)),
      told(option, `wait, ${OF_TRY}`),
    );
    assert.equal(
      await refusal(() => leases.list(options).next()),
      told(option, 'prefix, glob, heldBy, withFree'),
    );
    assert.match(await refusal(() => inMemory().manager(options)), /there is no option/);
  }
  // A call that sends one attempt does not wait, and a semaphore has its limit.
  assert.equal(await refusal(() => leases.tryAcquire('x', { wait: 5000 })), told('wait', OF_TRY));
  assert.match(
    await refusal(() => leases.semaphore('x', 5).acquire({ limit: 6 })),
    /there is no option "limit"/,
  );
  assert.equal(
    await refusal(() => inMemory('x')),
    'INVALID_OPTION options: options: a store has none: give them to `manager`',
  );
  // The control: an option that is undefined is one that is not there, and a class of the user's may have them.
  class Own {
    ttl = 5000;
  }
  await (await leases.acquire('x', new Own())).release();
  await (await leases.acquire('x', { ttl: undefined, timeout: undefined })).release();
});

test('names and filters of queries are checked', async () => {
  const leases = inMemory().manager();
  for (const name of [5, null, undefined, {}, ['x']]) {
    assert.equal(
      await refusal(() => leases.get(name)),
      `INVALID_NAME name: ${NAME}: it is no string`,
    );
  }
  assert.match(await refusal(() => leases.get('\ud800')), /^INVALID_NAME .*well-formed Unicode/);
  for (const [options, told] of [
    [{ prefix: 5 }, 'INVALID_OPTION prefix: prefix: must be a string'],
    [{ glob: /x/ }, 'INVALID_OPTION glob: glob: must be a string'],
    [{ heldBy: 7 }, 'INVALID_OPTION heldBy: heldBy: must be a string'],
    [{ withFree: 'yes' }, 'INVALID_OPTION withFree: withFree: must be true or false'],
    [
      { pattern: 'a*' },
      'INVALID_OPTION options: options: there is no option "pattern"; there are prefix, glob, heldBy, withFree',
    ],
    [
      { glob: 'x'.repeat(1025) },
      'INVALID_OPTION glob: glob: must have at most 1024 bytes and no NUL character',
    ],
    [
      { prefix: '\0' },
      'INVALID_OPTION prefix: prefix: must have at most 1024 bytes and no NUL character',
    ],
    [{ prefix: '\udc00' }, 'INVALID_OPTION prefix: prefix: it is no well-formed Unicode'],
    [
      { prefix: 'a', glob: 'a*' },
      'INVALID_OPTION glob: glob: a listing has a `prefix` or a `glob`, not both',
    ],
  ]) {
    assert.equal(await refusal(() => leases.list(options).next()), told);
  }
  // The control: both kinds of filter work.
  await Promise.all(['a1', 'a2', 'b1'].map((name) => leases.acquire(name)));
  const names = async (options) => {
    const found = [];
    for await (const { name } of leases.list(options)) found.push(name);
    return found;
  };
  assert.deepEqual(await names({ prefix: 'a' }), ['a1', 'a2']);
  assert.deepEqual(await names({ glob: '?1' }), ['a1', 'b1']);
  assert.equal((await leases.get('a1')).state, 'held');
});

test('work under a permit has its permit, and what is no work is refused', async () => {
  const leases = inMemory().manager();
  const five = leases.semaphore('five', 5);
  const used = await five.withLease(
    async ({ permits }) => [permits, (await leases.get('five')).limit],
    { permits: 2 },
  );
  assert.deepEqual(used, [2, 5]);
  assert.equal(await leases.get('five'), undefined);
  const told = 'INVALID_OPTION work: work: must be a function';
  assert.equal(await refusal(() => five.withLease()), told);
  assert.equal(await refusal(() => leases.withLease('x', Promise.resolve())), told);
  assert.equal(await leases.get('x'), undefined);
});

test('a database that is none is an invalid option, and Mongoose has a hint', async () => {
  const connection = mongoose.createConnection();
  for (const db of [undefined, null, 5, {}, connection.db, connection]) {
    const found = await refusal(() => new LeaseManager(db));
    assert.match(
      found ?? '',
      /^INVALID_OPTION db: db: must be a `Db` of the package `mongodb`, or a connection of Mongoose once it is connected/,
    );
  }
  await connection.close();
});

test('the arguments of a fenced write are checked', async () => {
  const sent = [];
  const collection = {
    bsonOptions: {},
    updateOne: (...all) => sent.push(all),
    findOne: () => null,
  };
  const names = 'field, upsert, session';
  const set = { $set: { a: 1 } };
  for (const [args, told] of [
    [[undefined, set, 1n], 'INVALID_OPTION filter: filter: must be a document'],
    [
      [{ _id: 1 }, undefined, 1n],
      'INVALID_OPTION update: update: must be a document or a list of stages',
    ],
    [[{ _id: 1 }, 5, 1n], 'INVALID_OPTION update: update: must be a document or a list of stages'],
    [[{ _id: cyclic }, set, 1n], /^INVALID_OPTION filter: filter: .*circular/],
    [[{ _id: 1 }, { $set: cyclic }, 1n], /^INVALID_OPTION update: update: .*circular/],
    [[{ _id: 1 }, set, 1], 'INVALID_OPTION token: token: must be a bigint, as `lease.token` is'],
    // More than 64 bits: less would be another token.
    [
      [{ _id: 1 }, set, 2n ** 64n],
      'INVALID_OPTION token: token: must be a bigint, as `lease.token` is',
    ],
    [[{ _id: 1 }, set, -1n], 'INVALID_OPTION token: token: must be a bigint, as `lease.token` is'],
    [
      [{ _id: 1 }, set, 1n, { session: {} }],
      'INVALID_OPTION session: session: must be a ClientSession of the driver',
    ],
    [[{ _id: 1 }, set, 1n, { field: 5 }], 'INVALID_OPTION field: field: must be a string'],
    [
      [{ _id: 1 }, set, 1n, { upsert: 'yes' }],
      'INVALID_OPTION upsert: upsert: must be true or false',
    ],
    [
      [{ _id: 1 }, set, 1n, { fild: 'x' }],
      'INVALID_OPTION options: options: there is no option "fild"; there are field, upsert, session',
    ],
    [
      [{ _id: 1 }, set, 1n, 5],
      `INVALID_OPTION options: options: must be an object, with any of ${names}`,
    ],
    [
      [{ _id: 1 }, set, 1n, null],
      `INVALID_OPTION options: options: must be an object, with any of ${names}`,
    ],
  ]) {
    const found = await refusal(() => fencedUpdate(collection, ...args));
    if (typeof told === 'string') assert.equal(found, told);
    else assert.match(found ?? '', told);
  }
  for (const none of [undefined, null, 5, {}, 'invoices']) {
    const found = await refusal(() => fencedUpdate(none, { _id: 1 }, set, 1n));
    assert.equal(
      found?.slice(0, 78),
      'INVALID_OPTION collection: collection: must be a `Collection` of the package `',
    );
  }
  assert.deepEqual(sent, []);
});

test('whatever the arguments are, a call succeeds or is refused with an error of the package', async () => {
  const store = inMemory();
  const leases = store.manager();
  const lease = await leases.acquire('held');
  const collection = { updateOne: () => ({ matchedCount: 1 }), findOne: () => null };
  const hostile = [
    undefined,
    null,
    true,
    0,
    -1,
    0.5,
    5,
    NaN,
    Infinity,
    -Infinity,
    2 ** 53,
    5n,
    '',
    'x',
    '\0',
    '\ud800',
    'x'.repeat(600),
    Symbol('s'),
    [],
    ['x'],
    {},
    { toString: null },
    () => 'x',
    /x/,
    new Date(),
    new Map([['a', 1]]),
    Buffer.alloc(5),
    Promise.resolve('x'),
    Object.create(null),
    new Proxy({}, {}),
    { valueOf: () => 5 },
  ];
  const options = [
    'wait',
    'ttl',
    'signal',
    'metadata',
    'renew',
    'maxHold',
    'owner',
    'value',
    'limit',
    'permits',
    'shared',
    'prefix',
    'glob',
    'heldBy',
    'withFree',
    'collection',
    'maxClockSkew',
    'attemptTimeout',
    'buildTimeout',
    'releaseTimeout',
    'shutdownTimeout',
    'waiterTtl',
    'recheckEvery',
    'changeStream',
    'maxWaiting',
    'maxInFlight',
    'assumeIndexes',
    'ensureIndexes',
    'field',
    'upsert',
    'session',
  ];
  const five = leases.semaphore('five', 5);
  const calls = [
    (it) => leases.tryAcquire(it),
    (it) => leases.acquire('a', it),
    (it) => leases.tryAcquire('a', it),
    (it) => leases.withLease('a', it),
    (it) => leases.withLease(it, () => 1),
    (it) => leases.withLease('b', () => 1, it),
    (it) => leases.release(it),
    (it) => leases.release('x', it),
    (it) => leases.get(it),
    (it) => leases.list(it).next(),
    (it) => leases.semaphore(it, 5),
    (it) => leases.semaphore('x', it),
    (it) => five.tryAcquire(it),
    (it) => five.withLease(it),
    (it) => five.withLease(() => 1, it),
    (it) => store.manager(it),
    (it) => store.expire(it),
    (it) => store.release(it),
    (it) => (typeof it === 'number' && it > 1e9 && it < Infinity ? undefined : store.advance(it)),
    (it) => lease.transaction(it),
    (it) => lease.guard(it),
    (it) => new LeaseManager(it),
    (it) => fencedUpdate(it, {}, {}, 1n),
    (it) => fencedUpdate(collection, it, { $set: { a: 1 } }, 1n),
    (it) => fencedUpdate(collection, { _id: 1 }, it, 1n),
    (it) => fencedUpdate(collection, { _id: 1 }, { $set: { a: 1 } }, it),
    (it) => fencedUpdate(collection, { _id: 1 }, { $set: { a: 1 } }, 1n, it),
  ];
  let [refused, told] = [0, new Set()];
  for (const call of calls) {
    for (const value of [
      ...hostile,
      ...options.flatMap((option) => hostile.map((it) => ({ [option]: it }))),
    ]) {
      try {
        const made = await call(value);
        // It is in the way of no later call.
        if (made instanceof mongoLease.Lease) await made.release();
      } catch (error) {
        assert.ok(
          error instanceof mongoLease.LeaseError,
          `${call}: ${inspect(value)}: ${error.stack}`,
        );
        const isWrong = ![
          'INVALID_OPTION',
          'INVALID_NAME',
          'UNSUPPORTED',
          'BUSY',
          'SHUT_DOWN',
        ].includes(error.code);
        assert.ok(!isWrong, `${call}: ${inspect(value)}: ${error.code} ${error.message}`);
        // A name with an underscore is one of the Rust library.
        assert.doesNotMatch(`${error.option}`, /_/);
        refused += 1;
        told.add(error.message);
      }
    }
  }
  // The control: many are refused, in few words.
  assert.ok(refused > 5000 && told.size < 400, `${refused} ${told.size}`);
});

test('an option whose getter throws is not hidden, and what a getter returns later does not count', async () => {
  const leases = inMemory().manager();
  const own = new Error('own');
  const throwing = {
    get ttl() {
      throw own;
    },
  };
  for (const call of [leases.acquire, leases.tryAcquire]) {
    await assert.rejects(
      () => call.call(leases, 'x', throwing),
      (error) => error === own,
    );
  }
  let reads = 0;
  const changing = {
    get wait() {
      reads += 1;
      return reads === 1 ? 0 : 'never';
    },
  };
  await leases.acquire('x', changing);
  assert.equal(reads, 1);
});

test('metadata have well-formed texts only', async () => {
  const leases = inMemory().manager();
  const told = 'INVALID_OPTION metadata: metadata: it is no well-formed Unicode';
  for (const metadata of [
    { '\ud800': 1 },
    { a: '\udc00' },
    { a: [{ b: ['\ud800'] }] },
    { a: new Map([['\ud800', 1]]) },
  ]) {
    assert.equal(await refusal(() => leases.tryAcquire('x', { metadata })), told);
  }
  const own = { toBSON: () => ({ a: '\ud800' }) };
  own.self = own;
  assert.equal(await refusal(() => leases.tryAcquire('x', { metadata: { own } })), told);
  const metadata = { '💥': ['ä'], buffer: Buffer.from([0xd8]), date: new Date() };
  assert.ok(await leases.tryAcquire('x', { metadata }));
});

test('eleven calls with one signal leave one listener, and no warning', async () => {
  const store = inMemory();
  const leases = store.manager();
  const warnings = [];
  const heard = (warning) => warnings.push(warning.name);
  process.on('warning', heard);
  const { signal } = new AbortController();
  let [added, removed] = [0, 0];
  const { addEventListener, removeEventListener } = signal;
  signal.addEventListener = (...all) => {
    added += 1;
    addEventListener.apply(signal, all);
  };
  signal.removeEventListener = (...all) => {
    removed += 1;
    removeEventListener.apply(signal, all);
  };
  const held = await leases.acquire('x');
  const calls = Array.from({ length: 11 }, () => leases.acquire('x', { signal, wait: 60_000 }));
  await store.advance(0);
  assert.deepEqual([added, removed], [1, 0]);
  await held.release();
  for (const call of calls) {
    await store.advance(0);
    await (await call).release();
  }
  process.off('warning', heard);
  assert.deepEqual([warnings, added, removed], [[], 1, 1]);
});

test('a signal ends each of the calls that wait with it, and no other', async () => {
  const store = inMemory();
  const leases = store.manager();
  const stop = new AbortController();
  await leases.acquire('x');
  const calls = Array.from({ length: 12 }, () => leases.acquire('x', { signal: stop.signal }));
  const other = leases.acquire('x', { wait: 1000 });
  const ended = Promise.allSettled([...calls, other]);
  await store.advance(0);
  stop.abort(new Error('enough'));
  await store.advance(1000);
  const told = (await ended).map(({ reason }) => reason.message);
  assert.deepEqual(told.slice(0, 12), Array(12).fill('enough'));
  assert.match(told[12], /^lease "x" was not granted/);
});

test('a lease, its manager and a semaphore are shown in a line, without the value', async () => {
  const leases = inMemory().manager();
  const lease = await leases.acquire('x');
  const { token, value } = lease;
  const shown = inspect({ lease, leases, semaphore: leases.semaphore('five', 5) }, { depth: 5 });
  assert.equal(
    shown,
    `{
  lease: Lease { name: 'x', valid: true, remaining: 29700, token: ${token}n },
  leases: LeaseManager { collection: 'locks', held: [ 'x' ], closed: false },
  semaphore: Semaphore { name: 'five', limit: 5 }
}`,
  );
  const json = JSON.stringify({ lease, leases });
  assert.deepEqual(JSON.parse(json), {
    lease: { name: 'x', token: String(token), valid: true, remaining: 29_700 },
    leases: { collection: 'locks', held: ['x'], closed: false },
  });
  assert.ok(![shown, json].some((text) => text.includes(value)));
  await lease.release();
  assert.deepEqual(lease.toJSON(), {
    name: 'x',
    token: String(token),
    valid: false,
    remaining: 0,
    lost: 'released',
  });
});

test('values, by which leases can be released, are in no log and in no JSON', async () => {
  const store = inMemory();
  const [leases, other] = [store.manager(), store.manager()];
  const lease = await leases.acquire('x');
  const permit = await leases.acquire('five', { limit: 5, permits: 2 });
  const [info, shared] = [await other.get('x'), await other.get('five')];
  assert.deepEqual([info.value, shared.holders[0].value], [lease.value, permit.value]);
  const busy = await other.acquire('x', { wait: 0 }).catch((error) => error);
  assert.equal(busy.held.value, lease.value);
  for (const each of [lease, permit, leases, other, info, shared, busy, store]) {
    const told = inspect(each, { depth: 10 }) + JSON.stringify(each);
    assert.ok(![lease, permit].some(({ value }) => told.includes(value)), told);
    // Nor is there anything of the engine.
    assert.doesNotMatch(told, /engine|__wbg_ptr|backend/);
  }
  const { permits } = permit.toJSON();
  assert.equal(permits, 2);
  assert.deepEqual(JSON.parse(JSON.stringify(busy)), {
    name: 'LeaseBusyError',
    code: 'BUSY',
    message: busy.message,
    isTransient: true,
    retryAfter: busy.retryAfter,
    held: JSON.parse(JSON.stringify(info)),
  });
  assert.equal(inspect(store), 'MemoryStore { now: 2026-01-01T00:00:01.000Z, hangs: false }');
  store.hang();
  assert.deepEqual(JSON.parse(JSON.stringify(store)), {
    now: '2026-01-01T00:00:01.000Z',
    hangs: true,
  });
});

test('leases are released by name and value', async () => {
  const store = inMemory();
  const [holder, other] = [store.manager(), store.manager()];
  const lease = await holder.acquire('x', { value: 'order-7' });
  assert.equal(await other.release('x', 'order-8'), 'notHeld');
  assert.equal(await other.release('y', 'order-7'), 'notHeld');
  assert.equal((await other.get('x')).value, 'order-7');
  const waiting = other.acquire('x', { wait: 60_000 });
  await store.advance(0);
  assert.equal(await other.release('x', 'order-7'), 'released');
  await store.advance(0);
  const next = await waiting;
  // The former holder learns it at its next renewal, and frees nothing of the next one.
  await store.advance(30_000);
  assert.equal(lease.isValid(), false);
  assert.equal(await lease.release(), 'notHeld');
  assert.equal(next.isValid(), true);
  const permit = await holder.acquire('five', { limit: 5, value: 'one' });
  const kept = await holder.acquire('five', { limit: 5, value: 'two' });
  assert.equal(await other.release('five', permit.value), 'released');
  assert.deepEqual(
    (await other.get('five')).holders.map(({ value }) => value),
    [kept.value],
  );
  for (const [name, value, told] of [
    [5, 'a', `INVALID_NAME name: ${NAME}: it is no string`],
    ['', 'a', `INVALID_NAME name: ${NAME}`],
    ['x', 5, 'INVALID_OPTION value: value: must be a string'],
    ['x', '\ud800', 'INVALID_OPTION value: value: it is no well-formed Unicode'],
    [
      'five',
      'mongo-lease/shared',
      /^INVALID_OPTION value: value: is that of a lease that several hold/,
    ],
  ]) {
    const found = await refusal(() => other.release(name, value));
    if (typeof told === 'string') assert.equal(found.slice(0, told.length), told);
    else assert.match(found, told);
  }
});

test("a user's mock can throw each error of the package", () => {
  const shown = (error) => [error.name, error.message, error.code, error.isTransient];
  const made = Object.entries(mongoLease).filter(([name]) => name.endsWith('Error'));
  assert.deepEqual(made.map(([, Made]) => shown(new Made('mocked'))).sort(), [
    ['CommitUnknownError', 'mocked', 'COMMIT_UNKNOWN', false],
    ['DamagedError', 'mocked', 'DAMAGED', false],
    ['DatabaseError', 'mocked', 'MONGODB', false],
    ['InvalidOptionError', 'mocked', 'INVALID_OPTION', false],
    ['LeaseBusyError', 'mocked', 'BUSY', true],
    ['LeaseError', 'mocked', 'MONGODB', false],
    ['LeaseLostError', 'mocked', 'LOST', false],
    ['NotReadyError', 'mocked', 'NOT_MIGRATED', false],
    ['QueueFullError', 'mocked', 'QUEUE_FULL', true],
    ['ShutDownError', 'mocked', 'SHUT_DOWN', false],
    ['TransactionTooLongError', 'mocked', 'TRANSACTION_TOO_LONG', false],
    ['UnknownOutcomeError', 'mocked', 'UNKNOWN', true],
    ['UnsupportedError', 'mocked', 'UNSUPPORTED', false],
    ['WaitTimeoutError', 'mocked', 'WAIT_TIMEOUT', true],
  ]);
  const { LeaseBusyError, LeaseLostError, InvalidOptionError } = mongoLease;
  const cause = new Error('the cause');
  const busy = new LeaseBusyError({ message: 'held', retryAfter: 500 }, { cause });
  assert.deepEqual([busy.retryAfter, busy.held, busy.cause], [500, undefined, cause]);
  assert.equal(new LeaseLostError({ reason: 'takenOver' }).reason, 'takenOver');
  assert.equal(new InvalidOptionError({ option: 'ttl' }).option, 'ttl');
  assert.deepEqual(
    [undefined, null, 5].map((told) => new LeaseLostError(told).message),
    ['', '', '5'],
  );
  class Own extends LeaseLostError {}
  assert.deepEqual(shown(new Own('own')), ['Own', 'own', 'LOST', false]);
});

test('a fenced write goes to a collection, and not to a model, which drops the token', async () => {
  const Invoice = mongoose.model('Fenced', new mongoose.Schema({ state: String }));
  const write = (to) => fencedUpdate(to, { _id: 1 }, { $set: { state: 'sent' } }, 1n);
  assert.match(
    await refusal(() => write(Invoice)),
    /^INVALID_OPTION collection: collection: must be/,
  );
  // Its collection is taken: no connection is open, so the write itself fails.
  mongoose.set('bufferTimeoutMS', 1);
  assert.doesNotMatch(await refusal(() => write(Invoice.collection)), /INVALID_OPTION/);
});
