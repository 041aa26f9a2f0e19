// The quickstart as a program, for Node and for Deno:
//
//     MONGODB_URI='mongodb://localhost:27017/billing?replicaSet=rs0' node examples/quickstart.mjs
//
// Deno runs the same program in a project that has both packages in `node_modules`. It needs these permissions:
//
//     deno run --allow-env --allow-net --allow-read=node_modules --allow-sys=hostname,osRelease,osUptime quickstart.mjs

import process from 'node:process';
import { MongoClient } from 'mongodb';
import { LeaseManager } from 'mongo-lease';

const client = new MongoClient(process.env.MONGODB_URI);
const leases = new LeaseManager(client.db(), { owner: 'quickstart', ensureIndexes: true });

const lease = await leases.acquire('invoice:42', { wait: 60_000 });
try {
  console.log(`acquired ${lease.name} ${lease.token}`);
  // The work. A step that needs the lease asks first.
  if (lease.isValid()) console.log('worked');
} finally {
  console.log(await lease.release());
}
await leases.close();
await client.close();
