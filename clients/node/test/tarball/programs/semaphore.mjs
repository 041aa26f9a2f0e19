// Of nine downloads that three processes start at once, at most two run at a time, and all run.

import { LeaseManager } from 'mongo-lease';
import { MongoClient } from 'mongodb';

const clients = [1, 2, 3].map(() => new MongoClient(process.env.MONGODB_URI));
const processes = clients.map((client) => new LeaseManager(client.db(), { ensureIndexes: true }));
let [running, most, done] = [0, 0, 0];

async function download(lease) {
  running += 1;
  most = Math.max(most, running);
  // Others have the time to come in.
  await processes[0].get(lease.name);
  running -= 1;
  done += 1;
}

const downloads = Array.from({ length: 9 }, (_, number) =>
  processes[number % 3].semaphore('downloads', 2).withLease(download),
);
await Promise.all(downloads);
console.log(most <= 2, done);

await Promise.all(processes.map((leases) => leases.close()));
await Promise.all(clients.map((client) => client.close()));
