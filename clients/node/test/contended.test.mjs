// A lease for which fifty processes wait, whose heartbeats write to its document all the time.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { World, queueOf } from './help.mjs';

const WAITING = 50;
const TRANSACTIONS = 3;
// A heartbeat comes each third of it, so that several of each process come within a second.
const WAITER_TTL = 1500;

test('while fifty wait, each transaction of a second commits by its second try', async (t) => {
  const world = World.of(t);
  const client = world.client();
  const lease = await world.manager({}, client).acquire('a');
  const papers = await world.db(client).createCollection('papers');
  const locks = world.db(client).collection('locks');
  const stop = new AbortController();
  // Each has a client of its own, as another process has.
  const managers = Array.from({ length: WAITING }, () => world.manager({ waiterTtl: WAITER_TTL }));
  const wish = { wait: 600_000, signal: stop.signal };
  const waiting = managers.map((leases) => leases.acquire('a', wish).catch((error) => error));
  await queueOf(world.db(), 'a', WAITING);
  const document = async () => JSON.stringify(await locks.findOne({ name: 'a' }));
  const tries = [];
  for (let _id = 0; _id < TRANSACTIONS; _id += 1) {
    tries.push(0);
    await lease.transaction(async (session) => {
      tries[_id] += 1;
      assert.ok(tries[_id] <= 2, `${tries}`);
      await papers.insertOne({ _id }, { session });
      const seen = await document();
      await sleep(1000);
      // The first try is certain to meet another write. The second one keeps others from writing.
      while (tries[_id] === 1 && (await document()) === seen) await sleep(50);
    });
  }
  // The control: each first try met a conflict.
  assert.deepEqual(
    tries,
    Array.from({ length: TRANSACTIONS }, () => 2),
  );
  assert.equal(await papers.countDocuments(), TRANSACTIONS);
  stop.abort();
  const ended = await Promise.all(waiting);
  assert.ok(ended.every(({ name }) => name === 'AbortError'));
  await lease.release();
});
