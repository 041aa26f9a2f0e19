// The slots of one manager, and the commands that wait for one.
//
// The core decides which commands may be under way at once. The others wait in this process, each in the queue of its
// lane: under load no more is sent than the database answers, and a renewal does not wait for a thousand acquires.

import { Lane, Slots } from './core';
import { Fifo, type Member } from './fifo';

/** A command that waits for its slot. */
export interface Waiting extends Member {
  /** The slot is there. Returns whether it is used; then it has to be given back. */
  go(): boolean;
  /** Nothing more is sent in this lane. */
  refuse(): void;
}

const LANES = [
  Lane.Critical,
  Lane.BlockedCritical,
  Lane.Release,
  Lane.Acquire,
  Lane.BlockedAcquire,
];
const ACQUIRES = [Lane.Acquire, Lane.BlockedAcquire];

export class SlotQueue {
  private readonly slots: Slots;
  private readonly queues = LANES.map(() => new Fifo<Waiting>());
  private readonly isClosed = LANES.map(() => false);

  constructor(all: number) {
    this.slots = new Slots(all);
  }

  get areFew(): boolean {
    return this.slots.areFew();
  }

  /** Takes a slot at once, if there is one for this lane and nobody waits for it. */
  take(lane: Lane): boolean {
    return !this.isClosed[lane] && !this.of(lane).peek() && this.slots.occupy(lane);
  }

  /** Waits for a slot. */
  enter(lane: Lane, waiting: Waiting): void {
    if (this.isClosed[lane]) waiting.refuse();
    else this.of(lane).push(waiting);
  }

  giveBack(given: Lane): void {
    this.slots.giveBack(given);
    for (const lane of LANES) {
      const queue = this.of(lane);
      while (queue.peek() && this.slots.occupy(lane)) {
        if (!queue.shift()?.go()) this.slots.giveBack(lane);
      }
    }
  }

  /** Refuses new acquires, and those that wait. */
  closeAcquires(): void {
    ACQUIRES.forEach((lane) => this.close(lane));
  }

  closeAll(): void {
    LANES.forEach((lane) => this.close(lane));
  }

  private close(lane: Lane): void {
    this.isClosed[lane] = true;
    const queue = this.of(lane);
    for (let next = queue.shift(); next; next = queue.shift()) next.refuse();
  }

  private of(lane: Lane): Fifo<Waiting> {
    return this.queues[lane];
  }
}
