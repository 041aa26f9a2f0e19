// Transactions under a lease, as the Rust workers make them: each writes a line to the ledger.

import { aside } from './history.mjs';

export const LEDGER = 'ledger';
// How long a worker waits for the end of a transaction.
const PATIENCE_MS = 5000;
const CONCERN = { writeConcern: { w: 'majority' } };

/** Writes to the ledger in a transaction under the lease. */
export async function transact({ worker, lease, call }, random, ttl) {
  const { name } = lease;
  // Permits have none.
  if (!name.startsWith('lease:')) return;
  const pause = random.within(0, random.happens(0.1) ? (ttl * 3) / 2 : 150);
  const transaction = `${call}:${random.within(0, 2 ** 32)}`;
  // Each try writes the same line: one that repeats what was committed is told of a duplicate, which the checker finds.
  const line = { _id: transaction, call, name };
  const write = (session) => worker.ledger.insertOne(line, { session });
  if (worker.orders.control === 'unguarded-transaction')
    return void unguarded(worker, write).catch(() => {});
  const work = async (session) => {
    await write(session);
    // The callback does not look at the lease meanwhile.
    await aside(pause);
  };
  const committing = random.happens(0.5) ? byGuard(worker, lease, work) : byLease(lease, work);
  // Nobody can drop it: it goes on, and its line may yet be written.
  const late = aside(PATIENCE_MS).then(() => ['unknown', 'its caller waits no longer']);
  const [end, text] = await Promise.race([committing, late]);
  worker.history.note('transacted', { call, transaction, end, text });
}

async function byLease(lease, work) {
  try {
    await lease.transaction(work);
    return ['committed', ''];
  } catch ({ code, message }) {
    return [code === 'COMMIT_UNKNOWN' ? 'unknown' : 'not_committed', message];
  }
}

async function byGuard({ client }, lease, work) {
  let isCommitSent = false;
  const guarded = async (session) => {
    isCommitSent = false;
    await lease.guard(session);
    await work(session);
    isCommitSent = true;
  };
  try {
    await client.withSession((session) => session.withTransaction(() => guarded(session), CONCERN));
    return ['committed', ''];
  } catch ({ message }) {
    // What the driver throws then may be about a second commit, when the first one was carried out.
    return [isCommitSent ? 'unknown' : 'not_committed', message];
  }
}

/** The control's mistake: a transaction that commits a second later, whatever has become of the lease. */
function unguarded({ client }, write) {
  return client.withSession(async (session) => {
    session.startTransaction(CONCERN);
    await write(session);
    await aside(1000);
    await session.commitTransaction();
  });
}
