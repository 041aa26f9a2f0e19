// Types of the package, for a user's program with the driver alone. Each line under `@ts-expect-error` must be refused.

import type { ClientSession, Collection, Db, Filter, UpdateFilter } from 'mongodb';
import {
  type AcquireOptions,
  type CloseReport,
  type Fenced,
  type Lease,
  LeaseError,
  type LeaseInfo,
  LeaseLostError,
  LeaseManager,
  type ManagerOptions,
  fencedUpdate,
  inMemory,
} from 'mongo-lease';

interface Invoice {
  _id: number;
  state: 'open' | 'sent';
}

const options: ManagerOptions = { owner: 'typed', ttl: 10_000 };
const leases = inMemory().manager(options);

export function open(db: Db): LeaseManager {
  return new LeaseManager(db, options);
}

export async function pay(lease: Lease, invoices: Collection<Invoice>): Promise<number> {
  const invoice = { _id: 42, state: 'open' } as const;
  const { insertedCount } = await lease.transaction((session) =>
    invoices.insertMany([invoice], { session }),
  );
  await lease.transaction(async (session: ClientSession) => void session.id);
  return insertedCount;
}

export async function guarded(lease: Lease, session: ClientSession): Promise<void> {
  await session.withTransaction((own) => lease.guard(own));
}

export async function send(
  lease: Lease,
  invoices: Collection<Invoice>,
  session: ClientSession,
): Promise<Fenced> {
  await fencedUpdate(invoices, { _id: 42 }, [{ $set: { state: 'sent' } }], lease.token);
  await fencedUpdate(invoices, { _id: { $in: [42] } }, { $set: { state: 'sent' } }, lease.token, {
    session,
  });
  return fencedUpdate(invoices, { _id: 42 }, { $set: { state: 'sent' } }, lease.token, {
    field: 'by',
    upsert: true,
  });
}

export async function fenced<T extends { _id: number }>(
  of: Collection<T>,
  filter: Filter<T>,
  update: UpdateFilter<T>,
  lease: Lease,
): Promise<Fenced> {
  return fencedUpdate(of, filter, update, lease.token);
}

export async function refused(lease: Lease, invoices: Collection<Invoice>, db: Db): Promise<void> {
  // @ts-expect-error: no collection has a manager's leases.
  void new LeaseManager(invoices);
  // @ts-expect-error: there is no such option.
  void new LeaseManager(db, { timeToLive: 5 });
  // @ts-expect-error: a database is no session.
  await lease.guard(db);
  // @ts-expect-error: the collection has no such state.
  await fencedUpdate(invoices, { state: 'lost' }, { $set: { state: 'sent' } }, lease.token);
  // @ts-expect-error: nor can it have one.
  await fencedUpdate(invoices, { _id: 42 }, { $set: { state: 'lost' } }, lease.token);
  // @ts-expect-error: a token is a bigint.
  await fencedUpdate(invoices, { _id: 42 }, { $set: { state: 'sent' } }, 5);
  // @ts-expect-error: the second argument is an object.
  await leases.acquire('x', 5000);
}

async function work(how: AcquireOptions): Promise<void> {
  await using lease: Lease = await leases.acquire('name', how);
  const info: LeaseInfo | undefined = await leases.get('name');
  console.log(info?.state, typeof lease.token);
}

await work({ wait: 1000, metadata: { order: 7 } });
console.log((await leases.get('name'))?.state ?? 'free');
for await (const { name } of leases.list({ glob: '*' })) console.log(name);
try {
  await leases.acquire('');
} catch (error) {
  if (!(error instanceof LeaseError) || error.code !== 'INVALID_NAME') throw error;
  console.log(error instanceof LeaseLostError);
}
const report: CloseReport = await leases.close();
console.log(report.released);
