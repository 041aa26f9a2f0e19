// A user's test under fake timers, for `fakes.test.mjs`: those may take the test runner's own timers too.

import assert from 'node:assert/strict';
import { writeSync } from 'node:fs';
import { createRequire } from 'node:module';
import { mock } from 'node:test';
import FakeTimers from '@sinonjs/fake-timers';

const [fakes, isBefore] = [process.argv[2], process.argv[3] === 'before'];
const require = createRequire(import.meta.url);
const APIS = ['setTimeout', 'setInterval', 'setImmediate', 'Date'];
const trueOne = setTimeout;

const INSTALL = {
  // As Jest has them: all that there is, `nextTick` too.
  all: () => FakeTimers.install(),
  // As Vitest has them.
  some: () =>
    FakeTimers.install({
      toFake: [...APIS, 'clearTimeout', 'clearInterval', 'clearImmediate', 'performance', 'hrtime'],
    }),
  node: () => {
    mock.timers.enable({ apis: APIS });
    return { uninstall: () => mock.timers.reset() };
  },
};

/** A lease in memory is renewed as the store's time passes, and a timer of the true clock fires. */
async function works({ inMemory }, { SystemClock }) {
  const store = inMemory();
  const [leases, other] = [store.manager(), store.manager()];
  const lease = await leases.acquire('x', { ttl: 1000 });
  const waiting = other.acquire('x', { wait: 60_000 });
  await store.advance(5000);
  assert.equal(lease.isValid(), true);
  await lease.release();
  await store.advance(0);
  assert.equal((await waiting).isValid(), true);
  await other.close();
  const clock = new SystemClock();
  const before = clock.now();
  await new Promise((resolve) => clock.timer(before + 5000, resolve));
  assert.ok(clock.now() >= before + 5000);
}

const load = () => [require('../dist/index.js'), require('../dist/clock.js')];
const early = isBefore ? undefined : load();
const installed = INSTALL[fakes]();
// The control: the fakes are in place.
assert.notEqual(setTimeout, trueOne);
setTimeout(() => assert.fail('a fake timer has fired'), 1);
const loaded = early ?? load();
await works(...loaded);
installed.uninstall();
// A manager that has seen them goes on.
await works(...loaded);
writeSync(1, 'works\n');
