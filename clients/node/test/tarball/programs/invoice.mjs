// A Mongoose lock with a transaction: of three processes that send one invoice, one does.

import { LeaseManager } from 'mongo-lease';
import mongoose from 'mongoose';
import { sendInvoice } from './examples/mongoose.mjs';

await mongoose.connect(process.env.MONGODB_URI);
const schema = new mongoose.Schema({ _id: Number, state: String });
const Invoice = mongoose.model('Invoice', schema);
await Invoice.createCollection();
await Invoice.create({ _id: 42, state: 'new' });

const processes = [1, 2, 3].map(
  () => new LeaseManager(mongoose.connection, { ensureIndexes: true }),
);
const sent = [];
const send = async (number) => sent.push(number);
const sends = processes.map((leases) => sendInvoice(leases, Invoice, 42, send));
const didSend = await Promise.all(sends);
console.log(didSend.filter(Boolean).length, sent.length, (await Invoice.findById(42)).state);

await Promise.all(processes.map((leases) => leases.close()));
await mongoose.disconnect();
