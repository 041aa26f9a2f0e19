// Many calls at once take turns: between them the event loop has time for everything else.

import type { Clock } from './clock';
import { Fifo, type Member } from './fifo';

// How many go on in one turn of the event loop. Each takes some hundredths of a millisecond.
const EACH_TURN = 50;

interface Waiting extends Member {
  go: () => void;
}

export class Turns {
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

  /** Counts one that goes on. With the last of this turn, the next turn is asked for. */
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
