// Ends leases: for holders, and for calls whose caller has gone.
//
// The document of a holder that is alone is deleted. Beside other holders, or with a queue, a release ends its own
// grant and admits the waiters that fit then. Each command checks its own conditions, so the order of the commands affects
// speed only: the last one matches every remaining state.

import { type Command, Constants, type Fault, Scope, type Target } from './core';
import type { Released } from './outcomes';
import { type AttemptTime, type Policy, Prior, untilAnswered } from './retry';
import { type Attempt, type Runner, randomHex } from './runner';

/** One command of a release. They are sent in turn until one of them matches. */
export type ReleaseStep = 'delete' | 'besideOthers' | 'anywhere' | 'heldOrQueued' | 'later';

/** The state in which a release is likely to find its grant. */
export type Likely = 'alone' | 'besideOthers' | 'maybeAlone' | 'maybeQueued';

/** The commands of a release, by that state. A wrong guess costs a command. */
export const GIVE_BACK: Record<Likely, ReleaseStep[]> = {
  alone: ['delete', 'anywhere'],
  besideOthers: ['besideOthers', 'delete', 'anywhere'],
  maybeAlone: ['delete', 'heldOrQueued'],
  maybeQueued: ['heldOrQueued'],
};

/** What a release ends, and by which commands. */
export interface Ending {
  name: string;
  target: Target;
  steps: ReleaseStep[];
}

export class Releaser {
  constructor(private readonly runner: Runner) {}

  /** Ends one lease. Throws an `AttemptError` if the release is not confirmed in time. */
  async end(ending: Ending, policy: Policy, wasValid: boolean): Promise<Released> {
    const { runner } = this;
    const { name, target, steps } = ending;
    let earlier = Prior.NotApplied;
    for (const step of steps) {
      const attempt = (time: AttemptTime): Attempt =>
        runner.start(commandOf(target, step), time, { about: name });
      const answered = await untilAnswered(runner.clock, policy, attempt);
      const ended = answered.reply.count();
      // As of a grant: the collector does not see how large it is.
      answered.reply.free();
      earlier = Math.max(earlier, answered.earlier);
      // A call that leaves a queue need not be there: no other command finds more of it.
      if (step === 'heldOrQueued' || ended > 0) return 'released';
    }
    if (earlier === Prior.NotApplied) return 'notHeld';
    if (earlier === Prior.Unanswered || !wasValid) return 'unknown';
    // The lease was valid at the time of the release, and a command of ours was answered: so we ended it, or it has
    // expired since, or an operator ended it. Or its document is damaged, and nothing is written there.
    return (await this.damaged(target, policy)) ? 'notHeld' : 'released';
  }

  /** The same for a caller: throws a `Fault` where the document is damaged. */
  async release(ending: Ending, policy: Policy, wasValid: boolean): Promise<Released> {
    const released = await this.end(ending, policy, wasValid);
    if (released === 'released') return released;
    const damaged = await this.damaged(ending.target, policy);
    if (damaged) throw damaged;
    return released;
  }

  /** Releases a lease or a grant in the background. After `until` it has expired by itself. */
  inBackground(ending: Ending, until: number): void {
    const now = this.runner.clock.now();
    const attemptTimeout = Constants.attemptTimeout();
    // A lease that has expired by our clock still gets one attempt: the server's clock may differ.
    const deadline = Math.max(until, now + attemptTimeout * 1e3);
    const policy = { attemptTimeout, deadline };
    // What is not confirmed ends with its ttl.
    const ended = this.end(ending, policy, false).catch(() => 'unknown');
    void this.runner.track(ended);
  }

  /** The error if the document of this lease, which a release has not ended, is damaged. */
  async damaged(target: Target, policy: Policy): Promise<Fault | undefined> {
    const attempt = (time: AttemptTime): Attempt => this.runner.start(target.find(), time);
    try {
      return target.damaged((await untilAnswered(this.runner.clock, policy, attempt)).reply);
    } catch {
      // Then the answer to the release is all that is known.
      return undefined;
    }
  }
}

function commandOf(target: Target, step: ReleaseStep): Command {
  switch (step) {
    case 'delete':
      return target.delete();
    case 'besideOthers':
      return target.end(Scope.BesideOthers, randomHex());
    case 'anywhere':
      return target.end(Scope.Anywhere, randomHex());
    case 'heldOrQueued':
      return target.end(Scope.HeldOrQueued, randomHex());
    case 'later':
      return target.endLater(randomHex());
  }
}
