// Which process holds a lease is judged by what the process has made, and not by its host name and its process id.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { World } from './help.mjs';

/** The package once more, as a process in another container has it: with the same host name and the same process id. */
function otherProcess() {
  const require = createRequire(import.meta.url);
  const loaded = Object.entries(require.cache).filter(([path]) => path.includes('/dist/'));
  loaded.forEach(([path]) => delete require.cache[path]);
  const other = require('../dist/index.js');
  Object.assign(require.cache, Object.fromEntries(loaded));
  return other;
}

test('of two processes with one host name and one id, the holder alone holds it here', async (t) => {
  const world = World.of(t);
  const here = world.manager();
  const again = world.manager();
  const { LeaseManager } = otherProcess();
  assert.notEqual(LeaseManager, here.constructor);
  const there = new LeaseManager(world.db(), { ensureIndexes: true });
  world.onEnd(() => there.close());
  const lease = await here.acquire('x');
  const reader = await here.acquire('shared', { shared: true });
  const told = [];
  for (const leases of [here, again, there]) {
    const { owner, heldHere } = await leases.get('x');
    const { holders } = await leases.get('shared');
    const late = await leases.acquire('x', { wait: 0 }).catch(({ message }) => message);
    told.push([heldHere, holders[0].heldHere, /not re-entrant/.test(late)]);
    assert.match(owner, /@.+:\d+$/);
  }
  assert.deepEqual(told, [[true, true, true], [true, true, true], [false, false, false]]);
  await lease.release();
  await reader.release();
});
