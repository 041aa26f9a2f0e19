// A store in memory, for users' tests: the same commands and decisions, without a server, and with time in the test's
// hands.

import * as timers from 'node:timers';
import { inspect } from 'node:util';
import type { ClientSession } from 'mongodb';
import { type Clock, real } from './clock';
import { type Command, Constants, Event, Fault, type Manager, type Reply, Store } from './core';
import { refusedAsError } from './engine';
import { AttemptError, invalidOption, toError } from './errors';
import { LeaseManager } from './manager';
import { type ManagerOptions, check, checkName } from './options';
import { type Backend, type News, type NewsStream, attemptError } from './runner';

// How long a stream waits for an event before it says that there is none.
const AWAIT_MICROS = Constants.streamAwait() * 1e3;

// A hundred thousand calls have begun by then.
const SETTLE_TURNS_MAX = 2000;

const NO_OPTIONS = 'a store has none: give them to `manager`';

const setImmediate = real(timers, 'setImmediate');

class MemoryClock implements Clock {
  readonly lag = 0;
  readonly background = this;
  private micros = 1_000_000;
  private turnsAskedFor = 0;
  private readonly timers = new Map<object, { at: number; callback: () => void }>();

  now(): number {
    return this.micros;
  }

  rough(): number {
    return this.micros;
  }

  sent(): number {
    return this.micros;
  }

  timer(at: number, callback: () => void): () => void {
    const key = {};
    if (at !== Infinity) this.timers.set(key, { at, callback });
    if (at <= this.micros) setImmediate(() => this.fire(key));
    return () => void this.timers.delete(key);
  }

  soon(callback: () => void): void {
    this.turnsAskedFor += 1;
    setImmediate(callback);
  }

  /** Waits until whatever can go on without time has gone on, unless that goes on for ever. */
  private async settle(): Promise<void> {
    let [before, quiet] = [this.turnsAskedFor, 0];
    for (let turn = 0; quiet < 8 && turn < SETTLE_TURNS_MAX; turn += 1) {
      await new Promise((resolve) => setImmediate(resolve));
      quiet = this.turnsAskedFor > before ? 0 : quiet + 1;
      before = this.turnsAskedFor;
    }
  }

  private fire(key: object): void {
    const timer = this.timers.get(key);
    this.timers.delete(key);
    timer?.callback();
  }

  async advance(micros: number): Promise<void> {
    const until = this.micros + micros;
    for (;;) {
      await this.settle();
      let at = Infinity;
      for (const timer of this.timers.values()) at = Math.min(at, timer.at);
      if (at > until) break;
      this.micros = Math.max(this.micros, at);
      // All of this moment, in the order in which they were set, but for those that another one of them cancels.
      const due = [...this.timers].filter(([, timer]) => timer.at <= this.micros);
      due.forEach(([key]) => this.fire(key));
    }
    this.micros = until;
    await this.settle();
  }
}

/** A store in memory. Its clock stands still until `advance` moves it. */
export class MemoryStore {
  private readonly memoryClock = new MemoryClock();
  private readonly startedMs = Date.UTC(2026, 0, 1);
  private readonly store = new Store(this.startedMs);
  private readonly listeners = new Set<() => void>();
  private lost = 0;
  /** What the commands wait for that are sent while it hangs. */
  private hanging: { over: Promise<void>; end: () => void } | undefined;

  /** A manager of leases in this store. Several of them stand for several processes. */
  manager(options: ManagerOptions = {}): LeaseManager {
    return LeaseManager.of(new MemoryBackend(this), options);
  }

  /** The store's clock. */
  now(): Date {
    return new Date(this.nowMs());
  }

  /** Moves the clock by so many milliseconds: timers go off on the way, and what they start is carried out. */
  async advance(milliseconds: number): Promise<void> {
    check('milliseconds', milliseconds, 'millis');
    if (milliseconds === Infinity) throw invalidOption('milliseconds', 'must be finite');
    await this.memoryClock.advance(milliseconds * 1e3);
  }

  /** The next command is carried out, and its reply is lost. */
  loseNextReply(): void {
    this.lost += 1;
  }

  /** From now on no command is carried out, and none is answered, until `goOn`. */
  hang(): void {
    if (this.hanging) return;
    let end = (): void => undefined;
    const over = new Promise<void>((resolve) => (end = resolve));
    this.hanging = { over, end };
  }

  /** Carries out what was sent since `hang`, and goes on. */
  goOn(): void {
    this.hanging?.end();
    this.hanging = undefined;
  }

  /**
   * Ends the time of a lease on the store alone, as if the server's clock had gone wrong: the next acquire is granted at
   * once, while the holder believes in its lease until its next renewal. If nobody has acquired it by then, that renewal
   * prolongs it. Returns whether the lease was held.
   */
  expire(name: string): boolean {
    const checked = refusedAsError(() => checkName(name));
    return this.change(() => this.store.expire(checked, this.nowMs()));
  }

  /**
   * Releases a lease in place of its holder, as an operator does. The holder learns it at its next renewal. Returns
   * whether the lease was held.
   */
  release(name: string): boolean {
    const checked = refusedAsError(() => checkName(name));
    return this.change(() => this.store.release(checked, this.nowMs()));
  }

  /** Tells the streams what a change means to them. */
  private change<T>(change: () => T): T {
    const before = this.store.nextEvent();
    const result = change();
    if (this.store.nextEvent() > before) this.listeners.forEach((listener) => listener());
    return result;
  }

  toJSON(): { now: Date; hangs: boolean } {
    return { now: this.now(), hangs: this.hanging !== undefined };
  }

  [inspect.custom](): string {
    return `MemoryStore ${inspect(this.toJSON())}`;
  }

  /** @internal Waits until it does not hang. */
  async untilAwake(): Promise<void> {
    await this.hanging?.over;
  }

  /** @internal */
  get clock(): Clock {
    return this.memoryClock;
  }

  /** @internal */
  nowMs(): number {
    return this.startedMs + Math.floor(this.memoryClock.now() / 1e3);
  }

  /** @internal */
  carryOut(command: Command, collection: string, sent: number): Reply {
    const reply = this.change(() => command.carryOut(this.store, collection, sent, this.nowMs()));
    if (this.lost > 0) {
      this.lost -= 1;
      throw attemptError(new Error('the reply is lost, as planned'));
    }
    return reply;
  }

  /** @internal */
  nextEvent(): number {
    return this.store.nextEvent();
  }

  /** @internal */
  event(number: number, collection: string): Event | undefined {
    return this.store.event(number, collection);
  }

  /** @internal */
  listen(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  }
}

/** A store in memory, for tests of programs that hold leases. */
export function inMemory(): MemoryStore {
  // Options that are ignored would mislead a test.
  if (arguments.length > 0) throw invalidOption('options', NO_OPTIONS);
  return new MemoryStore();
}

class MemoryBackend implements Backend {
  readonly name = 'memory';
  readonly connections = Infinity;

  constructor(private readonly store: MemoryStore) {}

  get clock(): Clock {
    return this.store.clock;
  }

  whySilent(): unknown {
    return undefined;
  }

  async send(command: Command, collection: string, sent: number): Promise<Reply> {
    await this.store.untilAwake();
    return this.store.carryOut(command, collection, sent);
  }

  checkTransactions(): never {
    throw toError(Fault.unsupported('a store in memory has no transactions'));
  }

  startSession(): ClientSession {
    return this.checkTransactions();
  }

  async runIn(_session: ClientSession, work: () => Promise<void>): Promise<void> {
    await work();
  }

  async kill(_command: Uint8Array): Promise<void> {
    await Promise.resolve();
  }

  async sendIn(_session: ClientSession, _command: Uint8Array): Promise<Uint8Array> {
    await Promise.resolve();
    return this.checkTransactions();
  }

  async watch(_manager: Manager, collection: string): Promise<NewsStream> {
    await Promise.resolve();
    return new MemoryStream(this.store, collection);
  }
}

class MemoryStream implements NewsStream {
  // A call may have joined before the stream was opened: its events are found again, and told to nobody twice.
  private number = 0;
  private isClosed = false;
  private wake: (() => void) | undefined;

  constructor(
    private readonly store: MemoryStore,
    private readonly collection: string,
  ) {}

  async next(): Promise<News[]> {
    const event = this.store.event(this.number, this.collection);
    if (event) {
      this.number += 1;
      return [{ promotions: event.promotions(), recheck: event.recheck() }];
    }
    if (this.isClosed) throw new AttemptError(attemptError(new Error('closed')).failure);
    const { clock } = this.store;
    await new Promise<void>((resolve) => {
      const cancel = clock.timer(clock.now() + AWAIT_MICROS, resolve);
      const forget = this.store.listen(() => this.wake?.());
      this.wake = () => {
        cancel();
        forget();
        resolve();
      };
    });
    return this.store.event(this.number, this.collection) ? this.next() : [];
  }

  async close(): Promise<void> {
    this.isClosed = true;
    this.wake?.();
    await Promise.resolve();
  }
}
