// Mongoose, whose driver is another copy than the one beside this package: its types, and a lock with a transaction.

import mongoose from 'mongoose';
import { type Fenced, type Lease, LeaseManager, fencedUpdate } from 'mongo-lease';

const schema = new mongoose.Schema({ number: Number, state: String });
const Invoice = mongoose.model('Invoice', schema);

function open(connection: mongoose.Connection): LeaseManager[] {
  const { db } = connection;
  const ofDb = db === undefined ? [] : [new LeaseManager(db)];
  return [new LeaseManager(connection, { ensureIndexes: true }), ...ofDb];
}

async function pay(lease: Lease): Promise<string | null | undefined> {
  const [invoice] = await lease.transaction((session: mongoose.ClientSession) =>
    Invoice.create([{ number: 42, state: 'paid' }], { session }),
  );
  return invoice?.state;
}

async function guarded(lease: Lease): Promise<void> {
  await mongoose.connection.transaction(async (session) => {
    await lease.guard(session);
    await Invoice.updateOne({ number: 42 }, { state: 'sent' }, { session });
  });
}

async function send(lease: Lease, session: mongoose.ClientSession): Promise<Fenced> {
  const update = { $set: { state: 'received' } };
  return fencedUpdate(Invoice.collection, { number: 42 }, update, lease.token, { session });
}

await mongoose.connect(process.env.MONGODB_URI ?? '');
await Invoice.createCollection();
const [leases, ofDb] = open(mongoose.connection);
if (!leases || !ofDb) throw new Error('Mongoose is not connected');
const lease = await leases.acquire('invoice:42');
console.log(await pay(lease));
await guarded(lease);
console.log((await Invoice.findOne({ number: 42 }))?.state);
const session = await mongoose.startSession();
console.log((await send(lease, session)).outcome);
await session.endSession();
console.log((await ofDb.get('invoice:42'))?.state);
await leases.close();
await ofDb.close();
await mongoose.disconnect();
