// `guard`, within the driver's transactions and within Mongoose's, with both drivers that are supported.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LeaseManager, fencedUpdate } from '../index.mjs';
import { World, mongooseOfDriver, takeOver, uri } from './help.mjs';

test("a stale transaction is refused before the user's write", async (t) => {
  const world = World.of(t);
  const client = world.client();
  const leases = world.manager({}, client);
  const invoices = world.db(client).collection('invoices');
  await invoices.insertOne({ _id: 0 });
  const lease = await leases.acquire('invoice:1');
  const pay = (number) =>
    client.withSession((session) =>
      session.withTransaction(async () => {
        await lease.guard(session);
        await invoices.insertOne({ _id: number }, { session });
      }),
    );
  await pay(1);
  await takeOver(world, 'invoice:1');
  await assert.rejects(pay(2), { code: 'LOST', reason: 'takenOver' });
  assert.equal(await invoices.countDocuments({ _id: 2 }), 0);
  assert.equal(lease.isValid(), false);
  // The control: without the guard the stale write is made.
  await invoices.insertOne({ _id: 3 });
  assert.equal(await invoices.countDocuments({}), 3);
});

test('a take-over waits for the commit, and a renewal of others does not', async (t) => {
  const world = World.of(t);
  const client = world.client(undefined, { monitorCommands: true });
  const ttl = 4500;
  const leases = world.manager({ ttl }, client);
  const [guarded, other] = [await leases.acquire('guarded'), await leases.acquire('other')];
  let isLost = false;
  const lost = new Promise((resolve) => other.signal.addEventListener('abort', resolve));
  lost.then(() => (isLost = true));
  const next = world.manager().acquire('guarded', { wait: 20_000 });
  const session = client.startSession();
  session.startTransaction();
  await guarded.guard(session);
  let isGranted = false;
  next.then(() => (isGranted = true));
  // Until the other lease has lasted for longer than it does without a renewal.
  const endOf = () => performance.now() + other.remaining();
  const first = endOf();
  while (!isLost && endOf() < first + ttl) {
    await Promise.race([lost, new Promise((resolve) => client.once('commandSucceeded', resolve))]);
  }
  assert.equal(isLost, false, 'the other lease was not renewed');
  assert.ok(other.isValid());
  assert.equal(isGranted, false);
  await session.commitTransaction();
  await session.endSession();
  await guarded.release();
  await (await next).release();
  await other.release();
});

test('within Mongoose, a loss ends the transaction', async (t) => {
  const { default: mongoose } = await import(mongooseOfDriver);
  const world = World.of(t);
  const connection = await mongoose.createConnection(uri, { dbName: world.name }).asPromise();
  world.onEnd(() => connection.close());
  const leases = new LeaseManager(connection.db, { ensureIndexes: true });
  world.onEnd(() => leases.close());
  const Order = connection.model('Order', new mongoose.Schema({ _id: Number, state: String }));
  await Order.create({ _id: 1, state: 'new' });
  const lease = await leases.acquire('order:1');
  const send = (state) =>
    connection.transaction(async (session) => {
      await lease.guard(session);
      await Order.updateOne({ _id: 1 }, { state }, { session });
    });
  await send('sent');
  assert.equal((await Order.findById(1)).state, 'sent');
  await takeOver(world, 'order:1');
  await assert.rejects(send('late'), { code: 'LOST' });
  assert.equal((await Order.findById(1)).state, 'sent');
});

test('a conflict is thrown as the driver makes it, and the transaction is repeated', async (t) => {
  const world = World.of(t);
  const client = world.client();
  const leases = world.manager({}, client);
  const lease = await leases.acquire('conflict');
  const locks = world.db(client).collection('locks');
  let tries = 0;
  let conflict;
  await client.withSession((session) =>
    session.withTransaction(async () => {
      tries += 1;
      // The snapshot begins here, and another write comes before the guard.
      await locks.findOne({ name: 'conflict' }, { session });
      if (tries === 1) await lease.renew();
      try {
        await lease.guard(session);
      } catch (error) {
        conflict = error;
        throw error;
      }
    }),
  );
  assert.equal(tries, 2);
  assert.equal(conflict.code, 112);
  assert.ok(conflict.hasErrorLabel('TransientTransactionError'));
  await lease.release();
});

test('a guard is for exclusive leases', async (t) => {
  const world = World.of(t);
  const client = world.client();
  const lease = await world.manager({}, client).acquire('shared', { shared: true });
  await client.withSession(async (session) => {
    await assert.rejects(lease.guard(session), { code: 'UNSUPPORTED' });
  });
});

test('a fenced write is applied, refused or finds no document', async (t) => {
  const world = World.of(t);
  const leases = world.manager();
  const invoices = world.db().collection('invoices');
  await invoices.insertOne({ _id: 1, total: 0 });
  const older = await leases.acquire('fenced');
  const { token } = older;
  await older.release();
  const newer = await leases.acquire('fenced');
  const add = { $inc: { total: 1 } };
  const write = (by, filter = { _id: 1 }, update = add) =>
    fencedUpdate(invoices, filter, update, by);
  assert.deepEqual(await write(token), { outcome: 'applied' });
  assert.deepEqual(await write(newer.token), { outcome: 'applied' });
  assert.deepEqual(await write(token), { outcome: 'refused', seen: newer.token });
  assert.deepEqual(await write(token, { _id: 2 }), { outcome: 'noSuchDocument' });
  assert.equal((await invoices.findOne({ _id: 1 })).total, 2);
  await assert.rejects(write(token, { _id: 1 }, { $set: { fence: 1 } }), {
    code: 'INVALID_OPTION',
    message: 'update: `$set` changes `fence`, but `fence` stores the token',
  });
  await assert.rejects(write(token, { _id: 1 }, { total: 1 }), /is not an update operator/);
  const pipeline = [{ $set: { total: { $add: ['$total', 1] } } }];
  assert.deepEqual(await write(newer.token, { _id: 1 }, pipeline), { outcome: 'applied' });
  const upsert = { upsert: true };
  assert.deepEqual(await fencedUpdate(invoices, { _id: 9 }, add, newer.token, upsert), {
    outcome: 'applied',
  });
  assert.deepEqual(await fencedUpdate(invoices, { _id: 9 }, add, token, upsert), {
    outcome: 'refused',
    seen: newer.token,
  });
});
