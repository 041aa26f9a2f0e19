// A process that ends in one of several ways, for `processes.test.mjs`.

import { readFileSync } from 'node:fs';
import { MongoClient } from 'mongodb';
import { LeaseManager } from '../index.mjs';

const [state, end] = process.argv.slice(2);
const client = new MongoClient(process.env.MONGODB_URI);
const leases = new LeaseManager(client.db(), { ensureIndexes: true });

/** The lines of the README that close on signals. */
function closesOnSignals() {
  const readme = readFileSync(new URL('../README.md', import.meta.url), 'utf8');
  const [, lines] = /```js\n(for \(const signal of [^`]*)```/.exec(readme);
  return new Function('leases', 'client', lines);
}

const STATES = {
  idle: () => leases.ready(),
  // Its next renewal is due in twenty minutes.
  held: () => leases.acquire('x', { ttl: 3_600_000 }),
  waiting: async () => {
    void leases.acquire('x', { wait: 3_600_000 }).catch(({ code }) => console.log(code));
    // The one before it has written this call's entry.
    while (((await leases.get('x'))?.waiting ?? 0) === 0);
  },
  waited: async () => {
    const lease = await leases.acquire('x', { wait: 3_600_000 });
    await lease.release();
  },
};
const ENDS = {
  closesClient: async () => {
    await client.close();
    console.log(
      `timers ${process.getActiveResourcesInfo().filter((of) => of === 'Timeout').length}`,
    );
  },
  exits: () => process.exit(3),
  throws: () => {
    throw new Error('as planned');
  },
  goesOn: () => undefined,
  closesOnSignals: () => closesOnSignals()(leases, client),
};

await STATES[state]();
await ENDS[end]();
console.log('ready');
