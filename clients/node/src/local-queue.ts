// The local queues of one process: its waiting calls for each lease, in order.
//
// One exclusive call of a local queue at a time is active, and it alone sends commands: together they share one queue
// entry on the server. When the active call gives up, the next one inherits the entry. Of the calls for permits several
// are active, each with an entry of its own; the first of them leads: it rechecks the lease for all.

import type { Wake } from './clock';
import type { Info, Waiter } from './core';
import { Fifo, type Member } from './fifo';
import type { Slot } from './waiters';

/** The queue entry of a call that has given up. */
export interface Inherited {
  slot: Slot;
  waiter: Waiter;
}

interface LocalQueue {
  active: Ticket[];
  waiting: Fifo<Ticket>;
  inherited: Inherited | undefined;
  /** The newest state of the lease that the server sent. */
  seen: Info | undefined;
}

export class LocalQueues {
  private readonly queues = new Map<string, LocalQueue>();

  /** Joins the local queue of the calls for this name of which so many are active. */
  join(name: string, turns: number, wake: Wake): Ticket {
    const key = `${turns} ${name}`;
    let queue = this.queues.get(key);
    if (!queue) {
      queue = { active: [], waiting: new Fifo(), inherited: undefined, seen: undefined };
      this.queues.set(key, queue);
    }
    const ticket = new Ticket(queue, wake, () => this.queues.delete(key));
    if (queue.active.length < turns) queue.active.push(ticket);
    else queue.waiting.push(ticket);
    return ticket;
  }
}

/** The place of one call in a local queue. */
export class Ticket implements Member {
  hasLeft = false;

  constructor(
    private readonly queue: LocalQueue,
    private readonly wake: Wake,
    private readonly remove: () => void,
  ) {}

  get hasTurn(): boolean {
    return this.queue.active.includes(this);
  }

  /** How many active calls are before this one. 0 for the one that leads. */
  get ledBy(): number {
    return this.queue.active.indexOf(this);
  }

  /** Takes over the entry of the call before this one, if it has left one. */
  takeInherited(): Inherited | undefined {
    const { inherited } = this.queue;
    this.queue.inherited = undefined;
    return inherited;
  }

  /** Passes a queue entry on to the next call. */
  passOn(inherited: Inherited): void {
    this.queue.inherited = inherited;
  }

  /** Stores the newest state of the lease. For calls whose wait ends before they become active. */
  record(info: Info): void {
    this.queue.seen = info;
  }

  /** The newest state of the lease that any call in this queue has seen. */
  get lastSeen(): Info | undefined {
    return this.queue.seen;
  }

  /** Leaves the queue: the next call becomes active. An entry that no call is left for is given up. */
  leave(): void {
    const { queue } = this;
    const place = queue.active.indexOf(this);
    this.hasLeft = true;
    if (place >= 0) {
      queue.active.splice(place, 1);
      const next = queue.waiting.shift();
      if (next) {
        queue.active.push(next);
        next.wake.notify();
      }
      // Whoever is first now leads.
      if (place === 0) queue.active[0]?.wake.notify();
    }
    if (queue.active.length > 0) return;
    this.remove();
    queue.inherited?.slot.close();
    queue.inherited?.slot.call.abandonEntry();
    queue.inherited = undefined;
  }
}
