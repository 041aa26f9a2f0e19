// One hold of a lease, from the grant to its end, as the Rust workers do it.

import { sleep } from './history.mjs';
import { transact } from './ledger.mjs';

const LOOK_MS = 25;
// How much a renewal must add to get a line in the history.
const LONGER = 20_000_000n;

export function anyPlan(random, ttl) {
  const isLong = random.happens(0.1);
  let holdMs = isLong ? random.within(ttl / 2, (ttl * 3) / 2) : random.within(5, 150);
  const chance = random.within(0, 100);
  let end = 'release';
  if (chance < 2) end = 'crash';
  else if (chance < 7) end = 'hold-on';
  else if (chance < 32) end = 'drop';
  // One that holds on without renewing learns when its lease is over.
  const renews = end !== 'hold-on' && random.happens(0.9);
  if (end === 'hold-on') holdMs = ttl * 2;
  const renewals = end === 'hold-on' ? 0 : 6;
  return { ttl, holdMs, renews, end, writes: 40, renewals, transactions: 10 };
}

/** Holds a lease, writes to the resource, and ends the lease. */
export async function hold(worker, random, call, lease, permits, plan) {
  const { history } = worker;
  const belief = new Belief(worker, lease, plan.ttl);
  const validUntil = belief.validUntil();
  let token;
  try {
    ({ token } = lease);
  } catch {
    // Lost before the first look: as if it had not been granted.
    void lease.release().catch(() => {});
    return history.note('ended', { call, how: 'failed', text: 'lost at once' });
  }
  const { name, value } = lease;
  history.note('granted', { call, name, token, value, valid_until: validUntil });
  const holder = { worker, lease, call, token, permits, told: validUntil };
  const hasLost = await untilTheEnd(holder, random, plan, belief);
  if (plan.end === 'crash' && !hasLost) {
    history.note('crashing');
    process.kill(process.pid, 'SIGKILL');
  }
  if (hasLost && random.happens(0.8)) {
    // A holder that does not look: the case for the fence. Somebody else may have the lease by now.
    await sleep(random.within(0, 300));
    await write(holder, true);
  }
  await letGo(holder, plan.end === 'drop' ? 'drop' : 'release');
}

async function untilTheEnd(holder, random, plan, belief) {
  const { worker, lease, call } = holder;
  const { history } = worker;
  const end = history.now() + BigInt(Math.round(plan.holdMs * 1e6));
  for (;;) {
    const validUntil = belief.validUntil();
    if (!belief.isValid()) {
      history.note('lost', { call, reason: reasonOf(lease) });
      return true;
    }
    if (validUntil > holder.told + LONGER) {
      holder.told = validUntil;
      history.note('renewed', { call, valid_until: validUntil });
    }
    if (history.now() >= end) return false;
    const chance = random.within(0, 100);
    const { writes, renewals, transactions } = plan;
    if (chance < writes) await write(holder, false);
    else if (chance < writes + renewals) {
      // Two renewals side by side, a little apart. One that fails changes nothing, or the lease reports it.
      const renew = () => lease.renew().catch(() => {});
      await Promise.all([renew(), sleep(random.within(0, 40)).then(renew)]);
    } else if (chance < writes + renewals + transactions) await transact(holder, random, plan.ttl);
    await sleep(LOOK_MS);
  }
}

function reasonOf(lease) {
  try {
    lease.check();
    return 'its own time is over';
  } catch (error) {
    return error.message;
  }
}

async function write({ worker, lease, call, token, permits }, isStale) {
  const isExclusive = permits.limit === 1;
  const accepted = await worker.resource.write(call, lease.name, token, isExclusive);
  worker.history.note('wrote', { call, token, accepted, is_stale: isStale });
}

async function letGo({ worker, lease, call }, how) {
  const { history } = worker;
  history.note('releasing', { call, how });
  const releasing = lease.release();
  // Nobody waits for it: what a program does that does not look at the outcome.
  if (how === 'drop') return void releasing.catch(() => {});
  let outcome = 'failed';
  let text = '';
  try {
    const released = await releasing;
    outcome = released === 'notHeld' ? 'not_held' : released;
  } catch (error) {
    if (error.code === 'UNKNOWN') outcome = 'unknown';
    text = error.message;
  }
  history.note('released', { call, outcome, text });
}

/** The source of a holder's belief: its lease, or in a control the reply. */
class Belief {
  #worker;
  #lease;
  #own;

  constructor(worker, lease, ttl) {
    this.#worker = worker;
    this.#lease = lease;
    if (worker.orders.control !== 'validity-from-reply') return;
    // A promoted waiter is granted the waiter ttl at first: the control knows that.
    const life = worker.orders.waiter_ttl_ms;
    const term = lease.remaining() > life ? ttl : Math.min(ttl, life);
    this.#own = worker.history.now() + BigInt(term) * 1_000_000n;
  }

  // The clock is read first: what passes in between makes this shorter than the lease's validity, never longer.
  validUntil() {
    const now = this.#worker.history.now();
    return this.#own ?? now + BigInt(Math.floor(this.#lease.remaining() * 1e6));
  }

  isValid() {
    return this.#own === undefined ? this.#lease.isValid() : this.#worker.history.now() < this.#own;
  }
}
