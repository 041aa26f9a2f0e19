// `Lease`: the holder's handle to a granted lease.

import { inspect } from 'node:util';
import type { ClientSession } from 'mongodb';
import type { Call } from './call';
import { Fault, type Holding, type Target } from './core';
import type { AnySession } from './driver';
import type { Engine } from './engine';
import { type LostReason, invalidOption, toError, withCaller, asLeaseError } from './errors';
import type { LeaseEvent } from './events';
import { check } from './options';
import type { Released } from './outcomes';
import { GIVE_BACK, type Likely, type ReleaseStep } from './release';
import { type AttemptTime, oneAttempt, untilAnswered } from './retry';
import type { Attempt } from './runner';
import { Transactions, type Work } from './transaction';

/**
 * The key of a detached lease: another process takes the lease up with it, once. Anybody who has it can release the
 * lease. It is JSON as it is, also for a process of the Rust library.
 */
export interface LeaseKey {
  name: string;
  value: string;
  /** Which grant of the lease. */
  grant: string;
  /** The fencing token, as a text. */
  token: string;
}

const NOT_IN_TRANSACTION =
  'has no transaction in progress, and outside of one a guard does nothing: call it within `withTransaction`, and give it ' +
  'the session of that';

/**
 * A lease that was granted to this process.
 *
 * While `isValid()` is true, nobody else holds the lease (of a shared one: no more than its limit allows), provided
 * that the clocks of the replica set's members differ by at most the manager's `maxClockSkew`. Where that is not enough, do
 * the work in a transaction with `guard`, or let the resource check the `token`: these need no clock.
 */
export class Lease {
  private controller: AbortController | undefined;
  private transactions: Transactions | undefined;
  private releasing: Promise<Released> | undefined;
  /** Once it is released: whether it was valid then. */
  private isGivenBack: boolean | undefined;
  private isEndTold = false;
  private isReleaseTold = false;

  /** @internal */
  constructor(
    private readonly engine: Engine,
    /** @internal */
    readonly holding: Holding,
    private readonly grantedToken: bigint,
    private readonly likely: Likely,
    private readonly call: Call | undefined,
  ) {}

  /** The lease's name. */
  get name(): string {
    return this.holding.name();
  }

  /** The holder's value. Anybody with the name and the value can release the lease. */
  get value(): string {
    return this.holding.value();
  }

  /** How many permits the lease has. */
  get permits(): number {
    return this.holding.permits();
  }

  /** Whether others may hold the name at the same time. */
  get isShared(): boolean {
    return this.holding.isShared();
  }

  /**
   * Whether a lease with this name and the same own `value` was held already. Then both are one holder: each works with
   * the lease, and the release of one ends that of the other, which learns it at its next renewal.
   */
  get isGrantedAgain(): boolean {
    return this.holding.isAgain();
  }

  /**
   * The fencing token: greater than that of every earlier grant of this name beside which it could not be held. Throws
   * a `LeaseLostError` if the lease is no longer valid.
   */
  get token(): bigint {
    this.check();
    return this.grantedToken;
  }

  /**
   * Whether the lease is held. It reads the clock at each call, because a blocked event loop fires no timer. Once it is
   * false, it stays false.
   */
  isValid(): boolean {
    return this.holding.isValid(this.engine.clock.now());
  }

  /** How long the lease is valid unless it is renewed, in milliseconds; zero if it is not valid. */
  remaining(): number {
    return this.holding.remaining(this.engine.clock.now());
  }

  /** Throws a `LeaseLostError` with the reason, if the lease is no longer valid. */
  check(): void {
    // The validity may have ended before the timer fired: then this call declares the loss.
    if (!this.isValid()) this.tick();
    const lost = this.holding.lost();
    if (lost) throw toError(lost);
  }

  /** Aborted when the lease is lost or released. Its reason is a `LeaseLostError`. */
  get signal(): AbortSignal {
    this.controller ??= new AbortController();
    if (!this.isValid()) this.tick();
    this.tellEnd();
    return this.controller.signal;
  }

  /** Renews the lease now. Works also if automatic renewal is off. */
  async renew(): Promise<void> {
    this.check();
    const { engine, holding } = this;
    try {
      await engine.renewer.renewNow(this);
    } catch (error) {
      throw asLeaseError(error);
    }
    if (!holding.isValid(engine.clock.now())) this.check();
  }

  /**
   * Runs the callback in a transaction that commits only if the lease has been held without a break since it was granted,
   * whatever any clock shows. Returns what the callback returns.
   *
   * The session is one of the client of the manager's database: give it to each operation. (Where Mongoose has types of its
   * own for it, write them: `(session: mongoose.ClientSession) => …`.) The transaction has read concern
   * `local`, write concern `majority` with the journal, and read preference `primary`, whatever the client has. Nothing
   * but a return of the callback commits it.
   *
   * **The callback may be called several times**: after a conflict, in a new transaction, while the lease is held, for up
   * to two minutes. An error of the callback without the driver's label for that aborts the transaction, and is thrown as
   * it is. A `LeaseLostError` is thrown at once, while the callback may still run: its operations fail from then on. Once
   * the commit was sent, the lease counts no more: only the commit is repeated, and `CommitUnknownError` says that nobody
   * has told whether it was carried out.
   *
   * While it is open, renewals of this lease are held back until a third of its validity is left. Be done before that.
   */
  async transaction<T, Session = ClientSession>(
    work: (session: Session) => T | Promise<T>,
  ): Promise<T> {
    this.checkTransactions('transaction');
    check('work', work, 'function');
    this.transactions ??= new Transactions(this, this.engine);
    try {
      return await this.transactions.run(work as Work<T>);
    } catch (error) {
      throw withCaller(error);
    }
  }

  /**
   * Makes the caller's transaction commit only if the lease has been held without a break since it was granted.
   *
   * Prefer `transaction`. This is for callbacks of Mongoose's `connection.transaction` and the driver's `withTransaction`:
   * call it first there, and end the transaction within a third of the ttl, because renewals of this lease wait for it. It
   * is refused for a session without a transaction in progress. An error of the driver is thrown as it is, with its labels,
   * so that the transaction is repeated after a conflict.
   */
  async guard(session: AnySession): Promise<void> {
    const { engine, holding } = this;
    this.checkTransactions('guard');
    if (!isInTransaction(session)) throw invalidOption('session', NOT_IN_TRANSACTION);
    this.check();
    const { clock } = engine;
    const sent = clock.sent();
    // Before sending: from now on a bulk renewal might wait for this transaction.
    holding.onGuarded(clock.now());
    engine.guesses.noteBlocked(this.name, true);
    const command = holding.guard(engine.collection, sent);
    const reply = await engine.runner.backend.sendIn(session as ClientSession, command);
    let isGuarded: boolean;
    try {
      isGuarded = holding.guarded(reply, sent);
    } catch (error) {
      throw asLeaseError(engine.attemptError(error));
    }
    if (!isGuarded) {
      await this.judge();
      const reason = 'the transaction began before the lease was granted';
      throw invalidOption('session', reason);
    }
    this.check();
  }

  /** Refuses, before anything is sent, where there are no transactions under a lease. */
  private checkTransactions(method: string): void {
    const { engine, holding } = this;
    const refuse = (missing: string): never => {
      throw toError(Fault.unsupported(missing));
    };
    const why = 'transactions of two holders would conflict';
    if (holding.isShared()) refuse(`\`${method}\` works for exclusive leases only: ${why}`);
    engine.runner.backend.checkTransactions();
    if (!engine.hasOplog) refuse('a transaction under a lease needs a replica set');
  }

  /** @internal Finds out why the server did not match this grant. Throws the reason, if it is lost or damaged. */
  async judge(): Promise<void> {
    const { engine, holding } = this;
    const policy = oneAttempt(engine.clock, holding.attemptTimeout() * 2);
    const look = (time: AttemptTime): Attempt => engine.runner.start(holding.look(), time);
    let fault: Fault | undefined;
    try {
      const { reply } = await untilAnswered(engine.clock, policy, look);
      fault = holding.judge(reply, engine.clock.now());
    } catch (error) {
      throw asLeaseError(error);
    }
    this.tellEnd();
    if (fault) throw toError(fault);
  }

  /**
   * Releases the lease, if its document still names this holder, and hands it off to the first live waiter. If the
   * database does not confirm that within `releaseTimeout`, or within a second if the lease was lost, it is retried in
   * the background until the lease expires.
   */
  async release(): Promise<Released> {
    this.isGivenBack ??= this.isValid();
    this.releasing ??= this.engine.runner.track(this.releaseNow());
    try {
      return await this.releasing;
    } catch (error) {
      // Each caller has an error of its own, whose stack has the caller's line.
      throw asLeaseError(error);
    }
  }

  /**
   * Detaches the lease from this handle without releasing it: renews it once more, so that it stays held for its whole
   * ttl from now on, or until `leases.resume(key)` takes it up, in this process or another one. After an error there is
   * no key, and the lease is what it was.
   */
  async detach(): Promise<LeaseKey> {
    const { engine, holding } = this;
    if (holding.isShared()) {
      const why = 'a key names one holder of an exclusive lease';
      throw toError(Fault.unsupported(`\`detach\` works for exclusive leases only: ${why}`));
    }
    await this.renew();
    // A release, or a close, came first.
    if (this.releasing) this.check();
    engine.renewer.remove(this);
    this.isGivenBack = true;
    // A late attempt of its call that finds this grant leaves it alone.
    this.releasing = Promise.resolve('notHeld');
    this.end();
    const { name, value, grantedToken } = this;
    return { name, value, grant: holding.grantId(), token: String(grantedToken) };
  }

  /** @internal Whether its holder has released it before its end. */
  get hasEndedInTime(): boolean {
    return this.isGivenBack === true;
  }

  private async releaseNow(): Promise<Released> {
    const { engine, holding } = this;
    const { clock, releaser } = engine;
    engine.renewer.remove(this);
    const now = clock.now();
    const wasValid = this.isGivenBack === true;
    // A close has ended it already.
    const isLost = !wasValid && holding.endedBy() !== 'released';
    const isOwnEnd = this.end();
    const turn = engine.releases.next();
    if (turn) await turn;
    const policy = engine.releasePolicy(isLost);
    const target = holding.toRelease(now);
    const { name } = this;
    const ending = { name, target, steps: this.stepsTo(name, target) };
    try {
      const released = await releaser.release(ending, policy, wasValid);
      if (released === 'released') this.tellReleased();
      return released;
    } catch (error) {
      if (isOwnEnd) this.tellReleased();
      const until = holding.renewedUntil() + engine.maxClockSkew * 1e3;
      if (!(error instanceof Fault)) releaser.inBackground(ending, until);
      throw error;
    } finally {
      this.call?.settle();
    }
  }

  private stepsTo(name: string, target: Target): ReleaseStep[] {
    const isAwaited = this.engine.guesses.takeAwaited(name);
    if (target.keepsName()) return ['later'];
    return GIVE_BACK[isAwaited && this.likely === 'alone' ? 'besideOthers' : this.likely];
  }

  /** Releases the lease at the end of a block: `await using lease = await leases.acquire(name)`. */
  async [Symbol.asyncDispose](): Promise<void> {
    // One that is not confirmed is retried in the background.
    await this.release().catch(() => undefined);
  }

  /** What a person wants to see of it. The value, by which it can be released, is not in it. The token is a text. */
  toJSON(): LeaseJSON {
    const { name, grantedToken, holding, isShared, permits } = this;
    const [valid, remaining, lost] = [this.isValid(), this.remaining(), holding.endedBy()];
    const shown = { name, token: String(grantedToken), valid, remaining };
    return { ...shown, ...(isShared && { permits }), ...(lost !== undefined && { lost }) };
  }

  [inspect.custom](): string {
    const { token, ...shown } = this.toJSON();
    return `Lease ${inspect({ ...shown, token: BigInt(token) }, { breakLength: Infinity })}`;
  }

  /** @internal In which of the periods of so many milliseconds it was granted, by the server's clock. */
  grantedIn(period: number): number | undefined {
    const at = this.holding.acquiredAt();
    return at === undefined ? undefined : Math.floor(at / period);
  }

  /** @internal Its name stays taken until this date of the server's clock at least, also after an earlier release. */
  holdUntil(date: number): void {
    this.holding.holdUntil(date, this.engine.clock.now());
  }

  /** @internal Ends the lease at its holder's wish: from here on nobody believes in it. False if it had ended. */
  end(): boolean {
    const isFirst = this.holding.end();
    // It is no loss.
    this.isEndTold = true;
    this.tellEnd();
    return isFirst;
  }

  /** @internal Tells listeners that its holder has given it up. */
  tellReleased(): void {
    if (this.isReleaseTold) return;
    this.isReleaseTold = true;
    this.report((name, token) => ({ event: 'released', name, token }));
  }

  /** @internal Tells listeners of it. */
  report(make: (name: string, token: string) => LeaseEvent): void {
    this.engine.events.report(() => make(this.name, String(this.grantedToken)));
  }

  /** @internal Lets the rules look at the clock. */
  tick(): ReturnType<Holding['onTimer']> {
    const { clock } = this.engine;
    const step = this.holding.onTimer(clock.now(), clock.sent());
    this.tellEnd();
    return step;
  }

  /** @internal Aborts the signal if the lease has ended. Also called when a renewal was answered. */
  tellEnd(): void {
    const { controller } = this;
    this.transactions?.notify();
    if (!this.isEndTold && this.engine.events.areHeard) this.tellLoss();
    if (!controller || controller.signal.aborted) return;
    const lost = this.holding.lost();
    if (lost) controller.abort(toError(lost));
  }

  private tellLoss(): void {
    const reason = this.holding.endedBy() as LostReason | undefined;
    if (reason === undefined) return;
    this.isEndTold = true;
    this.report((name, token) => ({ event: 'lost', name, token, reason }));
  }
}

/** What `JSON.stringify` has of a lease. */
export interface LeaseJSON {
  name: string;
  token: string;
  valid: boolean;
  /** In milliseconds. */
  remaining: number;
  /** Of a lease that others may hold too. */
  permits?: number;
  /** Why it has ended. */
  lost?: string;
}

function isInTransaction(session: unknown): boolean {
  const { inTransaction } = (session ?? {}) as Partial<ClientSession>;
  return typeof inTransaction === 'function' && inTransaction.call(session);
}
