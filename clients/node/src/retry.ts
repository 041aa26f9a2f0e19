// Repeats a command until it is answered or the caller's deadline passes.
//
// An attempt begins when its command is sent. While it waits in this process for a slot, no other one is started. When
// an attempt that was sent takes too long, another one is sent beside it, and the first goes on. So this is only for
// commands that may be applied twice. The answer includes what is known of the earlier attempts.

import { type Clock, Wake, delays, growing } from './clock';
import { Constants, Failure, Next, type Reply } from './core';
import { AttemptError } from './errors';

/** How long an attempt may take. It begins when its command is sent; until then only the deadline ends it. */
export interface AttemptTime {
  timeoutMs: number;
  deadline: number;
}

/** An attempt in progress. */
export interface Pending {
  readonly answer: Promise<Reply>;
  /** When it was sent; nothing while it waits in this process. */
  readonly sentAt: number | undefined;
  /** Ends it, unless it was sent. */
  withdraw(): void;
}

/** The time limits of a command, and of each of its attempts in milliseconds. */
export interface Policy {
  attemptTimeout: number;
  deadline: number;
}

/** The most that an earlier attempt of a call may have done. */
export enum Prior {
  /** None of them was applied. */
  NotApplied,
  /**
   * The server cut one off, because a document was blocked or no majority had the write in time. It does nothing more.
   */
  CutOff,
  /** One was not answered. It may have been applied, or still may be. */
  Unanswered,
}

/** The reply to a command, and what is known of its earlier attempts. */
export interface Answered {
  reply: Reply;
  earlier: Prior;
}

/** Lets a caller stop waiting for an answer. */
export class Stop {
  isStopped = false;
  private readonly wakes = new Set<Wake>();

  stop(): void {
    this.isStopped = true;
    this.wakes.forEach((wake) => wake.notify());
  }

  add(wake: Wake): () => void {
    this.wakes.add(wake);
    return () => void this.wakes.delete(wake);
  }
}

/** The caller has stopped waiting. */
export class Stopped extends Error {}

/** Between two attempts at a command that failed, in milliseconds. */
export const RETRY = delays(Constants.retry());

/** Within one attempt's time from now, a failed attempt is repeated. */
export function oneAttempt(clock: Clock, attemptTimeout: number): Policy {
  return { attemptTimeout, deadline: clock.now() + attemptTimeout * 1e3 };
}

function effectOf(failure: Failure): Prior {
  if (!failure.maybeApplied()) return Prior.NotApplied;
  return failure.isCutOff() ? Prior.CutOff : Prior.Unanswered;
}

/** Starts attempts until one is answered, or fails so that `ends` is true. */
export async function untilAnswered(
  clock: Clock,
  policy: Policy,
  attempt: (time: AttemptTime) => Pending,
  ends: (failure: Failure) => boolean = () => false,
  stop?: Stop,
): Promise<Answered> {
  const loop = new Attempting(clock, policy, attempt, ends);
  const removed = stop?.add(loop.wake);
  try {
    for (;;) {
      if (stop?.isStopped) throw new Stopped();
      const answered = loop.step();
      if (answered) return answered;
      await loop.wake.until(clock, loop.wakeAt());
    }
  } finally {
    removed?.();
    loop.withdraw();
  }
}

class Attempting {
  readonly wake = new Wake();
  private readonly answers: (Reply | AttemptError)[] = [];
  private readonly delays = growing(...RETRY);
  /** The attempts that have no answer yet, the newest one last. */
  private readonly underWay: Pending[] = [];
  private earlier = Prior.NotApplied;
  private last: AttemptError | undefined;
  private nextAttemptAt = 0;

  constructor(
    private readonly clock: Clock,
    private readonly policy: Policy,
    private readonly attempt: (time: AttemptTime) => Pending,
    private readonly ends: (failure: Failure) => boolean,
  ) {}

  wakeAt(): number {
    return Math.min(this.nextAttemptAt, this.policy.deadline);
  }

  /** The next step. Returns the answer if there is one, and throws the final failure. */
  step(): Answered | undefined {
    const now = this.clock.rough();
    const answer = this.answers.shift();
    if (answer instanceof AttemptError) this.failed(answer, now);
    else if (answer) {
      const earlier = this.isAnySent() ? Prior.Unanswered : this.earlier;
      return { reply: answer, earlier };
    } else if (now >= this.policy.deadline) {
      throw this.timedOut();
    }
    if (this.answers.length > 0) this.wake.notify();
    else if (now >= this.nextAttemptAt && now < this.policy.deadline) this.startIfOver(now);
    return undefined;
  }

  /** Starts an attempt, unless the newest one still has time. One that waits in this process has not begun. */
  private startIfOver(now: number): void {
    const newest = this.underWay.at(-1);
    const timeout = this.policy.attemptTimeout * 1e3;
    const overAt = newest ? (newest.sentAt ?? now) + timeout : now;
    if (now < overAt) this.nextAttemptAt = overAt;
    else this.start(now);
  }

  /** Whether any of the attempts without an answer was sent. The others are withdrawn. */
  private isAnySent(): boolean {
    this.withdraw();
    return this.underWay.some((attempt) => attempt.sentAt !== undefined);
  }

  withdraw(): void {
    this.underWay.forEach((attempt) => attempt.withdraw());
  }

  private start(now: number): void {
    const { attemptTimeout, deadline } = this.policy;
    this.nextAttemptAt = now + attemptTimeout * 1e3;
    const attempt = this.attempt({ timeoutMs: attemptTimeout, deadline });
    this.underWay.push(attempt);
    const heard = (answer: Reply | AttemptError): void => {
      this.underWay.splice(this.underWay.indexOf(attempt), 1);
      this.answers.push(answer);
      this.wake.notify();
    };
    attempt.answer.then(heard, heard);
  }

  private failed(error: AttemptError, now: number): void {
    const { failure } = error;
    this.earlier = Math.max(this.earlier, effectOf(failure));
    if (failure.next() !== Next.Retry || this.ends(failure)) {
      const maybe = this.isAnySent() || this.earlier > Prior.NotApplied;
      throw new AttemptError(failure.orMaybe(maybe), error.source);
    }
    this.last = error;
    const delay = this.delays.next().value;
    this.nextAttemptAt = Math.min(this.nextAttemptAt, now + delay * 1e3);
  }

  private timedOut(): AttemptError {
    const isSent = this.isAnySent();
    const silence = isSent ? Failure.unanswered() : Failure.notSent();
    const maybe = isSent || this.earlier > Prior.NotApplied;
    const failure = (this.last?.failure ?? silence).orMaybe(maybe);
    return new AttemptError(failure, this.last?.source);
  }
}
