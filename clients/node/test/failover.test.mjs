// A primary that steps down and is elected again: no lease is lost, nobody is forgotten in a queue, tokens rise.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LeaseManager } from '../index.mjs';
import { World, ownServer } from './help.mjs';

test('over step-downs of the primary, leases are kept, handed off and granted anew', async (t) => {
  const world = World.of(t);
  const uri = await ownServer(world);
  const make = (options) => {
    const leases = new LeaseManager(world.client(uri).db('failover'), {
      ensureIndexes: true,
      ...options,
    });
    world.onEnd(() => leases.close());
    return leases;
  };
  const [here, there] = [make({ ttl: 20_000 }), make()];
  const admin = world.client(uri, { serverSelectionTimeoutMS: 20_000 }).db('admin');
  let last = 0n;
  for (let round = 0; round < 3; round += 1) {
    const lease = await here.acquire('kept', { wait: 60_000 });
    assert.ok(lease.token > last);
    const { token } = lease;
    const waiting = there.acquire('kept', { wait: 60_000 });
    while (!((await here.get('kept'))?.waiting > 0));
    // Its connections break. The only member is elected again when its time as a secondary is over.
    await admin.command({ replSetStepDown: 1, force: true }).catch(() => undefined);
    await lease.renew();
    assert.equal(lease.isValid(), true);
    assert.ok(['released', 'unknown'].includes(await lease.release()));
    const next = await waiting;
    assert.ok(next.token > token);
    last = next.token;
    assert.ok(['released', 'unknown'].includes(await next.release()));
  }
  assert.equal(await world.client(uri).db('failover').collection('locks').countDocuments({}), 0);
});
