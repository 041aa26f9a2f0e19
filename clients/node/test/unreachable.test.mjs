// A database that is not there: calls end by their own bounds, tell the first cause, and the next one tries again.

import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { once } from 'node:events';
import { test } from 'node:test';
import { LeaseManager } from '../index.mjs';
import { World, within } from './help.mjs';
import { Proxy } from './proxy.mjs';

/** A port at which nobody listens. */
async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

async function away(t, options = {}) {
  const world = World.of(t);
  const port = await freePort();
  const client = world.client(`mongodb://127.0.0.1:${port}/?directConnection=true`, options);
  const leases = new LeaseManager(client.db(world.name), { ensureIndexes: true });
  world.onEnd(() => leases.close());
  return { world, port, client, leases };
}

// Much less than the 30 s for which the driver looks for a server.
const PATIENCE = 15_000;

test('a first call ends by its wait, and says why no server was found', async (t) => {
  const { client, leases } = await away(t);
  const failed = once(client, 'serverHeartbeatFailed');
  const call = () =>
    within(
      PATIENCE,
      leases.acquire('x', { wait: 500 }).catch((it) => it),
    );
  assert.equal((await call())?.code, 'WAIT_TIMEOUT');
  // From now on the driver knows it.
  await failed;
  const error = await call();
  assert.deepEqual([error?.code, error?.isTransient], ['WAIT_TIMEOUT', true]);
  assert.match(error.message, /^lease "x" was not granted within .*ECONNREFUSED/);
  assert.equal(error.cause?.name, 'MongoServerSelectionError');
});

test('a first call ends with its signal, and a close waits for no server', async (t) => {
  const { leases } = await away(t);
  const stop = new AbortController();
  const call = leases.acquire('x', { signal: stop.signal }).catch((it) => it);
  setTimeout(() => stop.abort(new Error('no longer needed')), 300);
  assert.match((await within(PATIENCE, call))?.message ?? '', /no longer needed/);
  const closed = await within(5000, leases.close());
  assert.deepEqual(closed, { released: 0, leftToExpire: [], commandsLeft: 0 });
});

test('when the driver gives up, every call tells the first cause, and the next one connects again', async (t) => {
  const { world, port, client, leases } = await away(t, { serverSelectionTimeoutMS: 1500 });
  // The second one is sent while the first one looks for a server.
  const quick = new LeaseManager(client.db(world.name), { attemptTimeout: 100 });
  world.onEnd(() => quick.close());
  const calls = [leases, quick, quick, leases].map((each) =>
    each.acquire('x', { wait: 60_000 }).catch((it) => it),
  );
  for (const error of await within(PATIENCE, Promise.all(calls))) {
    assert.deepEqual([error.code, error.isTransient], ['MONGODB', true]);
    assert.match(error.message, /ECONNREFUSED/);
  }
  const proxy = await Proxy.start(world, port);
  const lease = await within(PATIENCE, leases.acquire('x'));
  assert.equal(lease?.isValid(), true);
  assert.equal(await lease.release(), 'released');
  assert.ok(proxy.sent.length > 0);
});

test('a client that its user has closed is not connected again', async (t) => {
  const { world } = await away(t);
  const client = world.client();
  const leases = new LeaseManager(client.db(world.name), { ensureIndexes: true });
  const lease = await leases.acquire('x');
  await client.close();
  let opened = 0;
  client.on('open', () => (opened += 1)).on('connectionCreated', () => (opened += 1));
  const told = { code: 'MONGODB', isTransient: false };
  await assert.rejects(leases.acquire('y'), told);
  await assert.rejects(leases.get('x'), told);
  await lease.release().catch(() => undefined);
  await leases.close();
  const other = new LeaseManager(client.db(world.name));
  await assert.rejects(other.acquire('y'), told);
  assert.equal(opened, 0);
});
