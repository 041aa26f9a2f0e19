// Elections: of all processes that campaign for a name, one leads, and its work stops before its lease ends.

import { inspect } from 'node:util';
import type { Document } from 'mongodb';
import { type Fault, Rules } from './core';
import type { Engine } from './engine';
import { type LeaseLostError, toError } from './errors';
import type { Lease } from './lease';
import { type Options, check, checkOptions } from './options';
import type { Released } from './outcomes';
import { onAbort } from './signals';

/** The options of a campaign. Times are in milliseconds. */
export interface CampaignOptions {
  /** How long there is no leader after a leader's crash. Defaults to the manager's. */
  ttl?: number;
  /**
   * How long before the end of its lease a leader is told to stop, and how long its work may go on after it was asked
   * to step down. Defaults to a sixth of the ttl. More than half of the ttl counts as that half.
   */
  notice?: number;
  /** Ends the campaign. A leader that was elected by it is asked to step down. */
  signal?: AbortSignal;
  /** The label of the leader. Defaults to the manager's. */
  owner?: string;
  /** Stored in the leader's lease, such as the address at which it can be reached: at most 4 KiB of BSON. */
  metadata?: Document;
}

/** Why a leader has to stop. */
export type StopReason =
  /** It was asked to step down, or the signal of its campaign was aborted. */
  | 'asked'
  /** The lease could not be renewed, and ends soon. */
  | 'nearEnd'
  /** The lease is lost, or was released. There may be another leader at any moment. */
  | 'lost';

const KINDS: Options<CampaignOptions> = {
  ttl: 'millis',
  notice: 'millis',
  signal: 'signal',
  owner: 'string',
  metadata: 'document',
};

/** @internal Checks the options of a campaign. */
export function checkCampaign(options: CampaignOptions): CampaignOptions {
  return checkOptions(options, KINDS);
}

/**
 * The leadership of one term, with the leader's lease. While that is valid there is no other leader, under the
 * assumptions of every lease: let a leader's writes check the token, or be in transactions under the lease.
 */
export class Leadership {
  private readonly controller = new AbortController();
  /** The notice that was asked for. */
  private readonly asked: number | undefined;
  /** The longest remaining time of the lease so far: one that was handed off is short until its first renewal. */
  private whole = 0;
  private reason: StopReason | undefined;
  private cancelTimer = (): void => undefined;
  private readonly forget: (() => void)[];

  /** @internal */
  constructor(
    private readonly engine: Engine,
    /** The leader's lease. */
    readonly lease: Lease,
    { notice, signal }: CampaignOptions,
  ) {
    this.asked = notice;
    const { signal: lost } = lease;
    this.forget = [
      onAbort(lost, () => this.tell('lost')),
      onAbort(signal, () => this.tell('asked')),
    ];
    if (lost.aborted) this.tell('lost');
    else if (signal?.aborted) this.tell('asked');
    else this.watch();
  }

  /**
   * Aborted when the leader has to stop, some time before its lease ends. `stopReason` says why. A renewal that
   * succeeds later does not take that back.
   */
  get signal(): AbortSignal {
    this.look();
    return this.controller.signal;
  }

  /** Why the leader has to stop; nothing while it leads. It reads the clock at each call. */
  get stopReason(): StopReason | undefined {
    this.look();
    return this.reason;
  }

  /** Asks the leader to stop. Its process may be elected again. */
  stepDown(): void {
    this.tell('asked');
  }

  /**
   * Runs the work, and ends the term. The work is told by `signal` when it has to stop. If it has not ended some time
   * later (`notice`), or when the lease is lost, the result is a `LeaseLostError` at once: always before another
   * process can lead. A work that goes on after that does so without the lease.
   */
  async run<T>(work: (leadership: Leadership) => T | Promise<T>): Promise<T> {
    check('work', work, 'function');
    const { lease } = this;
    const end = new LastMoment(this.engine, this);
    try {
      lease.check();
      const working = (async () => work(this))();
      const result = await Promise.race([working, end.error]);
      // The validity may have ended while the event loop was blocked.
      if (!lease.hasEndedInTime) lease.check();
      return result;
    } finally {
      end.forget();
      // A release that is not confirmed is retried in the background. One of a lost lease is not waited for.
      const isHeld = lease.isValid();
      const releasing = this.release().catch(() => undefined);
      // A program that ends by the error of a close ends behind the releases.
      if (this.engine.isClosing) await this.engine.close();
      else if (isHeld) await releasing;
    }
  }

  /** Ends the term: releases the leader's lease. */
  release(): Promise<Released> {
    return this.lease.release();
  }

  /** Releases the lease at the end of a block: `await using leadership = await leases.campaign(name)`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.lease[Symbol.asyncDispose]();
  }

  toJSON(): ReturnType<Lease['toJSON']> & { stopReason?: StopReason } {
    const { reason } = this;
    return { ...this.lease.toJSON(), ...(reason && { stopReason: reason }) };
  }

  [inspect.custom](): string {
    return `Leadership ${inspect(this.toJSON(), { breakLength: Infinity })}`;
  }

  /** @internal The remaining time of the lease at which the leader has to stop. */
  notice(): number {
    this.whole = Math.max(this.whole, this.lease.remaining());
    return Rules.leaderNotice(this.asked, this.whole);
  }

  /** @internal The error of work that has not stopped. */
  error(): LeaseLostError {
    const { engine, lease } = this;
    const isAsked = this.reason === 'asked';
    const ends = (): Fault => lease.holding.endError(engine.clock.now());
    return toError(isAsked ? Rules.steppedDown(lease.name) : ends()) as LeaseLostError;
  }

  /** Reads the clock: a blocked event loop fires no timer. */
  private look(): void {
    if (this.reason === undefined && this.lease.remaining() <= this.notice()) this.watch();
  }

  private watch(): void {
    if (this.reason !== undefined) return;
    this.cancelTimer();
    const { clock } = this.engine;
    const spare = this.lease.remaining() - this.notice();
    if (spare > 0) this.cancelTimer = clock.timer(clock.now() + spare * 1e3, () => this.watch());
    else this.tell(this.lease.isValid() ? 'nearEnd' : 'lost');
  }

  private tell(reason: StopReason): void {
    if (this.reason !== undefined) return;
    this.reason = reason;
    this.cancelTimer();
    this.forget.forEach((each) => each());
    this.controller.abort(this.error());
  }
}

/** The moment at which a leader's work is over, and no other process can lead yet. */
class LastMoment {
  readonly error: Promise<never>;
  private cancelTimer = (): void => undefined;
  private readonly forgets: (() => void)[];

  constructor(engine: Engine, leadership: Leadership) {
    const { lease, signal } = leadership;
    const { signal: lost } = lease;
    const { clock } = engine;
    let end!: (error: unknown) => void;
    this.error = new Promise<never>((_, reject) => (end = reject));
    this.error.catch(() => undefined);
    const isLost = (): void => {
      // Work may release its lease when it needs it no longer.
      if (!lease.hasEndedInTime) end(lost.reason);
    };
    const isTold = (): void => {
      if (lost.aborted) return;
      const last = clock.now() + leadership.notice() * 1e3;
      this.cancelTimer = clock.timer(last, () => end(leadership.error()));
    };
    this.forgets = [onAbort(lost, isLost), onAbort(signal, isTold)];
    if (lost.aborted) isLost();
    else if (signal.aborted) isTold();
  }

  forget(): void {
    this.cancelTimer();
    this.forgets.forEach((each) => each());
  }
}
