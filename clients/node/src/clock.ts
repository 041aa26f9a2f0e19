// The clock of one process: it goes on while the machine is suspended.

import * as os from 'node:os';
import * as timers from 'node:timers';

/**
 * A function or class as it was before a user's test has put a fake in its place. The test puts it back later, and a
 * timer of the fake never fires after that. A fake of `@sinonjs/fake-timers`, which Vitest and Jest use, keeps the true
 * one as `_setTimeout` of its clock.
 */
export function real<Of extends object, Name extends keyof Of & string>(
  of: Of,
  name: Name,
): Of[Name] {
  const { clock } = of[name] as { clock?: Record<string, unknown> };
  return (clock?.[`_${name}`] ?? of[name]) as Of[Name];
}

// A browser's, which a test may have as the global ones, keep any process alive.
const setTimeout = real(timers, 'setTimeout');
const clearTimeout = real(timers, 'clearTimeout');
const setImmediate = real(timers, 'setImmediate');
const RealDate = real(globalThis, 'Date');
const wallMillis = (): number => RealDate.now();
const hrtime = real(process, 'hrtime').bind(process);
/** A clock, in microseconds. */
export interface Clock {
  /** A moment that is not before now. */
  now(): number;
  /**
   * The same without a look at the second clock: for deadlines and guesses, and never for validity. After a suspension
   * it is behind until the next look.
   */
  rough(): number;
  /** A moment that is not after now: for what is about to be sent, as validity counts from there. */
  sent(): number;
  /** By how much that may be before now, in milliseconds. */
  readonly lag: number;
  /** Calls back at this moment or soon after it. Returns what cancels it. */
  timer(at: number, callback: () => void): () => void;
  /** Calls back in the next turn of the event loop. */
  soon(callback: () => void): void;
  /** The same clock for work that no caller waits for: its timers keep no process alive. */
  readonly background: Clock;
}

// Timers stop while the machine is suspended, and this clock does not: so late a timer may be after that. The library's
// sleeps have the same bound, each by itself; here one timer looks for all.
const SLEEP_MAX_MS = 1000;
// One that is later than this has no timer of Node's until a look finds it near: nearly all are cancelled before.
const FAR_MICROS = 2 * SLEEP_MAX_MS * 1e3;
// A clock that counts in hundredths of a second seems to gain as much.
const SUSPENSION_MICROS = 50_000;
// For so long no look at the uptime is needed, unless the wall clock has gained more than this on Node's. It counts whole
// milliseconds, so it may hide one more.
const LOOK_AGAIN_MICROS = 100_000;
const WALL_MICROS = 2_000;
const HIDDEN_MICROS = WALL_MICROS + 1_000;

/** One that waits for a moment. */
interface Timer {
  at: number;
  callback: () => void;
  isBackground: boolean;
  /** Nothing while it is far. */
  timeout: NodeJS.Timeout | undefined;
}

/**
 * The machine's clock.
 *
 * Node's monotonic clock stops during a suspension. So it is compared with a second clock that does not: on Linux the
 * machine's uptime (CLOCK_BOOTTIME), elsewhere the wall clock. By how much the second one has gained is added, and
 * never taken away: of two clocks that disagree, the one counts that says that more time has passed. The second clock
 * is coarse, so what is sent counts from that much earlier.
 *
 * A look at the uptime costs several microseconds. So a look counts for a tenth of a second, unless the wall clock, which
 * costs nothing, says that the machine has slept meanwhile.
 */
export class SystemClock implements Clock {
  private readonly second: () => number;
  private readonly monotonic = monotonicMicros;
  private readonly wall = (): number => wallMillis() * 1e3;
  private readonly resolution: number;
  private readonly lookAgain: number;
  readonly lag: number;
  readonly background: Clock;
  private gained = -Infinity;
  private wallAhead = 0;
  private lookAgainAt = -Infinity;
  private readonly timers = new Set<Timer>();
  /** How many of them are far, and keep the process alive by the look alone. */
  private foregroundFar = 0;
  private looking: NodeJS.Timeout | undefined;

  constructor() {
    const isLinux = process.platform === 'linux';
    this.second = isLinux ? () => os.uptime() * 1e6 : () => this.wall();
    // /proc/uptime has hundredths of a second. The wall clock of Windows has up to 16 ms.
    this.resolution = isLinux ? 10_000 + HIDDEN_MICROS : 16_000;
    this.lookAgain = isLinux ? LOOK_AGAIN_MICROS : 0;
    // Moments are whole microseconds.
    this.lag = (this.resolution + 1) / 1e3;
    this.background = new BackgroundClock(this);
  }

  now(): number {
    const wall = this.wall();
    // Read after the other clock, so that the time between both is not counted as gained.
    const monotonic = this.monotonic();
    const hasJumped = Math.abs(wall - monotonic - this.wallAhead) > WALL_MICROS;
    if (!hasJumped && monotonic < this.lookAgainAt) return Math.ceil(monotonic + this.gained);
    return this.look(wall - monotonic);
  }

  private look(wallAhead: number): number {
    const second = this.second();
    const monotonic = this.monotonic();
    this.gained = Math.max(this.gained, second - monotonic);
    this.wallAhead = wallAhead;
    this.lookAgainAt = monotonic + this.lookAgain;
    return Math.ceil(monotonic + this.gained);
  }

  rough(): number {
    if (this.gained === -Infinity) return this.now();
    return Math.ceil(this.monotonic() + this.gained);
  }

  sent(): number {
    return Math.max(0, this.now() - 1 - this.resolution);
  }

  timer(at: number, callback: () => void): () => void {
    return this.set(at, callback, false);
  }

  soon(callback: () => void): void {
    setImmediate(callback);
  }

  /** @internal A timer, of which a background one keeps no process alive. */
  set(at: number, callback: () => void, isBackground: boolean): () => void {
    if (at === Infinity) return () => undefined;
    const timer: Timer = { at, callback, isBackground, timeout: undefined };
    this.timers.add(timer);
    const now = this.rough();
    if (at - now <= FAR_MICROS) this.arm(timer, now);
    else if (!isBackground) this.foregroundFar += 1;
    this.lookLater();
    return () => {
      if (this.timers.delete(timer)) this.disarm(timer);
    };
  }

  private arm(timer: Timer, now: number): void {
    const left = Math.max(0, Math.ceil((timer.at - now) / 1e3));
    timer.timeout = setTimeout(() => this.fire(timer), left);
    if (timer.isBackground) timer.timeout.unref();
  }

  private disarm(timer: Timer): void {
    if (timer.timeout) clearTimeout(timer.timeout);
    else if (!timer.isBackground) this.foregroundFar -= 1;
    timer.timeout = undefined;
    if (this.foregroundFar === 0) this.looking?.unref();
  }

  private fire(timer: Timer): void {
    // Node fires up to a millisecond early.
    if (this.rough() < timer.at && this.now() < timer.at) return this.arm(timer, this.rough());
    this.timers.delete(timer);
    timer.callback();
  }

  /** Looks at all timers once a second, while there are any: which have come near, and whether the machine has slept. */
  private lookLater(): void {
    if (!this.looking) {
      const { gained } = this;
      this.looking = setTimeout(() => this.lookAtTimers(gained), SLEEP_MAX_MS).unref();
    }
    if (this.foregroundFar > 0) this.looking.ref();
  }

  private lookAtTimers(gainedBefore: number): void {
    this.looking = undefined;
    const now = this.now();
    const hasSlept = this.gained - gainedBefore >= SUSPENSION_MICROS;
    for (const timer of this.timers) {
      const isFar = !timer.timeout;
      if (timer.at - now > FAR_MICROS || !(isFar || hasSlept)) continue;
      this.disarm(timer);
      this.arm(timer, now);
    }
    if (this.timers.size > 0) this.lookLater();
  }
}

class BackgroundClock implements Clock {
  constructor(private readonly of: SystemClock) {}

  now(): number {
    return this.of.now();
  }

  rough(): number {
    return this.of.rough();
  }

  sent(): number {
    return this.of.sent();
  }

  get lag(): number {
    return this.of.lag;
  }

  timer(at: number, callback: () => void): () => void {
    return this.of.set(at, callback, true);
  }

  soon(callback: () => void): void {
    this.of.soon(callback);
  }

  get background(): Clock {
    return this;
  }
}

function monotonicMicros(): number {
  const [seconds, nanos] = hrtime();
  return seconds * 1e6 + nanos / 1e3;
}

/** What one loop sleeps on: it is woken by a call, or by the clock. */
export class Wake {
  private isSet = false;
  private resolve: (() => void) | undefined;

  notify(): void {
    this.isSet = true;
    this.resolve?.();
  }

  /** Waits until `notify` was called since the last wait, or until this moment. */
  async until(clock: Clock, at: number): Promise<void> {
    if (!this.isSet) {
      await new Promise<void>((resolve) => {
        const cancel = clock.timer(at, resolve);
        this.resolve = () => {
          cancel();
          resolve();
        };
      });
    }
    this.resolve = undefined;
    this.isSet = false;
  }
}

/** Calls back at the earliest of the moments that were asked for. */
export class Alarm {
  private at = Infinity;
  private cancelTimer: (() => void) | undefined;
  private isStopped = false;

  constructor(
    private readonly clock: Clock,
    private readonly ring: () => void,
  ) {}

  /** Rings at this moment, unless it rings earlier. */
  by(at: number): void {
    if (this.isStopped || at >= this.at) return;
    this.cancelTimer?.();
    this.at = at;
    this.cancelTimer = this.clock.background.timer(at, () => {
      this.at = Infinity;
      this.cancelTimer = undefined;
      this.ring();
    });
  }

  stop(): void {
    this.isStopped = true;
    this.cancelTimer?.();
  }
}

/** The first delay and the bound, as the core says them. */
export function delays({ first, longest }: { first: number; longest: number }): [number, number] {
  return [first, longest];
}

/** Growing delays in milliseconds with a bound, each made longer by a random part of itself. */
export function* growing(first: number, longest: number): Generator<number, never> {
  for (let delay = first; ; delay = Math.min(delay * 2, longest)) {
    yield Math.min(delay * (1 + Math.random()), longest);
  }
}

/** The duration less a random part, up to a quarter: calls that began together spread out. */
export function about(duration: number): number {
  return duration * (1 - Math.random() / 4);
}
