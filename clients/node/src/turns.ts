// Many calls at once take turns, so that the event loop has time for everything else: fifty go on at once, and fifty in
// each later turn of the loop.

import type { Clock } from './clock';
import { Fifo, type Member } from './fifo';

// Each takes some hundredths of a millisecond.
const EACH_TURN = 50;

interface Waiting extends Member {
  go: () => void;
}

export class Turns {
  /** How many have gone on since the last turn that was asked for. */
  private gone = 0;
  private readonly waiting = new Fifo<Waiting>();

  constructor(private readonly clock: Clock) {}

  /** What the caller has to wait for, in the order of the calls; nothing while they are few. */
  next(): Promise<void> | undefined {
    if (this.gone < EACH_TURN && !this.waiting.peek()) {
      this.count();
      return undefined;
    }
    return new Promise((go) => this.waiting.push({ hasLeft: false, go }));
  }

  /** Counts one that goes on. With the fiftieth, a turn is asked for: calls that are few cost none. */
  private count(): void {
    this.gone += 1;
    if (this.gone === EACH_TURN) this.clock.soon(() => this.begin());
  }

  private begin(): void {
    this.gone = 0;
    while (this.gone < EACH_TURN) {
      const next = this.waiting.shift();
      if (!next) return;
      this.count();
      next.go();
    }
  }
}
