// A job at each tick of a period, on many machines: each tick is run by one process at most.
//
//     MONGODB_URI='mongodb://…/jobs?replicaSet=rs0' node examples/cron.mjs report 60000 ./report.mjs
//
// `report.mjs` exports the job as its default: `async ({ tick, token, signal }) => { … }`. A fourth argument is the ttl
// of the lease, in milliseconds.

import { pathToFileURL } from 'node:url';
import { MongoClient } from 'mongodb';
import { LeaseManager } from 'mongo-lease';

const [name, every, file, ttl = '30000'] = process.argv.slice(2);
const { default: job } = await import(pathToFileURL(file));
const client = new MongoClient(process.env.MONGODB_URI);
const leases = new LeaseManager(client.db(), {
  owner: 'cron',
  ensureIndexes: true,
  ttl: Number(ttl),
});

const stopping = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => stopping.abort());
const { signal } = stopping;

await leases.job(`cron:${name}`, { every: Number(every) }).start(
  async (lease, tick) => {
    await job({ tick, token: lease.token, signal: AbortSignal.any([lease.signal, signal]) });
    console.log('done', tick);
  },
  {
    signal,
    onError: (error, tick) => console.log(error.code === 'LOST' ? 'lost' : 'failed', tick),
  },
);
await leases.close();
await client.close();
