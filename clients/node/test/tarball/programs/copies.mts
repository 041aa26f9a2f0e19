// Types of the package beside copies of the driver of two major versions.

import type { ClientSession, Collection, Db } from 'mongodb';
import type * as mongodb6 from 'mongodb6';
import { type Fenced, type Lease, LeaseManager, fencedUpdate, inMemory } from 'mongo-lease';

interface Invoice {
  _id: number;
  state: string;
}

export function open(seven: Db, six: mongodb6.Db): LeaseManager[] {
  return [new LeaseManager(seven), new LeaseManager(six)];
}

export async function guarded(
  lease: Lease,
  seven: ClientSession,
  six: mongodb6.ClientSession,
): Promise<void> {
  await lease.guard(seven);
  await lease.guard(six);
}

export async function pay(lease: Lease, invoices: mongodb6.Collection<Invoice>): Promise<void> {
  await lease.transaction(async (session: mongodb6.ClientSession) => {
    await invoices.updateOne({ _id: 42 }, { $set: { state: 'sent' } }, { session });
  });
}

export async function send(
  lease: Lease,
  seven: Collection<Invoice>,
  six: mongodb6.Collection<Invoice>,
  session: mongodb6.ClientSession,
): Promise<Fenced[]> {
  return [
    await fencedUpdate(seven, { _id: 42 }, { $set: { state: 'sent' } }, lease.token),
    await fencedUpdate(six, { _id: 42 }, { $set: { state: 'sent' } }, lease.token, { session }),
  ];
}

console.log(typeof (await inMemory().manager().acquire('name')).token);
