// Runs the recipe as a page shows it: its code is the standard input. It ends with 0, and says what was paid for.

import { text } from 'node:stream/consumers';
import mongoose from 'mongoose';

const [uri, dbName] = process.argv.slice(2);
const warnings = [];
// Mongoose, its driver and Node.js report deprecated options so.
process.on('warning', (warning) => warnings.push(`${warning.name}: ${warning.message}`));

await mongoose.connect(uri, { dbName });
const paid = [];
const pay = async (invoice) => paid.push(invoice);
const AsyncFunction = (async () => {}).constructor;
await new AsyncFunction('mongoose', 'pay', await text(process.stdin))(mongoose, pay);
const left = await mongoose.connection.collection('locks').countDocuments();
await mongoose.disconnect();
process.stdout.write(JSON.stringify({ paid, left, warnings }));
