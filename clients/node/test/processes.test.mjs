// Which process holds a lease is judged by what the process has made, and not by its host name and its process id. And
// how a process ends: what keeps it alive, and what it leaves behind.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { World, queueOf } from './help.mjs';

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
  assert.deepEqual(told, [
    [true, true, true],
    [true, true, true],
    [false, false, false],
  ]);
  await lease.release();
  await reader.release();
});

/** Starts a process in this state that ends so; see `ending.mjs`. */
function ending(world, state, end) {
  const file = fileURLToPath(new URL('ending.mjs', import.meta.url));
  return world.program(process.execPath, [file, state, end]);
}

/** How a process ended: its exit code, or its signal. */
async function ended({ process: child }) {
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
  return child.exitCode ?? child.signalCode;
}

test('a manager keeps no process alive whose client is closed', async (t) => {
  const world = World.of(t);
  const here = world.manager();
  for (const state of ['idle', 'held', 'waited']) {
    const lease = state === 'waited' ? await here.acquire('x') : undefined;
    const program = ending(world, state, 'closesClient');
    if (lease) {
      await queueOf(world.db(), 'x', 1);
      await lease.release();
    }
    assert.equal(await program.line((line) => line.startsWith('timers')), 'timers 0', state);
    assert.equal(await ended(program), 0, state);
    // One that was held is left to expire.
    assert.equal((await here.get('x'))?.state, state === 'held' ? 'held' : undefined);
    await world.db().collection('locks').deleteMany({});
  }
});

test('what ends a process without a close leaves its leases and its queue entries to expire', async (t) => {
  const world = World.of(t);
  const here = world.manager();
  for (const [state, end, signal, expected] of [
    ['held', 'goesOn', 'SIGINT', 'SIGINT'],
    ['held', 'goesOn', 'SIGTERM', 'SIGTERM'],
    ['held', 'exits', undefined, 3],
    ['held', 'throws', undefined, 1],
    ['waiting', 'goesOn', 'SIGKILL', 'SIGKILL'],
  ]) {
    if (state === 'waiting') await here.acquire('x');
    const program = ending(world, state, end);
    if (signal) {
      await program.line((line) => line === 'ready');
      program.process.kill(signal);
    }
    assert.equal(await ended(program), expected, end);
    const { owner, waiting, remaining } = await here.get('x');
    assert.equal(waiting, state === 'waiting' ? 1 : 0);
    if (state === 'held') assert.match(owner, new RegExp(`:${program.process.pid}$`));
    assert.ok(remaining > 0);
    await world.db().collection('locks').deleteMany({});
  }
});

test("with the README's lines a signal releases leases and leaves queues, and ends the process", async (t) => {
  const world = World.of(t);
  const here = world.manager();
  for (const signal of ['SIGINT', 'SIGTERM']) {
    const holder = ending(world, 'held', 'closesOnSignals');
    await holder.line((line) => line === 'ready');
    holder.process.kill(signal);
    assert.equal(await ended(holder), signal);
    const lease = await here.tryAcquire('x');
    assert.ok(lease, 'it is free at once');
    const waiter = ending(world, 'waiting', 'closesOnSignals');
    await waiter.line((line) => line === 'ready');
    waiter.process.kill(signal);
    assert.equal(await waiter.line((line) => line.includes('_')), 'SHUT_DOWN');
    assert.equal(await ended(waiter), signal);
    assert.equal((await here.get('x')).waiting, 0);
    await lease.release();
  }
});
