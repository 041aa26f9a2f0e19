// Figures beside the bare driver: `npm run figures`, with a server of the testbed or MONGO_LEASE_URI.
//
// Both sides take turns, so that a busy machine slows both. The server confirms writes in steps of a millisecond, so the
// median of a pair jumps from one step to the next: beside it stands the mean of the middle four fifths.

import { spawn, spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { MongoClient } from 'mongodb';
import { LeaseManager } from '../index.mjs';
import { cargo, targetFolder } from '../scripts/core.mjs';
import { grownBy } from './memory.mjs';

const MAJORITY = { writeConcern: { w: 'majority', journal: true } };

async function server() {
  if (process.env.MONGO_LEASE_URI) return { uri: process.env.MONGO_LEASE_URI, end: () => {} };
  cargo(['build', '--quiet', '--locked', '-p', 'mongo-lease-node-beside']);
  const program = join(targetFolder(), 'debug', 'mongo-lease-node-beside');
  const child = spawn(program, ['server'], { stdio: ['pipe', 'pipe', 'inherit'] });
  const [uri] = await once(createInterface(child.stdout), 'line');
  return { uri, end: () => child.stdin.end() };
}

const median = (times) => times.toSorted((one, other) => one - other)[times.length >> 1];

/** The mean without the lowest tenth and the highest. */
function middle(times) {
  const sorted = times.toSorted((one, other) => one - other);
  const of = sorted.slice(sorted.length / 10, (sorted.length * 9) / 10);
  return of.reduce((sum, each) => sum + each, 0) / of.length;
}

function show(what, ours, bare) {
  const [mine, theirs] = [median(ours), median(bare)];
  const [means, ratio] = [middle(ours) / middle(bare), mine / theirs];
  console.log(
    `${what.padEnd(22)} ${mine.toFixed(2)} ms, bare ${theirs.toFixed(2)} ms: ${ratio.toFixed(2)}; ` +
      `by means ${means.toFixed(2)}`,
  );
}

async function timed(work) {
  const begun = performance.now();
  await work();
  return performance.now() - begun;
}

/** An acquire and a release of a new name, beside an insert and a delete in a collection with the same indexes. */
async function pair(leases, bare, locks) {
  await bare.createIndex({ name: 1 }, { unique: true });
  await bare.createIndex({ expiresAt: 1 }, { expireAfterSeconds: 0 });
  // The server keeps the index entries of deleted documents for a while, and a look-up walks over them up to the next
  // live one. So there are live locks of others, as in `benches`.
  const others = () =>
    Array.from({ length: 1000 }, () => {
      return {
        name: randomUUID(),
        value: randomUUID(),
        expiresAt: new Date(Date.now() + 3_600_000),
      };
    });
  for (const collection of [bare, locks]) await collection.insertMany(others());
  const [ours, theirs] = [[], []];
  const lease = (name) => async () => (await leases.acquire(name)).release();
  const document = (name) => async () => {
    const [value, expiresAt] = [name, new Date(Date.now() + 31_000)];
    await bare.insertOne({ name, value, expiresAt }, MAJORITY);
    await bare.deleteOne({ name, value }, MAJORITY);
  };
  for (let round = 0; round < 1000; round += 1) {
    ours.push(await timed(lease(randomUUID())));
    theirs.push(await timed(document(randomUUID())));
  }
  show('pair', ours.slice(200), theirs.slice(200));
}

/** From the release until the next process has the lease, beside a write until its event is heard. */
async function handOff(make, bare, waiting) {
  const [ours, theirs] = [[], []];
  const managers = Array.from({ length: waiting + 1 }, make);
  await Promise.all(managers.map((leases) => leases.ready()));
  const stream = bare.watch([], { maxAwaitTimeMS: 1000 });
  await stream.tryNext();
  for (let round = 0; round < Math.max(8, 60 / waiting); round += 1) {
    let released = 0;
    const first = await managers[0].acquire('line');
    const holding = managers.slice(1).map(async (leases) => {
      const lease = await leases.acquire('line', { wait: 60_000 });
      if (released) ours.push(performance.now() - released);
      released = performance.now();
      await lease.release();
    });
    while ((await managers[0].get('line')).waiting < waiting);
    released = performance.now();
    await first.release();
    await Promise.all(holding);
    for (let each = 0; each < waiting; each += 1) {
      const heard = stream.next();
      theirs.push(
        await timed(async () => {
          await bare.updateOne({ _id: 'event' }, { $inc: { n: 1 } }, { ...MAJORITY, upsert: true });
          await heard;
        }),
      );
    }
  }
  show(`hand-off, ${waiting} waiting`, ours, theirs);
  await stream.close();
  await Promise.all(managers.map((leases) => leases.close()));
}

/** For how long 10,000 calls that are made at once keep the event loop from everything else. */
async function atOnce(make) {
  const leases = make();
  await leases.ready();
  let [longest, last, isOver] = [0, performance.now(), false];
  const look = () => {
    const now = performance.now();
    [longest, last] = [Math.max(longest, now - last), now];
    if (!isOver) setImmediate(look);
  };
  look();
  const phase = async (what, work) => {
    longest = 0;
    const result = await work();
    await new Promise(setImmediate);
    console.log(`${what}: the event loop stood still for ${longest.toFixed(0)} ms at most`);
    return result;
  };
  const names = Array.from({ length: 10_000 }, () => randomUUID());
  const acquire = (name) => leases.acquire(name, { wait: 120_000 });
  const all = await phase('10,000 acquires at once', () => Promise.all(names.map(acquire)));
  await phase('10,000 releases at once', () => Promise.all(all.map((lease) => lease.release())));
  isOver = true;
  await leases.close();
}

/** The commands that renew a thousand held leases. */
async function held(make, client) {
  const leases = make();
  await leases.ready();
  const all = [];
  for (let number = 0; number < 1000; number += 1) all.push(await leases.acquire(`held ${number}`));
  const renewing = await timed(() => all[0].renew());
  const cpu = process.cpuUsage();
  let updates = 0;
  const count = ({ commandName }) => (updates += Number(commandName === 'update'));
  client.on('commandStarted', count);
  const wait = all[0].remaining() - 20_300 + 1500;
  await new Promise((resolve) => setTimeout(resolve, Math.max(0, wait)));
  const { user } = process.cpuUsage(cpu);
  const took = (user / 1e3).toFixed(0);
  console.log(`renewing 1,000: ${updates} commands, ${took} ms of a processor`);
  console.log(`renewing one: ${renewing.toFixed(1)} ms`);
  await leases.close();
}

if (process.argv[2] === '--memory') {
  const db = new MongoClient(process.argv[3]).db(process.argv[4]);
  const leases = new LeaseManager(db);
  console.log(
    await grownBy(
      (name) => leases.acquire(name),
      (lease) => lease.release(),
    ),
  );
  // The leases end with their database.
  process.exit();
}

const { uri, end } = await server();
const client = new MongoClient(uri);
const db = client.db(`figures_${process.pid}`);
const make = () => new LeaseManager(db, { ensureIndexes: true });
// The server keeps a record of each write that a driver may retry, and of none of ours.
const bareClient = new MongoClient(uri, { retryWrites: false });
const bare = bareClient.db(db.databaseName).collection('bare');
const leases = make();
await leases.ready();
await pair(leases, bare, db.collection('locks'));
await leases.close();
for (const waiting of [1, 10, 50]) await handOff(make, bare, waiting);
await atOnce(make);
const monitored = new MongoClient(uri, { monitorCommands: true });
await held(() => new LeaseManager(monitored.db(db.databaseName)), monitored);
await monitored.close();
const told = ['--expose-gc', fileURLToPath(import.meta.url), '--memory', uri, db.databaseName];
const { status, stdout } = spawnSync(process.execPath, told, {
  stdio: ['ignore', 'pipe', 'inherit'],
});
if (status !== 0) throw new Error('the measurement of the memory failed');
console.log(`a held lease: ${stdout.toString().trim()} bytes`);
await db.dropDatabase();
await bareClient.close();
await client.close();
end();
