// What a person sees of an error: the line of the call, and a text in the words of TypeScript.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inMemory } from '../index.mjs';

/** The error of a call, while time passes. */
async function errorOf(store, call) {
  let error;
  const ended = call().then(
    () => assert.fail('it must fail'),
    (found) => (error = found),
  );
  while (error === undefined) await store.advance(1000);
  await ended;
  return error;
}

test('the stack of each error has the line of the call', async () => {
  const store = inMemory();
  const [leases, other, closed] = [store.manager(), store.manager(), store.manager()];
  const held = await leases.acquire('x', { ttl: 36_000_000 });
  const short = await leases.acquire('short', { renew: false, ttl: 1000 });
  await store.advance(1000);
  await closed.close();
  const five = other.semaphore('x', 5);
  const forever = () => new Promise(() => undefined);
  const calls = [
    [
      'INVALID_OPTION',
      async function theCaller() {
        await other.acquire('y', { ttl: 'long' });
      },
    ],
    [
      'INVALID_OPTION',
      async function theCaller() {
        await five.withLease(() => 1, { permits: 'two' });
      },
    ],
    [
      'INVALID_OPTION',
      async function theCaller() {
        for await (const _ of other.list({ prefix: 5 }));
      },
    ],
    [
      'INVALID_OPTION',
      async function theCaller() {
        other.semaphore('x', 'y');
      },
    ],
    [
      'INVALID_NAME',
      async function theCaller() {
        await other.get(5);
      },
    ],
    [
      'BUSY',
      async function theCaller() {
        await other.acquire('x', { wait: 0 });
      },
    ],
    [
      'WAIT_TIMEOUT',
      async function theCaller() {
        await other.acquire('x', { wait: 1000 });
      },
    ],
    [
      'WAIT_TIMEOUT',
      async function theCaller() {
        await Promise.all([other.acquire('x', { wait: 1000 })]);
      },
    ],
    [
      'WAIT_TIMEOUT',
      async function theCaller() {
        await five.withLease(() => 1, { wait: 1000 });
      },
    ],
    [
      'LOST',
      async function theCaller() {
        await other.withLease('y', forever, { renew: false, ttl: 1000 });
      },
    ],
    [
      'LOST',
      async function theCaller() {
        short.check();
      },
    ],
    [
      'LOST',
      async function theCaller() {
        await short.renew();
      },
    ],
    [
      'UNSUPPORTED',
      async function theCaller() {
        await held.transaction(forever);
      },
    ],
    [
      'SHUT_DOWN',
      async function theCaller() {
        await closed.acquire('y');
      },
    ],
  ];
  const hanging = [
    [
      'UNKNOWN',
      async function theCaller() {
        await other.get('x');
      },
    ],
    [
      'UNKNOWN',
      async function theCaller() {
        for await (const _ of other.list());
      },
    ],
    [
      'UNKNOWN',
      async function theCaller() {
        await other.tryAcquire('y');
      },
    ],
    [
      'WAIT_TIMEOUT',
      async function theCaller() {
        await other.acquire('y', { wait: 5000 });
      },
    ],
    [
      'UNKNOWN',
      async function theCaller() {
        await other.release('x', 'y');
      },
    ],
    [
      'UNKNOWN',
      async function theCaller() {
        await held.release();
      },
    ],
    // The same release, and another caller.
    [
      'UNKNOWN',
      async function theCaller() {
        await held.release();
      },
    ],
    [
      'UNKNOWN',
      async function theCaller() {
        await store.manager().ready();
      },
    ],
  ];
  const check = async ([code, call]) => {
    const error = await errorOf(store, call);
    assert.equal(error.code, code, `${call}: ${error.stack}`);
    assert.match(error.stack, /^ +at (async )?theCaller /m, `${call}: ${error.stack}`);
  };
  for (const each of calls) await check(each);
  store.hang();
  for (const each of hanging) await check(each);
  store.goOn();
  // The user's own limit counts again, and none is none.
  assert.equal(Error.stackTraceLimit, 10);
  Error.stackTraceLimit = 0;
  const { stack } = await errorOf(store, () => closed.get('x'));
  assert.equal([Error.stackTraceLimit, (Error.stackTraceLimit = 10)][0], 0);
  assert.equal(stack, 'ShutDownError: the lease manager has been shut down');
});

test('options in texts have their names in TypeScript', async () => {
  const store = inMemory();
  const leases = store.manager();
  const short = await leases.acquire('max_hold', { maxHold: 1000 });
  await store.advance(1000);
  const message =
    'lease "max_hold" is lost: it ended as asked, by its maxHold (a job\'s atMost) or with its renewal off';
  assert.throws(() => short.check(), { message });
  for (const [options, option, reason] of [
    [{ maxClockSkew: 3_600_001 }, 'maxClockSkew', 'a maximum clock skew of 1h 1ms is above 1h'],
    [{ waiterTtl: 1 }, 'waiterTtl', 'must be between 500ms and 10m'],
    [
      { attemptTimeout: 1 },
      'attemptTimeout',
      /^attemptTimeout: an attempt timeout of 1ms is not between/,
    ],
    [{ recheckEvery: 0 }, 'recheckEvery', 'must be greater than zero'],
    [{ maxWaiting: 0 }, 'maxWaiting', 'must be between 1 and 1024'],
    [{ maxInFlight: 0 }, 'maxInFlight', 'must be between 1 and 10000'],
    [{ releaseTimeout: 0 }, 'releaseTimeout', 'must be greater than zero'],
    [{ ensureIndexes: 1 }, 'ensureIndexes', 'must be true or false'],
    [{ ttl: Infinity }, 'ttl', /^ttl: a ttl of .* is not between 100ms and 366days$/],
  ]) {
    const text = typeof reason === 'string' ? `${option}: ${reason}` : reason;
    assert.throws(() => store.manager(options), { code: 'INVALID_OPTION', option, message: text });
  }
  await assert.rejects(leases.tryAcquire('a', { maxHold: 1 }), {
    option: 'maxHold',
    message: 'maxHold: must be at least 100ms',
  });
});
