// Compiled and run by the tests: the types of the package, for a user's program.

import type { ClientSession, Collection } from 'mongodb';
import type mongoose from 'mongoose';
import {
  type JobRun,
  type Leadership,
  type Lease,
  LeaseError,
  type LeaseEvent,
  type LeaseKey,
  LeaseManager,
  type LeaseSet,
  type StopReason,
  inMemory,
} from 'mongo-lease';

const leases = inMemory().manager({ owner: 'typed', ttl: 10_000 });

async function work(): Promise<void> {
  await using lease: Lease = await leases.acquire('name', { wait: 1000, metadata: { order: 7 } });
  console.log((await leases.get('name'))?.state, typeof lease.token);
}

export async function pay(lease: Lease, papers: Collection): Promise<number> {
  const { insertedCount } = await lease.transaction((session) =>
    papers.insertMany([{ a: 1 }], { session }),
  );
  await lease.transaction(async (session: ClientSession) => void session.id);
  return insertedCount;
}

export async function payByModel(
  connection: mongoose.Connection,
  Paper: mongoose.Model<{ a: number }>,
): Promise<string> {
  const lease = await new LeaseManager(connection).acquire('paper');
  const [paper] = await lease.transaction((session: mongoose.ClientSession) =>
    Paper.create([{ a: 1 }], { session }),
  );
  return String(paper?._id);
}

export async function together(): Promise<[number, StopReason | undefined]> {
  await using set: LeaseSet = await leases.acquireAll(['b', 'a'], { wait: 0 });
  const run: JobRun<number> = await leases
    .job('job', { atLeast: 1000 })
    .run(({ permits }) => permits);
  await using leadership: Leadership = await leases.campaign('leader', { notice: 100 });
  await leadership.run(({ signal }) => signal.throwIfAborted());
  const tokens: bigint[] = [...set].map(({ token }) => token);
  return [run.outcome === 'done' ? run.result + tokens.length : 0, leadership.stopReason];
}

export async function handOver(lease: Lease): Promise<Lease> {
  const key: LeaseKey = await lease.detach();
  return leases.resume(JSON.parse(JSON.stringify(key)) as LeaseKey);
}

export async function firstLoss(): Promise<string | undefined> {
  for await (const event of leases.events()) {
    if (event.event === 'lost') return `${event.name} ${event.reason}`;
    const other: Exclude<LeaseEvent['event'], 'lost'> = event.event;
    console.log(other);
  }
  return undefined;
}

await work();
console.log((await leases.get('name'))?.state ?? 'free');
try {
  await leases.acquire('');
} catch (error) {
  if (!(error instanceof LeaseError) || error.code !== 'INVALID_NAME') throw error;
}
