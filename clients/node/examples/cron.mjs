// A job at each tick of a period, on many machines: each tick is begun by one process at most.
//
//     MONGODB_URI='mongodb://…/jobs?replicaSet=rs0' node examples/cron.mjs report 60000 ./report.mjs
//
// `report.mjs` exports the job as its default: `async ({ tick, token, signal }) => { … }`. A fourth argument is the ttl
// of the lease, in milliseconds.
//
// The database's clock says which tick it is: those of the machines may differ. A process that has the lease stores the
// tick as begun, and runs the job after that. So nothing is run twice: the tick of a process that dies or loses its
// lease is not repeated, and the next process reports it as `unfinished`. It reports ticks that nobody has begun as
// `skipped`: those of the time until the lease of a dead process has expired, and those of a long run.
//
// A program that cannot reach the database ends with an error: a supervisor has to start it again.

import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { MongoClient } from 'mongodb';
import { LeaseManager, fencedUpdate } from 'mongo-lease';

/** Runs the job for the tick of now, unless that has been begun, or another process has the lease. */
export async function runTick({ leases, db, name, every, job, stop, tell }) {
  const lease = await leases.tryAcquire(`cron:${name}`);
  if (!lease) return tell('busy');
  let tick;
  try {
    tick = Math.floor((await timeOf(db)) / every);
    const states = db.collection('cron');
    const last = await states.findOne({ _id: name });
    if (last && last.begun >= tick) return;
    // Only where the state is still the one that was read: a write of an earlier holder may be late.
    const asRead = { _id: name, begun: last?.begun ?? null, done: last?.done ?? null };
    const begin = { $set: { begun: tick } };
    const claim = await fencedUpdate(states, asRead, begin, lease.token, { upsert: true });
    if (claim.outcome !== 'applied') return;
    if (last && last.done !== last.begun) tell('unfinished', last.begun);
    if (last && last.begun + 1 < tick) tell('skipped', last.begun + 1, tick - 1);
    tell('begun', tick);
    // The token throws if the lease is over: then the tick has been begun, and is not run.
    await job({ tick, token: lease.token, signal: AbortSignal.any([lease.signal, stop]) });
    const end = { $set: { done: tick } };
    const { outcome } = await fencedUpdate(states, { _id: name, begun: tick }, end, lease.token);
    tell(outcome === 'applied' ? 'done' : 'lost', tick);
  } catch (error) {
    if (lease.isValid()) tell('failed', tick, error.message);
    else tell('lost', tick);
  } finally {
    // A release that is not confirmed is retried in the background.
    await lease.release().catch(() => undefined);
  }
}

/** Runs the job at each tick until it is told to stop. */
export async function cron(options) {
  const { db, every, stop } = options;
  while (!stop.aborted) {
    const left = every - ((await timeOf(db)) % every);
    await sleep(left, undefined, { signal: stop }).catch(() => undefined);
    if (!stop.aborted) await runTick(options);
  }
}

/** The time of the primary, in milliseconds. */
async function timeOf(db) {
  return (await db.command({ hello: 1 })).localTime.getTime();
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [name, every, file, ttl = '30000'] = process.argv.slice(2);
  const { default: job } = await import(pathToFileURL(file));
  const client = new MongoClient(process.env.MONGODB_URI);
  const options = { owner: 'cron', ensureIndexes: true, ttl: Number(ttl) };
  const leases = new LeaseManager(client.db(), options);
  const stopping = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => stopping.abort());
  const tell = (...words) => console.log(...words);
  const stop = stopping.signal;
  await cron({ leases, db: client.db(), name, every: Number(every), job, stop, tell });
  await leases.close();
  await client.close();
}
