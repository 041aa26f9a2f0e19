// Many calls at once, and one more after their end, as the Rust workers make them.

import { Random, sleep } from './history.mjs';
import { hold } from './hold.mjs';
import { exclusive, shared } from './wish.mjs';

// How long each call may wait, and the ttl of its lease.
const WAIT_MS = 2000;
const TTL_MS = 1000;
// Of the calls, so many are for the leases for which all workers compete.
const CONTENDED = 0.02;
// How long the call after a load may take: its wait, and the margin of the checker.
const PATIENCE_MS = WAIT_MS + 1100;
// It is released at once.
const BRIEF = { ttl: TTL_MS, holdMs: 0, renews: false, end: 'release', writes: 0, renewals: 0, transactions: 0 };

/** Makes the calls of a load, each with a release, and reports when they have ended. */
export async function bear(worker, leases, number, calls) {
  const { orders, history } = worker;
  const random = new Random(BigInt(orders.seed) ^ BigInt(calls));
  const one = async (wish) => {
    const { permits } = wish;
    const granted = await worker.acquire(leases, wish, TTL_MS, { wait: WAIT_MS }, false);
    if (granted) await hold(worker, random, granted.call, granted.lease, permits, BRIEF);
    return granted !== undefined;
  };
  const all = Array.from({ length: calls }, (_, call) => one(anyWish(worker, random, `${number}-${call}`)));
  await Promise.all(all);
  const asked = performance.now();
  const after = one(fresh(worker, `${number}-after`));
  // A call that is late is noted when it is, and still has its end.
  const inTime = await Promise.race([after, sleep(PATIENCE_MS)]);
  const took_ms = Math.round(performance.now() - asked);
  history.note('load_over', { load: number, wait_ms: WAIT_MS, took_ms, is_granted: inTime === true });
  await after;
  console.log(`load ${number} is over`);
}

/** A lease for which nobody competes, or sometimes one of the others. */
function anyWish(worker, random, number) {
  if (!random.happens(CONTENDED)) return fresh(worker, number);
  const { tasks, names } = worker.orders;
  return tasks === 0 ? shared(random) : exclusive(random, names);
}

function fresh(worker, number) {
  return { name: `lease:${worker.orders.id}:${number}`, permits: { count: 1, limit: 1 } };
}
