// `transaction` with Mongoose 9, and with Mongoose 8 in the run with driver 6.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LeaseManager } from '../index.mjs';
import { World, driver, mongooseOfDriver, otherMongoose, queueOf, takeOver, uri } from './help.mjs';

// The run with driver 6 has a copy of this folder, two folders further down, and none of the examples.
const example = driver === '6' ? '../../../examples/mongoose.mjs' : '../examples/mongoose.mjs';

async function connect(t, options = {}, name = mongooseOfDriver) {
  const { default: mongoose } = await import(name);
  const world = World.of(t);
  const own = new mongoose.Mongoose();
  for (const [option, value] of Object.entries(options)) own.set(option, value);
  const connection = await own.createConnection(uri, { dbName: world.name }).asPromise();
  world.onEnd(() => connection.close());
  const schema = new mongoose.Schema({ _id: Number, state: String });
  const Order = connection.model('Order', schema);
  await Order.createCollection();
  const manager = (of) => {
    const leases = new LeaseManager(of, { ensureIndexes: true });
    world.onEnd(() => leases.close());
    return leases;
  };
  return { world, connection, Order, manager };
}

for (const what of ['a connection', 'its db']) {
  test(`models take the session of a manager of ${what}`, async (t) => {
    const { world, connection, Order, manager } = await connect(t);
    const leases = manager(what === 'its db' ? connection.db : connection);
    const lease = await leases.acquire('order:1');
    const result = await lease.transaction(async (session) => {
      await Order.create([{ _id: 1, state: 'new' }], { session });
      await Order.updateOne({ _id: 1 }, { state: 'sent' }, { session });
      return (await Order.findById(1).session(session)).state;
    });
    assert.equal(result, 'sent');
    assert.equal((await Order.findById(1)).state, 'sent');
    await takeOver(world, 'order:1');
    const late = lease.transaction((session) =>
      Order.updateOne({ _id: 1 }, { state: 'late' }, { session }),
    );
    await assert.rejects(late, { code: 'LOST' });
    assert.equal((await Order.findById(1)).state, 'sent');
    const error = new Error('my own');
    const other = await leases.acquire('order:2');
    await assert.rejects(
      other.transaction(() => Promise.reject(error)),
      error,
    );
  });
}

test('documents that a try has saved are saved again by the next one', async (t) => {
  const { connection, Order, manager } = await connect(t);
  const lease = await manager(connection).acquire('order:1');
  const order = new Order({ _id: 1, state: 'new' });
  let tries = 0;
  await lease.transaction(async (session) => {
    tries += 1;
    await order.save({ session });
    if (tries === 1) await lease.renew();
  });
  assert.equal(tries, 2);
  assert.equal((await Order.findById(1)).state, 'new');
});

test('operations find the session by themselves, where Mongoose is told so', async (t) => {
  const { connection, Order, manager } = await connect(t, { transactionAsyncLocalStorage: true });
  const lease = await manager(connection).acquire('order:1');
  const aborted = lease.transaction(async () => {
    await Order.create({ _id: 1, state: 'new' });
    throw new Error('no');
  });
  await assert.rejects(aborted, /^Error: no$/);
  assert.equal(await Order.countDocuments(), 0);
});

test("a guard is refused where Mongoose's session has no transaction", async (t) => {
  const { connection, manager } = await connect(t);
  const lease = await manager(connection).acquire('order:1');
  const session = await connection.startSession();
  await assert.rejects(lease.guard(session), { code: 'INVALID_OPTION', option: 'session' });
  await connection.transaction((its) => lease.guard(its));
  await session.endSession();
});

test('the example sends an invoice once, by one of many, and never by one whose lease is over', async (t) => {
  const { sendInvoice } = await import(example);
  const { world, connection, Order, manager } = await connect(t);
  const managers = [manager(connection), manager(connection), manager(connection)];
  await Order.create([
    { _id: 1, state: 'new' },
    { _id: 2, state: 'new' },
  ]);
  const sent = [];
  const send = async (number) => sent.push(number);
  const rust = await world.rust();
  await rust.ask('acquire invoice:1', 'granted');
  const done = managers.map((leases) => sendInvoice(leases, Order, 1, send));
  await queueOf(connection.db, 'invoice:1', managers.length);
  assert.deepEqual(sent, []);
  await rust.ask('release invoice:1', 'Released');
  assert.deepEqual((await Promise.all(done)).sort(), [false, false, true]);
  assert.deepEqual(sent, [1]);
  // While it sends, another program takes the lease over.
  const late = sendInvoice(managers[0], Order, 2, () => takeOver(world, 'invoice:2'));
  await assert.rejects(late, { code: 'LOST' });
  assert.equal((await Order.findById(2)).state, 'new');
});

test('Mongoose with a driver of another version is refused', async (t) => {
  const { connection, manager } = await connect(t, {}, otherMongoose);
  const message = /^unsupported: the `Db` is of another version of the package `mongodb`/;
  for (const of of [connection, connection.db]) {
    await assert.rejects(manager(of).acquire('order:1'), { code: 'UNSUPPORTED', message });
  }
});
