// The events of a manager's leases, for those who listen.

import { Rules } from './core';
import type { LostReason } from './errors';

/** An event of a lease, or of the manager's change stream. Tokens are texts, and times are milliseconds. */
export type LeaseEvent =
  /** The lease was granted. */
  | { event: 'granted'; name: string; token: string }
  /** The lease was renewed, and is valid for so long. */
  | { event: 'renewed'; name: string; token: string; remaining: number }
  /** A renewal was not confirmed. It is retried until the validity ends. */
  | { event: 'renewalFailed'; name: string; token: string; remaining: number; reason: string }
  /** The lease was lost. */
  | { event: 'lost'; name: string; token: string; reason: LostReason }
  /** The holder has given the lease up, or the manager was closed and is releasing it. */
  | { event: 'released'; name: string; token: string }
  /** A call waits in the lease's queue, behind so many entries. */
  | { event: 'queued'; name: string; ahead: number }
  /** From now on a change stream wakes waiting calls. */
  | { event: 'watching' }
  /** From now on waiting calls poll, because there is no change stream. The manager keeps trying to open one. */
  | { event: 'polling'; reason: string }
  /** This listener was too slow, and has missed so many events. */
  | { event: 'missed'; missed: number };

/** @internal Gives events to listeners. */
export class Events {
  private readonly listeners = new Set<Listener>();
  private isClosed = false;

  /** Reports an event, which is made only where somebody listens. */
  report(make: () => LeaseEvent): void {
    if (this.listeners.size === 0) return;
    const event = make();
    this.listeners.forEach((listener) => listener.hear(event));
  }

  /** Whether somebody listens. */
  get areHeard(): boolean {
    return this.listeners.size > 0;
  }

  /** All events from now on, until `close`. */
  listen(): AsyncIterableIterator<LeaseEvent> {
    const listener = new Listener(() => this.listeners.delete(listener));
    if (this.isClosed) listener.end();
    else this.listeners.add(listener);
    return listener;
  }

  /** Listeners get what was reported before, and then the end. */
  close(): void {
    this.isClosed = true;
    this.listeners.forEach((listener) => listener.end());
  }
}

type Result = IteratorResult<LeaseEvent, undefined>;

/** One listener. Of the events that it has not asked for, the newest are kept. */
class Listener implements AsyncIterableIterator<LeaseEvent> {
  private readonly backlog = Rules.eventsBacklog();
  /** A ring: the oldest kept event is at `first`. */
  private readonly kept: LeaseEvent[] = [];
  private first = 0;
  private missed = 0;
  private readonly asking: ((result: Result) => void)[] = [];
  private hasEnded = false;

  constructor(private readonly forget: () => void) {}

  hear(event: LeaseEvent): void {
    const ask = this.asking.shift();
    if (ask) return ask({ done: false, value: event });
    if (this.kept.length < this.backlog) {
      this.kept.push(event);
      return;
    }
    this.kept[this.first] = event;
    this.first = (this.first + 1) % this.backlog;
    this.missed += 1;
  }

  /** Nothing more comes. */
  end(): void {
    this.hasEnded = true;
    this.forget();
    this.asking.splice(0).forEach((ask) => ask({ done: true, value: undefined }));
  }

  next(): Promise<Result> {
    const value = this.take();
    if (value) return Promise.resolve({ done: false, value });
    if (this.hasEnded) return Promise.resolve({ done: true, value: undefined });
    return new Promise((resolve) => this.asking.push(resolve));
  }

  private take(): LeaseEvent | undefined {
    const { kept, missed } = this;
    if (missed > 0) {
      this.missed = 0;
      // From here on they are in their order again.
      kept.push(...kept.splice(0, this.first));
      this.first = 0;
      return { event: 'missed', missed };
    }
    return kept.shift();
  }

  return(): Promise<Result> {
    this.kept.length = 0;
    this.missed = 0;
    this.end();
    return Promise.resolve({ done: true, value: undefined });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}
