// `LeaseManager`: the entry point of the package.

import { BSON, type Db } from 'mongodb';
import { Call, asLeaseError } from './call';
import { Command, Fault, type Info, Reply, Request } from './core';
import { type CloseReport, Engine, refusedAsError } from './engine';
import { LeaseLostError, toError } from './errors';
import { type LeaseInfo, toInfo } from './info';
import { Lease } from './lease';
import { type AcquireOptions, type ManagerOptions, callSettingsOf, isWellFormed } from './options';
import { QueuedCall } from './queued';
import { Stop, Stopped } from './retry';
import { type Backend, randomHex } from './runner';
import { ServerBackend } from './server';

/** Which leases a listing shows. */
export interface ListOptions {
  /** Names that begin with this. */
  prefix?: string;
  /** Names that match this as a whole: `*` stands for any characters, `?` for one. */
  glob?: string;
  /** Leases of this owner, as `label@host:pid`. */
  heldBy?: string;
  /** Also leases that have expired, if their documents have not been removed yet. */
  withFree?: boolean;
}

/** Grants leases. One for each collection and process is enough. */
export class LeaseManager {
  private readonly engine: Engine;

  /** Leases in this database. Nothing is sent yet: the first call, or `ready`, checks the server and the indexes. */
  constructor(db: Db, options: ManagerOptions = {}) {
    this.engine = new Engine(new ServerBackend(db), options);
  }

  /** @internal */
  static of(backend: Backend, options: ManagerOptions): LeaseManager {
    const manager = Object.create(LeaseManager.prototype) as { engine: Engine };
    manager.engine = new Engine(backend, options);
    return manager as unknown as LeaseManager;
  }

  /** Checks the server and the indexes, if that has not been done yet. */
  async ready(): Promise<void> {
    await this.engine.ready();
  }

  /** Acquires a lease, and waits for it, by default for up to 30 s. */
  async acquire(name: string, options: AcquireOptions = {}): Promise<Lease> {
    const { engine } = this;
    options.signal?.throwIfAborted();
    const wait = options.wait ?? engine.manager.time('wait');
    if (typeof wait !== 'number' || !(wait >= 0)) {
      throw toError(Fault.invalidOption('wait', 'must be a number of milliseconds'));
    }
    if (wait === 0) {
      const outcome = await this.askOnce(name, options);
      if (outcome instanceof Lease) return outcome;
      throw toError(Fault.busy(engine.infoOf(outcome) as Info));
    }
    const deadline = engine.clock.rough() + wait * 1e3;
    const request = await this.request(name, options, true);
    return new QueuedCall(engine, request, deadline, options.signal).wait();
  }

  /** Tries once to acquire a lease. Returns nothing where another holder has it, or others wait for it. */
  async tryAcquire(
    name: string,
    options: Omit<AcquireOptions, 'wait'> = {},
  ): Promise<Lease | undefined> {
    options.signal?.throwIfAborted();
    const outcome = await this.askOnce(name, options);
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
    const lease = await this.acquire(name, options);
    try {
      const { signal } = lease;
      const lost = new Promise<never>((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason as LeaseLostError));
      });
      lost.catch(() => undefined);
      const working = (async () => work(lease))();
      const result = await Promise.race([working, lost]);
      // The validity may have ended while the event loop was blocked.
      lease.check();
      return result;
    } finally {
      // A release that is not confirmed is retried in the background.
      await lease.release().catch(() => undefined);
    }
  }

  /** The permits of a name, of which at most `limit` are in use at a time, over all processes. */
  semaphore(name: string, limit: number): Semaphore {
    return new Semaphore(this, name, limit);
  }

  /** Reads the state of a lease; nothing if it is not held. */
  async get(name: string): Promise<LeaseInfo | undefined> {
    const command = (): Command => Command.get(name);
    refusedAsError(command).free();
    await this.engine.ready();
    const [found] = await this.read(command);
    return found && found.state !== 'free' ? found : undefined;
  }

  /** The leases in the order of their names, by default the held ones. It is no snapshot. */
  async *list(options: ListOptions = {}): AsyncGenerator<LeaseInfo, void, undefined> {
    const { prefix, glob, heldBy, withFree } = options;
    let after: string | undefined;
    const page = (): Command => Command.page(prefix, glob, heldBy, after);
    refusedAsError(page).free();
    await this.engine.ready();
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
    engine.checkOpen();
    try {
      const found = (await engine.run(command)).leases(engine.manager);
      return (BSON.deserialize(found).list as object[]).map(toInfo);
    } catch (error) {
      throw asLeaseError(error);
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

  /** Checks all options before anything is sent. */
  private async request(name: string, options: AcquireOptions, waits: boolean): Promise<Request> {
    const { engine } = this;
    if (typeof name !== 'string') throw toError(Fault.invalidName('it is no string'));
    // Two names could become the same one.
    if (!isWellFormed(name)) throw toError(Fault.invalidName('it is no well-formed Unicode'));
    const make = (hasOplog: boolean): Request =>
      refusedAsError(() => {
        const settings = callSettingsOf(options);
        return new Request(engine.manager, name, settings, randomHex(16), hasOplog, waits);
      });
    const request = make(true);
    await engine.ready();
    return engine.hasOplog ? request : make(false);
  }

  private async askOnce(name: string, options: AcquireOptions): Promise<Lease | Reply> {
    const { engine } = this;
    const { signal } = options;
    const request = await this.request(name, options, false);
    const call = new Call(engine, request, false);
    const deadline = engine.clock.rough() + request.attemptTimeout() * 2e3;
    const stop = new Stop();
    const goes = (): void => stop.stop();
    signal?.addEventListener('abort', goes);
    const forget = engine.onClosing(goes);
    try {
      if (signal?.aborted || engine.isClosing) throw new Stopped();
      return await call.untilAnswered(deadline, undefined, stop);
    } catch (error) {
      if (!(error instanceof Stopped)) throw error;
      signal?.throwIfAborted();
      throw toError(Fault.shutDown());
    } finally {
      signal?.removeEventListener('abort', goes);
      forget();
      // Does nothing when the grant was accepted.
      call.abandon();
    }
  }
}

/** A semaphore over all processes of a collection. It holds nothing: a permit is a lease like any other. */
export class Semaphore {
  /** @internal */
  constructor(
    private readonly leases: LeaseManager,
    readonly name: string,
    readonly limit: number,
  ) {}

  /** Acquires one permit, or `permits`, and waits for it. */
  acquire(options: Omit<AcquireOptions, 'limit' | 'shared'> = {}): Promise<Lease> {
    return this.leases.acquire(this.name, { ...options, limit: this.limit });
  }

  /** Tries once to acquire a permit. */
  tryAcquire(
    options: Omit<AcquireOptions, 'limit' | 'shared' | 'wait'> = {},
  ): Promise<Lease | undefined> {
    return this.leases.tryAcquire(this.name, { ...options, limit: this.limit });
  }
}
