// Jobs that every process starts, and that one process runs.

import { inspect } from 'node:util';
import type { Document } from 'mongodb';
import { Wake } from './clock';
import { Rules } from './core';
import type { Engine } from './engine';
import {
  InvalidOptionError,
  LeaseBusyError,
  LeaseError,
  LeaseLostError,
  invalidOption,
} from './errors';
import type { LeaseInfo } from './info';
import type { Lease } from './lease';
import type { LeaseManager } from './manager';
import { type AcquireOptions, type Options, check, checkOptions } from './options';
import { onAbort } from './signals';

/** The options of a job. Times are in milliseconds. */
export interface JobOptions {
  /**
   * The period of `start`. A tick begins at each multiple of it since 1970, by the server's clock: each day of
   * 86,400,000 begins at midnight in UTC.
   */
  every?: number;
  /**
   * How long the name stays taken at least, counted from the start, also if the job ends earlier or fails. Choose it
   * longer than the machines' clocks differ, and shorter than the time from one start to the next. Defaults to none,
   * and for `start` to the rest of the tick.
   */
  atLeast?: number;
  /** How long the job may run. Then its lease is lost. At least 100 ms. Defaults to no limit. */
  atMost?: number;
  /** How long a crash during the job keeps the name taken. Defaults to the manager's. */
  ttl?: number;
  /** The label of the process that runs the job. Defaults to the manager's. */
  owner?: string;
  /** Stored in the lease document while the job runs. */
  metadata?: Document;
}

/** How the ticks of a job go on. */
export interface StartOptions {
  /** Ends the ticks. A run that has begun goes on to its end. */
  signal?: AbortSignal;
  /**
   * Is told what a run has thrown, or its `LeaseLostError`, and that the database was out of reach at a tick. The ticks
   * go on. Without it, an error of a run ends `start`.
   */
  onError?: (error: unknown, tick: number | undefined) => void;
}

/** The result of a job's start. */
export type JobRun<T> =
  /** The job ran here, and returned this. */
  | { outcome: 'done'; result: T }
  /** The job runs elsewhere, or has just run there. Nothing was done here. */
  | { outcome: 'skipped'; held: LeaseInfo | undefined };

const OF_JOB: Options<JobOptions> = {
  every: 'millis',
  atLeast: 'millis',
  atMost: 'millis',
  ttl: 'millis',
  owner: 'string',
  metadata: 'document',
};

const OF_START: Options<StartOptions> = { signal: 'signal', onError: 'function' };

// After a time that the server did not tell. The question itself was repeated for longer.
const AGAIN_MS = 1000;

/** @internal The options of the job's lease. Checks those that no other lease has. */
export function leaseOptionsOf(options: JobOptions): AcquireOptions {
  const { every, atLeast, atMost, ...others } = checkOptions(options, OF_JOB);
  if (every !== undefined && !(every > 0 && every < Infinity)) {
    throw invalidOption('every', 'must be greater than zero');
  }
  Rules.checkJob(atLeast, atMost, every);
  return {
    ...others,
    ...(atLeast !== undefined && { holdAtLeast: atLeast }),
    ...(atMost !== undefined && { maxHold: atMost }),
  };
}

// The options of a job's lease that have another name there.
const WRITTEN: Record<string, string> = { holdAtLeast: 'atLeast', maxHold: 'atMost' };

/** @internal Names a refused option of the job's lease as the caller of the job has written it. */
export function namedAsWritten<T>(call: () => T): T {
  try {
    return call();
  } catch (error) {
    if (!(error instanceof InvalidOptionError)) throw error;
    const { option, message } = error;
    const written = WRITTEN[option];
    throw written === undefined
      ? error
      : invalidOption(written, message.slice(`${option}: `.length));
  }
}

/**
 * A job that every process starts, and that one process runs: at most once at a time, and at most once within
 * `atLeast`.
 *
 * A job need not run to its end. Where its process dies, the name becomes free after the ttl, however long `atLeast`
 * is, and a process that comes later than that runs it again: make sure that the job can be run twice, or fence its
 * writes.
 */
export class Job {
  /** @internal */
  constructor(
    private readonly leases: LeaseManager,
    private readonly engine: Engine,
    readonly name: string,
    private readonly every: number | undefined,
    private readonly options: AcquireOptions,
  ) {}

  /**
   * Runs the job now, unless it runs elsewhere or has just run there: for a scheduler that calls it in each process.
   * Throws what the work throws, or a `LeaseLostError` if the lease was lost before the end.
   */
  async run<T>(work: (lease: Lease) => T | Promise<T>): Promise<JobRun<T>> {
    check('work', work, 'function');
    let hasBegun = false;
    const begin = (lease: Lease): T | Promise<T> => {
      hasBegun = true;
      return work(lease);
    };
    try {
      const result = await this.leases.withLease(this.name, begin, { ...this.options, wait: 0 });
      return { outcome: 'done', result };
    } catch (error) {
      if (hasBegun || !(error instanceof LeaseBusyError)) throw error;
      return { outcome: 'skipped', held: error.held };
    }
  }

  /**
   * Runs the job at each tick, `every` so many milliseconds: of all processes that have started it, one runs a tick. It
   * begins with the next tick. It ends when its signal is aborted or the manager is closed.
   *
   * The server's clock says which tick it is, and the name stays taken until the tick ends. `tick` is its number: it
   * begins at `tick * every`, in milliseconds since 1970. A tick is left out while an earlier run lasts, and where no
   * process can reach the database when it begins.
   */
  async start(
    work: (lease: Lease, tick: number) => unknown,
    options: StartOptions = {},
  ): Promise<void> {
    check('work', work, 'function');
    const ticks = new Ticks(this, this.engine, this.every, work, options);
    await ticks.untilEnd();
  }

  toJSON(): { name: string; every?: number } {
    const { name, every } = this;
    return { name, ...(every !== undefined && { every }) };
  }

  [inspect.custom](): string {
    return `Job ${inspect(this.toJSON())}`;
  }

  /** @internal The same job, whose attempts end with this signal. */
  until(signal: AbortSignal | undefined): Job {
    const options = signal ? { ...this.options, signal } : this.options;
    return new Job(this.leases, this.engine, this.name, this.every, options);
  }
}

/** The ticks of one process. */
class Ticks {
  private readonly job: Job;
  private readonly every: number;
  private readonly wake = new Wake();

  constructor(
    job: Job,
    private readonly engine: Engine,
    every: number | undefined,
    private readonly work: (lease: Lease, tick: number) => unknown,
    private readonly options: StartOptions,
  ) {
    checkOptions(options, OF_START);
    if (every === undefined) throw invalidOption('every', 'must be set for a job that is started');
    this.job = job.until(options.signal);
    this.every = every;
  }

  async untilEnd(): Promise<void> {
    const { engine, options } = this;
    engine.checkOpen();
    const stop = (): void => this.wake.notify();
    const forget = [onAbort(options.signal, stop), engine.onClosing(stop)];
    try {
      while (!this.isStopped) await this.next();
    } finally {
      forget.forEach((each) => each());
    }
  }

  private get isStopped(): boolean {
    return this.engine.isClosing || (this.options.signal?.aborted ?? false);
  }

  /** Waits for the next tick, and runs it unless another process does. */
  private async next(): Promise<void> {
    let tick: number | undefined;
    let hasBegun = false;
    try {
      tick = await this.untilTick();
      if (tick === undefined) return;
      const begun = tick;
      await this.job.run((lease) => {
        hasBegun = true;
        return this.runTick(lease, begun);
      });
    } catch (error) {
      // It is the signal's reason, or says that the manager is closed. A run whose lease a close has ended was told.
      const isEndOfAll = hasBegun ? this.engine.isClosing && isLoss(error) : this.isStopped;
      if (isEndOfAll) return;
      const goesOn = hasBegun
        ? this.options.onError !== undefined
        : error instanceof LeaseError && error.isTransient;
      if (!goesOn) throw error;
      this.options.onError?.(error, tick);
      if (tick === undefined) await this.sleep(AGAIN_MS);
    }
  }

  private async runTick(lease: Lease, tick: number): Promise<void> {
    const { every } = this;
    const granted = lease.grantedIn(every) ?? tick;
    // Another primary, whose clock is behind: its tick has not begun.
    if (granted < tick) return;
    lease.holdUntil((granted + 1) * every);
    await this.work(lease, granted);
  }

  /** Waits until a tick begins, and returns its number; nothing when it is stopped. */
  private async untilTick(): Promise<number | undefined> {
    const { engine, every, options } = this;
    let now = await engine.serverNow(options.signal);
    const next = (Math.floor(now / every) + 1) * every;
    while (now < next) {
      await this.sleep(next - now);
      if (this.isStopped) return undefined;
      // The clocks of two machines may go at different speeds.
      now = await engine.serverNow(options.signal);
    }
    return Math.floor(now / every);
  }

  private async sleep(milliseconds: number): Promise<void> {
    const { clock } = this.engine;
    if (!this.isStopped) await this.wake.until(clock, clock.now() + milliseconds * 1e3);
  }
}

function isLoss(error: unknown): boolean {
  return error instanceof LeaseLostError && error.reason === 'released';
}
