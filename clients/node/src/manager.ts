// `LeaseManager`: the entry point of the package.

import { inspect } from 'node:util';
import { BSON } from 'mongodb';
import { Call } from './call';
import { type CampaignOptions, Leadership, checkCampaign } from './campaign';
import { Command, Fault, type Info, Reply, Request, Target } from './core';
import type { AnyDb, MongooseConnection } from './driver';
import { Engine, refusedAsError } from './engine';
import { AttemptError, toError, asLeaseError } from './errors';
import type { LeaseEvent } from './events';
import { type LeaseInfo, toInfo } from './info';
import { Job, type JobOptions, leaseOptionsOf, namedAsWritten } from './job';
import { Lease, type LeaseKey } from './lease';
import {
  type AcquireOptions,
  type ListOptions,
  type ManagerOptions,
  type PermitOptions,
  callSettingsOf,
  check,
  checkAcquireOptions,
  checkListOptions,
  checkName,
  checkPermitOptions,
  checkTryOptions,
} from './options';
import type { CloseReport, Released } from './outcomes';
import { QueuedCall } from './queued';
import { GIVE_BACK } from './release';
import { resume, resumingOf } from './resume';
import { Stop, Stopped } from './retry';
import { type Backend, randomHex } from './runner';
import { ServerBackend } from './server';
import { type AcquireAllOptions, AllCall, type Calls, type LeaseSet, checkAll } from './several';
import { onAbort, throwIfAborted } from './signals';

/** Grants leases. One for each collection and process is enough. */
export class LeaseManager {
  private readonly engine: Engine;

  /**
   * Leases in this database, or in that of a connected Mongoose connection. Nothing is sent yet: the first call, or `ready`,
   * checks the server and the indexes.
   */
  constructor(db: AnyDb | MongooseConnection, options: ManagerOptions = {}) {
    this.engine = new Engine(
      refusedAsError(() => new ServerBackend(db)),
      options,
    );
  }

  /** @internal */
  static of(backend: Backend, options: ManagerOptions): LeaseManager {
    const manager = Object.create(LeaseManager.prototype) as { engine: Engine };
    manager.engine = new Engine(backend, options);
    return manager as unknown as LeaseManager;
  }

  /** Checks the server and the indexes, if that has not been done yet. */
  async ready(): Promise<void> {
    const { engine } = this;
    try {
      await engine.ready(engine.policy(engine.time('build_timeout')).deadline);
    } catch (error) {
      throw asLeaseError(error);
    }
  }

  /** Acquires a lease, and waits for it, by default for up to 30 s. */
  async acquire(name: string, options: AcquireOptions = {}): Promise<Lease> {
    const { engine } = this;
    const { signal, wait = engine.time('wait'), ...rest } = checkAcquireOptions(options);
    const started = engine.clock.rough();
    const beginning = this.beginning(name, rest, wait > 0);
    const make = beginning instanceof Promise ? await beginning : beginning;
    throwIfAborted(signal);
    if (wait === 0) {
      const outcome = await this.askOnce(make, signal);
      if (outcome instanceof Lease) return outcome;
      throw toError(Fault.busy(engine.infoOf(outcome) as Info));
    }
    return this.untilGranted(name, make, started, started + wait * 1e3, signal);
  }

  private async untilGranted(
    name: string,
    make: MakeRequest,
    started: number,
    deadline: number,
    signal: AbortSignal | undefined,
  ): Promise<Lease> {
    const { engine } = this;
    try {
      if (!engine.isReady) await engine.ready(deadline, signal);
    } catch (error) {
      if (!(error instanceof AttemptError) || engine.clock.now() < deadline)
        throw asLeaseError(error);
      const waited = (engine.clock.now() - started) / 1e3;
      const why = error.failure.fault();
      throw toError(Fault.waitTimeout(name, waited, false, undefined, why), error.source);
    }
    return new QueuedCall(engine, make(engine.hasOplog), deadline, signal, started).wait();
  }

  /**
   * Acquires the leases of several names, all or none, and waits for them, by default for up to 30 s in all. Calls for
   * overlapping names never wait for each other in a circle, provided that their callers hold no other lease.
   */
  async acquireAll(names: string[], options: AcquireAllOptions = {}): Promise<LeaseSet> {
    const { engine } = this;
    const [sorted, checked] = refusedAsError(() => checkAll(names, options));
    const { signal, wait = engine.time('wait'), ...each } = checked;
    // The options are refused before anything is sent.
    this.requests(sorted[0], each, wait > 0);
    throwIfAborted(signal);
    const calls: Calls = {
      attempt: (name, stop) => this.attempt(this.requests(name, each, false), stop),
      wait: (name, started, deadline, stop) =>
        this.untilGranted(name, this.requests(name, each, true), started, deadline, stop),
    };
    return new AllCall(engine, sorted, wait, signal, calls).untilAll();
  }

  /** Tries once to acquire a lease. Returns nothing where another holder has it, or others wait for it. */
  async tryAcquire(
    name: string,
    options: Omit<AcquireOptions, 'wait'> = {},
  ): Promise<Lease | undefined> {
    const { signal, ...rest } = checkTryOptions(options);
    const beginning = this.beginning(name, rest, false);
    const make = beginning instanceof Promise ? await beginning : beginning;
    throwIfAborted(signal);
    const outcome = await this.askOnce(make, signal);
    return outcome instanceof Lease ? outcome : undefined;
  }

  /**
   * Acquires a lease, runs the work with it, and releases it. If the lease is lost first, the result is a
   * `LeaseLostError` at once; the work is told by `lease.signal`, and should end soon.
   */
  async withLease<T>(
    name: string,
    work: (lease: Lease) => T | Promise<T>,
    options: AcquireOptions = {},
  ): Promise<T> {
    check('work', work, 'function');
    const lease = await this.acquire(name, options);
    try {
      const { signal } = lease;
      const lost = new Promise<void>((resolve) => {
        signal.addEventListener('abort', () => {
          // Work may release its lease when it needs it no longer.
          if (!lease.hasEndedInTime) resolve();
        });
      });
      const working = (async () => work(lease))();
      const result = await Promise.race([working, lost]);
      // Thrown here, its stack has the caller's line. A blocked event loop may have told no loss yet.
      if (!lease.hasEndedInTime) lease.check();
      return result as T;
    } finally {
      // A release that is not confirmed is retried in the background. That of a lost lease delays the news of no loss.
      const isHeld = lease.isValid();
      const releasing = lease.release().catch(() => undefined);
      // A program that ends by the error of a close ends behind the releases.
      if (this.engine.isClosing) await this.engine.close();
      else if (isHeld) await releasing;
    }
  }

  /**
   * Releases the lease with this name and this value, whichever process holds it: `released`, or `notHeld`. A holder that
   * has not asked for that learns at its next renewal that the lease is lost.
   */
  async release(name: string, value: string): Promise<Released> {
    const { engine } = this;
    const target = refusedAsError(() =>
      Target.byValue(checkName(name), check('value', value, 'string')),
    );
    const policy = engine.releasePolicy(false);
    try {
      await engine.ready(policy.deadline);
      const { runner, releaser } = engine;
      const ending = { name, target, steps: GIVE_BACK.alone };
      return await runner.track(releaser.release(ending, policy, false));
    } catch (error) {
      throw asLeaseError(error);
    }
  }

  /**
   * Takes up a detached lease, if it is still held: renews it, and holds it from now on. A key works once. Throws a
   * `LeaseLostError` if the lease has expired, has another holder, or was resumed before.
   */
  async resume(key: LeaseKey): Promise<Lease> {
    const { engine } = this;
    const resuming = refusedAsError(() => resumingOf(key, engine.manager));
    return resume(engine, resuming);
  }

  /** The events of this manager's leases from now on, until `close`. A slow listener is told how many it has missed. */
  events(): AsyncIterableIterator<LeaseEvent> {
    return this.engine.events.listen();
  }

  /**
   * Takes part in an election, and waits without a limit until this process leads. Then `leadership.run(work)` tells
   * the work to stop while it still leads.
   */
  async campaign(name: string, options: CampaignOptions = {}): Promise<Leadership> {
    const { notice: _, ...each } = refusedAsError(() => checkCampaign(options));
    const lease = await this.acquire(name, { ...each, wait: Infinity });
    return new Leadership(this.engine, lease, options);
  }

  /** The permits of a name, of which at most `limit` are in use at a time, over all processes. */
  semaphore(name: string, limit: number): Semaphore {
    this.requests(name, { limit: check('limit', limit, 'count') }, false)(true).free();
    return new Semaphore(this, name, limit);
  }

  /** A job that every process starts, and that one process runs: by its own ticks, or by your scheduler's. */
  job(name: string, options: JobOptions = {}): Job {
    const leaseOptions = refusedAsError(() => leaseOptionsOf(options));
    namedAsWritten(() => this.requests(name, leaseOptions, false));
    return new Job(this, this.engine, name, options.every, leaseOptions);
  }

  /** Reads the state of a lease; nothing if it is not held. */
  async get(name: string): Promise<LeaseInfo | undefined> {
    const command = (): Command => Command.get(checkName(name));
    refusedAsError(command).free();
    const [found] = await this.read(command);
    return found && found.state !== 'free' ? found : undefined;
  }

  /** The leases in the order of their names, by default the held ones. It is no snapshot. */
  async *list(options: ListOptions = {}): AsyncGenerator<LeaseInfo, void, undefined> {
    const { prefix, glob, heldBy, withFree } = refusedAsError(() => checkListOptions(options));
    let after: string | undefined;
    const page = (): Command => Command.page(prefix, glob, heldBy, after);
    refusedAsError(page).free();
    for (;;) {
      const leases = await this.read(page);
      for (const lease of leases) {
        const isOf = (owner: string): boolean =>
          !lease.shared || lease.holders.some((holder) => holder.owner === owner);
        const isListed = withFree === true || lease.state !== 'free';
        if (isListed && (heldBy === undefined || isOf(heldBy))) yield lease;
      }
      after = leases.at(-1)?.name;
      // A page may be short because its documents are large: only an empty page is the last.
      if (after === undefined) return;
    }
  }

  private async read(command: () => Command): Promise<LeaseInfo[]> {
    const { engine } = this;
    try {
      await engine.ready(engine.policy().deadline);
      const found = (await engine.look(command)).leases(engine.manager);
      const infos = (BSON.deserialize(found).list as object[]).map(toInfo);
      for (const { name, heldHere, waiting } of infos) {
        if (heldHere && waiting > 0) engine.guesses.noteAwaited(name);
      }
      return infos;
    } catch (error) {
      throw error instanceof Stopped ? toError(Fault.shutDown()) : asLeaseError(error);
    }
  }

  /**
   * Closes the manager: waiting calls end with a `ShutDownError`, and all leases are released. The client stays open.
   */
  close(): Promise<CloseReport> {
    return this.engine.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  toJSON(): { collection: string; held: string[]; closed: boolean } {
    const { collection, renewer, isClosing } = this.engine;
    return { collection, held: renewer.leases().map(({ name }) => name), closed: isClosing };
  }

  [inspect.custom](): string {
    return `LeaseManager ${inspect(this.toJSON())}`;
  }

  /** Checks all options before anything is sent. Returns what makes the request, on a server with or without an oplog. */
  private requests(name: string, options: AcquireOptions, waits: boolean): MakeRequest {
    const { engine } = this;
    const make = (hasOplog: boolean): Request =>
      refusedAsError(() => {
        const settings = callSettingsOf(options);
        const text = checkName(name);
        return new Request(engine.manager, text, settings, randomHex(), hasOplog, waits);
      });
    const first = make(true);
    return (hasOplog) => (hasOplog ? first : make(false));
  }

  /** The same, once it is this call's turn. */
  private beginning(
    name: string,
    options: AcquireOptions,
    waits: boolean,
  ): MakeRequest | Promise<MakeRequest> {
    const turn = this.engine.beginnings.next();
    if (!turn) return this.requests(name, options, waits);
    // The caller may change its document meanwhile.
    const make = options.metadata === undefined ? undefined : this.requests(name, options, waits);
    return turn.then(() => make ?? this.requests(name, options, waits));
  }

  private async askOnce(make: MakeRequest, signal?: AbortSignal): Promise<Lease | Reply> {
    try {
      return await this.attempt(make, signal);
    } catch (error) {
      throw asLeaseError(error);
    }
  }

  private async attempt(make: MakeRequest, signal?: AbortSignal): Promise<Lease | Reply> {
    const { engine } = this;
    const { deadline } = engine.policy(make(true).attemptTimeout() * 2);
    const stop = new Stop();
    const goes = (): void => stop.stop();
    const forget = [onAbort(signal, goes), engine.onClosing(goes)];
    let call: Call | undefined;
    try {
      await engine.ready(deadline, signal);
      call = new Call(engine, make(engine.hasOplog), false);
      return await call.untilAnswered(deadline, undefined, stop);
    } catch (error) {
      if (!(error instanceof Stopped)) throw error;
      throwIfAborted(signal);
      throw toError(Fault.shutDown());
    } finally {
      forget.forEach((each) => each());
      // Does nothing when the grant was accepted.
      call?.abandon();
    }
  }
}

type MakeRequest = (hasOplog: boolean) => Request;

/** A semaphore over all processes of a collection. It holds nothing: a permit is a lease like any other. */
export class Semaphore {
  /** @internal */
  constructor(
    private readonly leases: LeaseManager,
    readonly name: string,
    readonly limit: number,
  ) {}

  toJSON(): { name: string; limit: number } {
    return { name: this.name, limit: this.limit };
  }

  [inspect.custom](): string {
    return `Semaphore ${inspect(this.toJSON())}`;
  }

  /** Acquires one permit, or `permits`, and waits for it. */
  async acquire(options: PermitOptions = {}): Promise<Lease> {
    return this.leases.acquire(this.name, this.with(options));
  }

  /** Tries once to acquire a permit. */
  async tryAcquire(options: Omit<PermitOptions, 'wait'> = {}): Promise<Lease | undefined> {
    return this.leases.tryAcquire(this.name, this.with(options));
  }

  /** Acquires a permit, runs the work with it, and releases it, as `LeaseManager.withLease` does. */
  async withLease<T>(
    work: (lease: Lease) => T | Promise<T>,
    options: PermitOptions = {},
  ): Promise<T> {
    return this.leases.withLease(this.name, work, this.with(options));
  }

  private with(options: PermitOptions): AcquireOptions {
    return { ...checkPermitOptions(options), limit: this.limit };
  }
}
