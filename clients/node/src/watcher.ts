// Watches for promotions: one change stream for each manager, open while a call waits.
//
// It only sets flags. If the stream is broken, silent or refused, missed events cost time but never a lease: every
// waiter also sends attempts by its own clock.

import { type Clock, Wake, about } from './clock';
import { Command, Constants, Reopening } from './core';
import type { Engine } from './engine';
import { type AttemptTime, oneAttempt, untilAnswered } from './retry';
import { type Attempt, type NewsStream, attemptError, before } from './runner';

const SILENCE_MS = Constants.streamSilence();
const OPENING_MS = Constants.streamOpening();
// When a ping tests whether commands still get a connection, counted from the stream's read, and its time.
const PING_AFTER_MS = Constants.pingAfter();
const PING_MS = Constants.pingTimeout();

/** Why a stream is no longer followed. */
interface Ended {
  // `passing`: it may work again at any moment. `lasting`: the next try may well end in the same way.
  why: 'idle' | 'passing' | 'lasting';
  /** For how long it has worked, and left room for other commands, in milliseconds. */
  worked?: number;
  /** Why, where it is not idle. */
  reason?: string;
  /** Whether waiting calls have relied on it. */
  wasOpen?: boolean;
}

export class Watcher {
  private readonly stopping = new Wake();
  private isStopped = false;
  private readonly working: Promise<void>;

  constructor(private readonly engine: Engine) {
    this.working = this.work();
  }

  private get clock(): Clock {
    return this.engine.clock.background;
  }

  /** Ends the loop, and closes the stream. */
  stop(): Promise<void> {
    this.isStopped = true;
    this.stopping.notify();
    this.engine.waiters.joinedWake.notify();
    return this.working;
  }

  private async work(): Promise<void> {
    const { clock } = this;
    const { waiters } = this.engine;
    let [reopening, isPolling] = [new Reopening(), false];
    while (!this.isStopped) {
      const { wanted } = waiters;
      if (!wanted) {
        await waiters.joinedWake.until(clock, Infinity);
        continue;
      }
      // A stream that is asked for in vain would keep its place before a connection.
      if (isPolling && !(await this.getsThrough())) {
        await this.sleep(reopening.later());
        continue;
      }
      if (this.isStopped) return;
      const { why, worked, reason = '', wasOpen } = await this.watch(wanted.since);
      if (why === 'idle' || this.isStopped) {
        [reopening, isPolling] = [new Reopening(), false];
        continue;
      }
      waiters.streamIsGone();
      // Told once, not at each try.
      if (wasOpen || !isPolling) this.engine.events.report(() => ({ event: 'polling', reason }));
      isPolling = true;
      // If no other command gets through now, without it, the database is away for all.
      const lasts = (await this.getsThrough()) && why === 'lasting';
      await this.sleep(reopening.after(lasts, worked));
    }
  }

  /** About so long, or until the loop ends. */
  private async sleep(milliseconds: number): Promise<void> {
    const { clock } = this;
    if (!this.isStopped) await this.stopping.until(clock, clock.now() + about(milliseconds) * 1e3);
  }

  /** Whether a command gets through now. False also if the loop ends. */
  private async getsThrough(): Promise<boolean> {
    const stopped = this.stopping.until(this.clock, Infinity).then(() => false);
    const isThrough = await Promise.race([passes(this.engine), stopped]);
    this.stopping.notify();
    await stopped;
    return isThrough && !this.isStopped;
  }

  private async watch(since: bigint | undefined): Promise<Ended> {
    const { clock, engine } = this;
    const { runner } = engine;
    const opening = runner.backend.watch(engine.manager, engine.collection, since);
    let stream: NewsStream | undefined;
    try {
      stream = await before(clock, clock.now() + OPENING_MS * 1e3, opening);
    } catch (error) {
      const fault = attemptError(error).failure.fault();
      return { why: fault.isTransient() ? 'passing' : 'lasting', reason: fault.message() };
    }
    if (!stream) {
      void opening.then((late) => late.close()).catch(() => undefined);
      return { why: 'lasting', reason: 'the change stream could not be opened in time' };
    }
    const following = new Following(engine, stream, since);
    const stopped = this.stopping.until(clock, Infinity).then(() => 'stopped' as const);
    const ended = await Promise.race([following.untilEnd(), stopped]);
    if (ended !== 'stopped') this.stopping.notify();
    await stopped;
    // A broken one may take long to close, and the waiters have to learn that it is gone.
    void runner.track(following.close());
    return ended === 'stopped' ? { why: 'idle' } : ended;
  }
}

/** One stream that is followed. */
class Following {
  private isOpen = false;
  /** When a ping had passed for the first time within one read. */
  private worksSince: number | undefined;
  private isClosed = false;
  private isInTheWay = false;
  /** How many reads have begun. */
  private reads = 0;
  private reading: Promise<unknown> = Promise.resolve();
  private readonly pause = new Wake();
  private readonly nextRead = new Wake();

  constructor(
    private readonly engine: Engine,
    private readonly stream: NewsStream,
    private readonly since: bigint | undefined,
  ) {}

  private get clock(): Clock {
    return this.engine.clock.background;
  }

  async untilEnd(): Promise<Ended> {
    const { clock } = this;
    const { waiters } = this.engine;
    let wasIdle = false;
    void this.testOthers();
    for (;;) {
      const next = this.stream.next();
      this.reads += 1;
      this.nextRead.notify();
      this.reading = next.catch(() => undefined);
      let news;
      let reason = `the change stream was silent for ${SILENCE_MS / 1e3}s`;
      try {
        news = await before(clock, clock.now() + SILENCE_MS * 1e3, next);
      } catch (error) {
        reason = attemptError(error).failure.fault().message();
      }
      if (!news || this.isClosed) {
        const worked =
          this.worksSince === undefined ? undefined : (clock.now() - this.worksSince) / 1e3;
        const [why, wasOpen] = [this.isInTheWay ? 'lasting' : 'passing', this.isOpen] as const;
        if (this.isInTheWay) reason = 'no other command gets through beside the change stream';
        return { why, worked, reason, wasOpen };
      }
      for (const { promotions, recheck } of news) {
        promotions.forEach((promotion) => waiters.promoted(promotion));
        if (recheck !== undefined) waiters.recheck(recheck);
      }
      if (news.length > 0) {
        // The next read is not sent before the calls that were told have gone on.
        await new Promise<void>((resolve) => this.clock.soon(resolve));
        continue;
      }
      const isIdle = !waiters.hasQueued;
      if (isIdle && wasIdle && waiters.closeStream()) return { why: 'idle' };
      wasIdle = isIdle;
    }
  }

  /**
   * Tests whether a command gets through while the stream has its connection: a pool may have only one. Each read that
   * lasts is tested, as other commands may have come to the pool since.
   */
  private async testOthers(): Promise<void> {
    const { clock } = this;
    const { waiters } = this.engine;
    for (;;) {
      const read = this.reads;
      await this.pause.until(clock, clock.now() + PING_AFTER_MS * 1e3);
      if (this.isClosed) return;
      // A read that is over has given its connection back. The first test does not wait for a read that lasts: events
      // may arrive without a pause.
      if (this.isOpen && read !== this.reads) continue;
      const tested = this.reads;
      if (!(await this.passes()) || this.isClosed) return;
      if (!this.isOpen) {
        this.isOpen = true;
        waiters.streamIsOpen(this.since);
        this.engine.events.report(() => ({ event: 'watching' }));
      }
      if (tested === this.reads) this.worksSince ??= clock.now();
      // A ping from before a read may have had the connection of the one before: it does not count for this read.
      while (tested === this.reads && !this.isClosed) await this.nextRead.until(clock, Infinity);
    }
  }

  /** Sends a ping. If it does not get through, the stream is closed. */
  private async passes(): Promise<boolean> {
    if (await passes(this.engine)) return true;
    this.isInTheWay = true;
    this.isClosed = true;
    await this.stream.close().catch(() => undefined);
    return false;
  }

  async close(): Promise<void> {
    this.isClosed = true;
    this.pause.notify();
    this.nextRead.notify();
    await this.stream.close().catch(() => undefined);
    // Its read ends with it.
    await this.reading;
  }
}

/** Whether a command gets through now. */
async function passes({ clock: { background: clock }, runner }: Engine): Promise<boolean> {
  const ping = (time: AttemptTime): Attempt => runner.start(Command.ping(), time);
  try {
    await untilAnswered(clock, oneAttempt(clock, PING_MS), ping);
    return true;
  } catch {
    return false;
  }
}
