// A server without an oplog: tokens from its own counter, waits by polling, and the library's words for the rest.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LeaseManager } from '../index.mjs';
import { World, ownServer } from './help.mjs';

test('a standalone server grants leases with rising tokens, and no permits', async (t) => {
  const world = World.of(t);
  const uri = await ownServer(world, 'standalone');
  const client = world.client(uri);
  const make = () => new LeaseManager(client.db('standalone'), { ensureIndexes: true });
  const [here, there] = [make(), make()];
  world.onEnd(() => here.close());
  world.onEnd(() => there.close());
  const lease = await here.acquire('one');
  const waiting = there.acquire('one');
  assert.equal(await there.tryAcquire('one'), undefined);
  const { token } = lease;
  await lease.release();
  const next = await waiting;
  assert.ok(next.token > token);
  await assert.rejects(here.acquire('one', { shared: true }), {
    code: 'UNSUPPORTED',
    message:
      'unsupported: permits and shared leases need a replica set: the tokens of their holders are times of its oplog',
  });
  await next.release();
});

async function caught(call) {
  try {
    return await call();
  } catch (error) {
    return error;
  }
}

test('a server without the indexes is refused with what mends that', async (t) => {
  const world = World.of(t);
  const leases = world.manager({ ensureIndexes: false });
  const [one, other] = await Promise.all(
    ['a', 'b'].map((name) => caught(() => leases.acquire(name))),
  );
  // Both calls have waited for one check, and each error has the line of its caller.
  assert.notEqual(one, other);
  assert.match(one.stack, /caught \(.*standalone\.test\.mjs:/);
  await assert.rejects(leases.acquire('a'), {
    code: 'NOT_MIGRATED',
    message:
      'the collection `locks` does not exist; the option `ensureIndexes: true` makes what is missing',
  });
  await world.db().collection('locks').createIndex({ name: 1 });
  await assert.rejects(leases.acquire('a'), {
    code: 'NOT_MIGRATED',
    message:
      /^the index `name_1` on `name` is not unique; the TTL index on `expiresAt` is missing; the option /,
  });
  // Where the option is on, the database's own refusal tells why it did not help.
  await assert.rejects(world.manager().acquire('a'), {
    code: 'NOT_MIGRATED',
    message:
      /^the index `name_1` on `name` is not unique; to make it has failed: .*IndexKeySpecsConflict/,
  });
});

test('a damaged document is never granted, and stays as it is', async (t) => {
  const world = World.of(t);
  const leases = world.manager();
  await leases.ready();
  const locks = world.db().collection('locks');
  for (const [expiresAt, type] of [
    [7, 'int'],
    ['soon', 'string'],
    [{}, 'object'],
    [true, 'bool'],
  ]) {
    const name = `damaged ${type}`;
    await locks.insertOne({ name, value: 'other', expiresAt });
    const message = `the document of lease "${name}" is damaged: its expiresAt is of type ${type}`;
    await assert.rejects(leases.acquire(name), { code: 'DAMAGED', message });
    await assert.rejects(leases.tryAcquire(name), { code: 'DAMAGED', message });
    assert.equal((await leases.get(name)).state, 'damaged');
    assert.deepEqual((await locks.findOne({ name })).expiresAt, expiresAt);
  }
});

test('documents of another format are refused', async (t) => {
  const world = World.of(t);
  await world
    .db()
    .collection('locks')
    .insertOne({ name: 'a', grant: { allowanceMs: 1 } });
  const told = /has documents in an unsupported format \(field `grant.allowanceMs`\)/;
  await assert.rejects(world.manager().acquire('b'), told);
});
