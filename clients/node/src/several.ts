// Leases of several names: all, or none.
//
// A deadlock needs a call that holds one name and waits for another, and a second call that does the reverse. So a call
// waits for a name only while it holds none that comes after it, in the order of the names' bytes.
//
// A name that is held during a wait is idle. So a call gives up what it holds when it has to wait; but once only,
// because under load somebody else has those names when the wait is over.

import { inspect } from 'node:util';
import type { Document } from 'mongodb';
import { Wake } from './clock';
import { Fault, type Info, Reply, Rules } from './core';
import type { Engine } from './engine';
import { AttemptError, type LeaseError, invalidOption, toError, asLeaseError } from './errors';
import { Lease } from './lease';
import { type Options, checkName, checkOptions } from './options';
import type { Released } from './outcomes';
import { onAbort, throwIfAborted } from './signals';

/** The options of a call for several leases. Times are in milliseconds. */
export interface AcquireAllOptions {
  /** How long to wait for all together; zero for one attempt, Infinity for no limit. Defaults to the manager's. */
  wait?: number;
  /** How long each lease lasts without a renewal. Defaults to the manager's. */
  ttl?: number;
  /** Ends the call, which gives back all that it has. */
  signal?: AbortSignal;
  /** The label of the holder. Defaults to the manager's. */
  owner?: string;
  /** Stored in each lease document: at most 4 KiB of BSON. */
  metadata?: Document;
}

const KINDS: Options<AcquireAllOptions> = {
  wait: 'millis',
  ttl: 'millis',
  signal: 'signal',
  owner: 'string',
  metadata: 'document',
};

/** Leases that were acquired together, in the order of their names. The set is valid while all of them are. */
export class LeaseSet implements Iterable<Lease> {
  private controller: AbortController | undefined;
  private releasing: Promise<Released> | undefined;

  /** @internal */
  constructor(private readonly leases: Lease[]) {}

  /** The lease of this name, if it is one of the set's. Each has a token of its own. */
  get(name: string): Lease | undefined {
    return this.leases.find((lease) => lease.name === name);
  }

  [Symbol.iterator](): Iterator<Lease> {
    return this.leases[Symbol.iterator]();
  }

  /** Whether all leases are held. Once it is false, it stays false. */
  isValid(): boolean {
    return this.leases.every((lease) => lease.isValid());
  }

  /** How long all leases are valid unless they are renewed, in milliseconds; zero if one of them is not valid. */
  remaining(): number {
    return Math.min(...this.leases.map((lease) => lease.remaining()));
  }

  /** Throws the `LeaseLostError` of the first lease, in the order of names, that is no longer valid. */
  check(): void {
    this.leases.forEach((lease) => lease.check());
  }

  /**
   * Aborted when one of the leases is lost or released: its reason is the `LeaseLostError`. A loss of one does not end
   * the others: release the set.
   */
  get signal(): AbortSignal {
    if (this.controller) return this.controller.signal;
    const controller = new AbortController();
    this.controller = controller;
    for (const { signal } of this.leases) {
      const tell = (): void => controller.abort(signal.reason);
      if (signal.aborted) tell();
      else signal.addEventListener('abort', tell, { once: true });
    }
    return controller.signal;
  }

  /**
   * Releases all leases: `released` if all of them were held. Otherwise `notHeld` if one of them was not held any more,
   * and `unknown` if that is not known of one. Throws the first error; the others are released all the same.
   */
  release(): Promise<Released> {
    this.releasing ??= this.releaseNow();
    return this.releasing;
  }

  private async releaseNow(): Promise<Released> {
    const ends = await Promise.allSettled(this.leases.map((lease) => lease.release()));
    const ended = ends.map((end) => {
      if (end.status === 'rejected') throw end.reason;
      return end.value;
    });
    const found = (['notHeld', 'unknown'] as const).find((released) => ended.includes(released));
    return found ?? 'released';
  }

  /** Releases the leases at the end of a block: `await using set = await leases.acquireAll(names)`. */
  async [Symbol.asyncDispose](): Promise<void> {
    // One that is not confirmed is retried in the background.
    await this.release().catch(() => undefined);
  }

  toJSON(): ReturnType<Lease['toJSON']>[] {
    return this.leases.map((lease) => lease.toJSON());
  }

  [inspect.custom](): string {
    return `LeaseSet ${inspect(this.leases)}`;
  }
}

/** @internal How a call for several names gets each of them. */
export interface Calls {
  /** Makes one attempt: the lease, or a refusal. A failure is thrown as an `AttemptError`. */
  attempt(name: string, signal: AbortSignal): Promise<Lease | Reply>;
  /** Waits until the deadline, for a call that began at `started`. */
  wait(name: string, started: number, deadline: number, signal: AbortSignal): Promise<Lease>;
}

/** @internal Checks the names and the options. Returns the names in the order of all processes, and the options. */
export function checkAll(
  names: unknown,
  options: AcquireAllOptions,
): [string[], AcquireAllOptions] {
  const checked = checkOptions(options, KINDS);
  if (!Array.isArray(names)) throw invalidOption('names', 'must be a list of names');
  return [Rules.sortedNames(names.map(checkName)), checked];
}

/** Why a name was not granted. */
interface Seen {
  /** The place of the name. */
  place: number;
  held?: Info | undefined;
  failed?: AttemptError;
}

/** @internal One call for several names, which are known by their places in the order. */
export class AllCall {
  private readonly held = new Map<number, Lease>();
  /** Names that were found taken, and not waited for since. */
  private readonly taken = new Set<number>();
  /** The first name that was found taken by the newest try. */
  private seen: Seen | undefined;
  /** Whether the names before one that it waited for were given back. */
  private hasGivenBack = false;
  private readonly started: number;
  private readonly deadline: number;

  constructor(
    private readonly engine: Engine,
    private readonly names: string[],
    private readonly wait: number,
    private readonly signal: AbortSignal | undefined,
    private readonly calls: Calls,
  ) {
    this.started = engine.clock.now();
    this.deadline = this.started + wait * 1e3;
  }

  /** Acquires all leases. Holds none of them after an error. */
  async untilAll(): Promise<LeaseSet> {
    try {
      for (;;) {
        await this.tryMissing();
        this.checkCaller();
        const missing = this.firstMissing();
        if (missing === undefined) return new LeaseSet(this.inOrder());
        if (this.wait > 0) await this.untilGranted(missing);
        else if (this.seen) throw this.refusal(this.seen);
        // Without a refusal it was lost between its grant and this moment.
      }
    } catch (error) {
      this.held.forEach((lease) => giveBack(lease));
      throw error;
    }
  }

  private checkCaller(): void {
    throwIfAborted(this.signal);
    this.engine.checkOpen();
  }

  private inOrder(): Lease[] {
    return this.names.map((_, place) => this.held.get(place) as Lease);
  }

  private firstMissing(): number | undefined {
    const place = this.names.findIndex((_, each) => !this.held.has(each));
    return place < 0 ? undefined : place;
  }

  /**
   * Tries at once what is missing, up to the first name that is known to be taken, until the first missing name is
   * known, or the time is over.
   */
  private async tryMissing(): Promise<void> {
    this.forgetLost();
    const asked = new Set<number>();
    for (const place of this.names.keys()) {
      if (this.held.has(place)) continue;
      if (this.taken.has(place)) break;
      asked.add(place);
    }
    if (asked.size === 0) return;
    this.seen = undefined;
    const tries = new Tries(this.engine, this.signal, this.wait > 0 ? this.deadline : Infinity);
    for (const place of asked) tries.start(place, (signal) => this.attempt(place, signal));
    try {
      while (asked.size > 0 && !this.isRefusedBefore(asked)) {
        const answer = await tries.next();
        if (!answer) break;
        asked.delete(answer.place);
        this.answered(answer.place, answer.outcome);
      }
    } finally {
      tries.end();
    }
    // A lease may have been lost while the others were tried.
    this.forgetLost();
  }

  /** Whether a name before these was refused. Whatever they bring, it would be given back. */
  private isRefusedBefore(asked: Set<number>): boolean {
    return this.seen !== undefined && this.seen.place < Math.min(...asked);
  }

  private attempt(place: number, signal: AbortSignal): Promise<Lease | Reply> {
    return this.calls.attempt(this.names[place], signal);
  }

  private answered(place: number, outcome: unknown): void {
    if (outcome instanceof Lease) this.held.set(place, outcome);
    else if (outcome instanceof Reply) this.isTaken({ place, held: this.engine.infoOf(outcome) });
    // A call that waits goes on trying for as long as it may.
    else if (isTransient(outcome)) this.isTaken({ place, failed: outcome });
    else throw asLeaseError(outcome);
  }

  private isTaken(seen: Seen): void {
    this.taken.add(seen.place);
    if (!this.seen || seen.place < this.seen.place) this.seen = seen;
  }

  private forgetLost(): void {
    for (const [place, lease] of this.held) {
      if (!lease.isValid()) this.held.delete(place);
    }
  }

  /** Waits for one name, or until a lease of another one is lost: that comes first then, and the place is lost. */
  private async untilGranted(missing: number): Promise<void> {
    this.taken.delete(missing);
    this.giveBackFor(missing);
    if (this.engine.clock.now() >= this.deadline) throw this.timeout(missing);
    const stop = new AbortController();
    const lost = (): void => stop.abort();
    const forget = [onAbort(this.signal, lost)];
    for (const { signal } of this.held.values()) {
      if (signal.aborted) lost();
      forget.push(onAbort(signal, lost));
    }
    try {
      this.checkCaller();
      const name = this.names[missing];
      this.held.set(missing, await this.calls.wait(name, this.started, this.deadline, stop.signal));
    } catch (error) {
      if (!stop.signal.aborted) throw error;
    } finally {
      forget.forEach((each) => each());
    }
    this.checkCaller();
  }

  /** Gives back what the call does not keep while it waits for this name. */
  private giveBackFor(missing: number): void {
    const isFirst = !this.hasGivenBack && [...this.held.keys()].some((place) => place < missing);
    for (const [place, lease] of this.held) {
      // No call waits while it holds a later name.
      if (place < missing && !isFirst) continue;
      this.held.delete(place);
      giveBack(lease);
    }
    this.hasGivenBack ||= isFirst;
  }

  private refusal({ held, failed }: Seen): LeaseError {
    return failed?.toError() ?? toError(Fault.busy(held as Info));
  }

  /** The error of a call whose time is over. */
  private timeout(missing: number): LeaseError {
    const { engine, names, seen, started } = this;
    const { held, failed } = seen?.place === missing ? seen : ({} as Partial<Seen>);
    const waited = (engine.clock.now() - started) / 1e3;
    const name = names[missing];
    const fault = Fault.waitTimeout(name, waited, false, held?.copy(), failed?.failure.fault());
    return toError(fault, failed?.source);
  }
}

/** Attempts at several names at once. */
class Tries {
  private readonly stopping = new AbortController();
  private readonly answers: { place: number; outcome: unknown }[] = [];
  private readonly wake = new Wake();
  private readonly forget: (() => void)[];
  private isOver = false;

  constructor(
    private readonly engine: Engine,
    private readonly signal: AbortSignal | undefined,
    private readonly deadline: number,
  ) {
    const goes = (): void => this.wake.notify();
    this.forget = [onAbort(signal, goes), engine.onClosing(goes)];
  }

  start(place: number, attempt: (signal: AbortSignal) => Promise<unknown>): void {
    const heard = (outcome: unknown): void => {
      if (!this.isOver) this.answers.push({ place, outcome });
      else if (outcome instanceof Lease) giveBack(outcome);
      this.wake.notify();
    };
    attempt(this.stopping.signal).then(heard, heard);
  }

  /** The next answer; nothing when the caller has gone, or its time is over. */
  async next(): Promise<{ place: number; outcome: unknown } | undefined> {
    const { clock } = this.engine;
    for (;;) {
      if (this.signal?.aborted || this.engine.isClosing) return undefined;
      const answer = this.answers.shift();
      if (answer) return answer;
      if (clock.now() >= this.deadline) return undefined;
      await this.wake.until(clock, this.deadline);
    }
  }

  /** Ends the attempts that have no answer yet, and gives back what nobody has taken. */
  end(): void {
    this.isOver = true;
    this.forget.forEach((each) => each());
    this.stopping.abort();
    for (const { outcome } of this.answers) if (outcome instanceof Lease) giveBack(outcome);
  }
}

function isTransient(outcome: unknown): outcome is AttemptError {
  return outcome instanceof AttemptError && outcome.failure.fault().isTransient();
}

/** Releases a lease that nobody has seen. One that is not confirmed is retried in the background. */
function giveBack(lease: Lease): void {
  lease.release().catch(() => undefined);
}
