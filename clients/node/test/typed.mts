// Compiled and run by the tests: the types of the package, for a user's program.

import type { ClientSession, Collection } from 'mongodb';
import type mongoose from 'mongoose';
import { type Lease, LeaseError, LeaseManager, inMemory } from 'mongo-lease';

const leases = inMemory().manager({ owner: 'typed', ttl: 10_000 });

async function work(): Promise<void> {
  await using lease: Lease = await leases.acquire('name', { wait: 1000, metadata: { order: 7 } });
  console.log((await leases.get('name'))?.state, typeof lease.token);
}

export async function pay(lease: Lease, papers: Collection): Promise<number> {
  const { insertedCount } = await lease.transaction((session) => papers.insertMany([{ a: 1 }], { session }));
  await lease.transaction(async (session: ClientSession) => void session.id);
  return insertedCount;
}

export async function payByModel(connection: mongoose.Connection, Paper: mongoose.Model<{ a: number }>): Promise<string> {
  const lease = await new LeaseManager(connection).acquire('paper');
  const [paper] = await lease.transaction((session: mongoose.ClientSession) => Paper.create([{ a: 1 }], { session }));
  return String(paper?._id);
}

await work();
console.log((await leases.get('name'))?.state ?? 'free');
try {
  await leases.acquire('');
} catch (error) {
  if (!(error instanceof LeaseError) || error.code !== 'INVALID_NAME') throw error;
}
