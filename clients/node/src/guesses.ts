// What one manager guesses of names, by what its commands have found. A wrong guess costs one command, and nothing else.

import type { Clock } from './clock';
import { Guess, type Manager } from './core';

export class Guesses {
  /** Whether anything was ever found true, by guess. Until then the core, which is told of each command, is not asked. */
  private readonly found = [false, false, false];

  constructor(
    private readonly manager: Manager,
    private readonly clock: Clock,
  ) {}

  /** Whether the lease is likely to be held or waited for. */
  isContended(name: string): boolean {
    return this.isLikely(Guess.Contended, name);
  }

  /** Notes whether the lease was found held or waited for. If not, nobody waits for it. */
  noteContended(name: string, isTrue: boolean): void {
    this.note(Guess.Contended, name, isTrue);
    if (!isTrue) this.note(Guess.Awaited, name, false);
  }

  /** Whether a transaction is likely to block writes to the document. */
  isBlocked(name: string): boolean {
    return this.isLikely(Guess.Blocked, name);
  }

  /** Notes whether a transaction was found to block writes to the document. */
  noteBlocked(name: string, isTrue: boolean): void {
    this.note(Guess.Blocked, name, isTrue);
  }

  /** Notes that calls wait for a lease that is held here. */
  noteAwaited(name: string): void {
    this.note(Guess.Awaited, name, true);
  }

  /** Whether calls were found to wait for a lease that is released now. What is known of them ends with it. */
  takeAwaited(name: string): boolean {
    const isAwaited = this.isLikely(Guess.Awaited, name);
    if (isAwaited) this.note(Guess.Awaited, name, false);
    return isAwaited;
  }

  private isLikely(guess: Guess, name: string): boolean {
    return this.found[guess] === true && this.manager.isLikely(guess, name, this.clock.rough());
  }

  private note(guess: Guess, name: string, isTrue: boolean): void {
    if (isTrue) this.found[guess] = true;
    else if (!this.found[guess]) return;
    this.manager.noteFound(guess, name, this.clock.rough(), isTrue);
  }
}
