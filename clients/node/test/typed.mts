// Compiled and run by the tests: the types of the package, for a user's program.

import { type Lease, LeaseError, inMemory } from 'mongo-lease';

const leases = inMemory().manager({ owner: 'typed', ttl: 10_000 });

async function work(): Promise<void> {
  await using lease: Lease = await leases.acquire('name', { wait: 1000, metadata: { order: 7 } });
  console.log((await leases.get('name'))?.state, typeof lease.token);
}

await work();
console.log((await leases.get('name'))?.state ?? 'free');
try {
  await leases.acquire('');
} catch (error) {
  if (!(error instanceof LeaseError) || error.code !== 'INVALID_NAME') throw error;
}
