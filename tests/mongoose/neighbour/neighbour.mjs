// The other program: it reads orders, a JSON text in a line each, and answers each by its number.

import { createInterface } from 'node:readline';
import mongoose from 'mongoose';
import { flavours } from './broken.mjs';
import { schemas } from './schemas.mjs';

let connection;
let recipe;
let Lock;

/** Microseconds of the monotonic clock, which all processes of the machine share on Linux. */
const clock = () => Number(process.hrtime.bigint() / 1000n);

/** Until when the holder may believe, on the clock above. */
function end(document) {
  const now = clock();
  // Dates are whole milliseconds, so one may be missing at each end.
  return now + (document.expiresAt.getTime() - Date.now() - 2) * 1000;
}

const orders = {
  async open({ uri, database, flavour, schema, autoIndex }) {
    connection = await mongoose.createConnection(uri, { dbName: database, autoIndex }).asPromise();
    recipe = flavours[flavour];
    Lock = connection.model('Lock', schemas[schema]);
    await Lock.init();
    return {};
  },

  async acquire({ name, ttlMs, waitMs, pollMs }) {
    const wanted = clock();
    const document = await recipe.acquire(Lock, name, { ttlMs, waitMs, pollMs });
    if (document === null) return { wanted, granted: null };
    return { wanted, granted: { value: document.value, from: clock(), until: end(document) } };
  },

  async release({ name, value }) {
    return { released: await recipe.release(Lock, name, value) };
  },

  // A whole life: acquire, work inside, release.
  async hold({ name, ttlMs, waitMs, pollMs, lateRelease }) {
    // A holder that comes to after a long pause releases what it believes to hold.
    if (lateRelease) await recipe.release(Lock, name, 'of long ago');
    const { wanted, granted } = await orders.acquire({ name, ttlMs, waitMs, pollMs });
    if (granted === null) return { wanted, granted };
    const { value, from, until } = granted;
    await visit(name);
    const held = { value, from, until: Math.min(clock(), until) };
    return { wanted, granted: held, released: await recipe.release(Lock, name, value) };
  },

  // What Mongoose makes of a document, and what there is.
  async look({ name }) {
    const document = await Lock.findOne({ name });
    return { fields: document && Object.keys(document.toObject()).sort() };
  },

  // What Mongoose would change about the indexes, and what it drops when it is told to.
  async indexes() {
    const difference = await Lock.diffIndexes();
    return { ...difference, dropped: await Lock.syncIndexes() };
  },
};

/** The work of a holder: it reads, and writes what it has read plus one. */
async function visit(name) {
  const visits = connection.collection('visits');
  const { count } = await visits.findOne({ _id: name });
  await visits.updateOne({ _id: name }, { $set: { count: count + 1 } });
}

const lines = createInterface({ input: process.stdin });
lines.on('line', async (line) => {
  const { id, order, ...given } = JSON.parse(line);
  let answer;
  try {
    answer = { answer: await orders[order](given) };
  } catch (error) {
    answer = { error: error.stack };
  }
  process.stdout.write(`${JSON.stringify({ id, ...answer })}\n`);
});
// The test has gone, and nobody listens.
lines.on('close', () => process.exit(0));
process.stdout.on('error', () => process.exit(0));
