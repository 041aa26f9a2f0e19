// Transactions under a lease: none commits after the lease was lost.
//
// 1. A transaction commits only if its guard, a write to the lease's document within it, matched this grant. So it and
//    every other grant exclude each other on the server, and no clock counts.
// 2. A loss is said only while nothing was sent that may commit. Afterwards only the commit is repeated.
// 3. The callback cannot end the transaction, and none of its operations is sent outside of it.
//
// The first try guards last, so that the lease's document is blocked for a round trip. Any other write to the document
// makes that guard conflict: then the next try guards first, and the others wait.

import type { ClientSession } from 'mongodb';
import { growing } from './clock';
import { Commit, CommitStep, Fault, Holding } from './core';
import type { Engine } from './engine';
import {
  AttemptError,
  CommitUnknownError,
  DamagedError,
  type LeaseError,
  toError,
  asLeaseError,
} from './errors';
import type { Lease } from './lease';
import { RETRY } from './retry';
import { attemptError, before } from './runner';
import { OwnSession } from './session';
import { onAbort } from './signals';

const WRITE_CONFLICT = 112;
const NOT_BEGUN = 'the database did not begin a transaction in time; nothing was written';
const NOT_MATCHED = 'the lease exists, but the guard did not match it';
// As the driver's `withTransaction`, which the library has not: no try begins later than this after the first one.
const REPEAT_MICROS = 120_000_000;
// Between two tries, in milliseconds, as the driver's.
const PAUSE: [number, number] = [5, 500];

/** What the transactions of one lease have in common. */
export class Transactions {
  /** One that was to guard last has met a conflict there: the next one guards first. */
  guardsFirst = false;
  /** One that blocked the lease's document was open when the validity ended. */
  wasOutlived = false;
  private readonly waiting = new Set<() => void>();

  constructor(
    readonly lease: Lease,
    readonly engine: Engine,
  ) {}

  /** Repeats the transaction until it is committed, or fails for another reason than a conflict. */
  async run<T>(work: Work<T>): Promise<T> {
    const { clock } = this.engine;
    const until = clock.now() + REPEAT_MICROS;
    const pauses = growing(...PAUSE);
    for (;;) {
      try {
        return await new Try(this, work).run();
      } catch (error) {
        const cause = error instanceof AttemptError ? error.source : error;
        if (!isRepeatable(cause) || clock.now() >= until) throw asLeaseError(error);
      }
      this.check(false);
      await this.sleep(pauses.next().value);
    }
  }

  /** Throws an error if the lease is lost. `isBlocked` says that a transaction blocks its document. */
  check(isBlocked: boolean): void {
    if (!this.lease.isValid()) throw this.lossOf(isBlocked);
  }

  /** The error for the loss of the lease. */
  lossOf(isBlocked: boolean): LeaseError {
    const { lease } = this;
    const { holding } = lease;
    lease.tick();
    // A process that stood still has lost it without the transaction.
    if (isBlocked && holding.endedBy() === 'outOfReach') this.wasOutlived = true;
    const lost = this.wasOutlived ? holding.tooLong() : holding.lost();
    return toError(lost ?? Fault.unknown(NOT_MATCHED));
  }

  /** Waits until no renewal is under way, or its time is over. It would write behind the transaction's snapshot. */
  async noRenewalUnderWay(): Promise<void> {
    const { clock } = this.engine;
    for (;;) {
      const until = this.lease.holding.renewalUnderWay();
      if (until === undefined) return;
      let wake = (): void => undefined;
      const answered = new Promise<true>((resolve) => (wake = () => resolve(true)));
      this.waiting.add(wake);
      const isAnswered = await before(clock, until, answered);
      this.waiting.delete(wake);
      if (!isAnswered) return;
    }
  }

  /** A renewal was answered, or the lease has ended. */
  notify(): void {
    this.waiting.forEach((wake) => wake());
  }

  /** Sleeps for so many milliseconds, or until the lease is lost. */
  async sleep(milliseconds: number): Promise<void> {
    const { clock } = this.engine;
    let forget = (): void => undefined;
    const lost = new Promise<void>((resolve) => (forget = onAbort(this.lease.signal, resolve)));
    await before(clock, clock.now() + milliseconds * 1e3, lost);
    forget();
  }
}

/** What a transaction does. */
export type Work<T> = (session: ClientSession) => T | Promise<T>;

/** One try at a transaction. */
class Try<T> {
  private guardsFirst = false;
  private began = 0;
  /** When its guard was sent: from then on its commit prolongs the lease. */
  private guarded: number | undefined;
  private isCommitSent = false;

  constructor(
    private readonly all: Transactions,
    private readonly work: Work<T>,
  ) {}

  /** What the database says of a command of ours is thrown as an `AttemptError`, and what the callback throws as it is. */
  async run(): Promise<T> {
    const { engine, lease } = this.all;
    const { clock } = engine;
    lease.holding.onTransactionBegun(clock.now());
    try {
      this.check();
      await this.all.noRenewalUnderWay();
      this.guardsFirst = this.all.guardsFirst;
      this.began = clock.now();
      return await this.untilLost(await this.begin());
    } finally {
      lease.holding.onTransactionEnded(clock.now());
      engine.renewer.reschedule(lease);
    }
  }

  private check(): void {
    this.all.check(this.guardsFirst);
  }

  /**
   * Carries the first operation out. Without it, an abort could overtake the callback's first one, which then begins a
   * transaction that nobody aborts. While it conflicts, it is repeated in another transaction: nothing of the
   * callback's is lost by that.
   */
  private async begin(): Promise<OwnSession> {
    const { clock, runner } = this.all.engine;
    const { deadline } = this.all.engine.policy();
    const pauses = growing(...RETRY);
    for (;;) {
      this.check();
      const own = new OwnSession(runner.backend.startSession());
      const first = this.firstOperation(own);
      try {
        if (
          await before(
            clock,
            deadline,
            first.then(() => true),
          )
        )
          return own;
      } catch (error) {
        await this.discard(own);
        const pause = pauses.next().value;
        const isLate = clock.now() + pause * 1e3 >= deadline;
        if (!this.guardsFirst || !isConflict(error) || isLate) throw error;
        await this.all.sleep(pause);
        continue;
      }
      void first.catch(() => undefined).then(() => this.discard(own));
      throw toError(Fault.unknown(NOT_BEGUN));
    }
  }

  private async firstOperation(own: OwnSession): Promise<void> {
    const { engine } = this.all;
    if (this.guardsFirst) {
      // Before sending: from now on a renewal might wait for this transaction.
      this.noteBlocked(true);
      this.guarded = await this.guard(own.session);
      return;
    }
    const find = Holding.beginTransaction(engine.collection);
    await engine.runner.backend.sendIn(own.session, find).catch((error: unknown) => {
      throw attemptError(error);
    });
  }

  /** Aborts a transaction and gives its session back. */
  private async discard(own: OwnSession): Promise<void> {
    const { clock, runner } = this.all.engine;
    const over = runner.track(own.abort());
    void over.then(() => own.end());
    await before(clock, this.all.engine.policy().deadline, over);
    if (this.guardsFirst) this.noteBlocked(false);
  }

  /** Aborts a transaction whose callback may have an operation under way. */
  private async kill(own: OwnSession): Promise<void> {
    const { backend } = this.all.engine.runner;
    await own.kill((id) => backend.kill(Holding.killSession(id)));
    if (this.guardsFirst) this.noteBlocked(false);
  }

  private noteBlocked(isBlocked: boolean): void {
    const { engine, lease } = this.all;
    const now = engine.clock.now();
    if (isBlocked) lease.holding.onGuarded(now);
    else lease.holding.onDocumentWritten(now, now);
    engine.guesses.noteBlocked(lease.name, isBlocked);
  }

  /** Writes to the lease's document. Returns when that was sent. */
  private async guard(session: ClientSession): Promise<number> {
    const { engine, lease } = this.all;
    const sent = engine.clock.sent();
    let isGuarded: boolean;
    try {
      const command = lease.holding.guard(engine.collection, sent);
      const reply = await engine.runner.backend.sendIn(session, command);
      isGuarded = lease.holding.guarded(reply, sent);
    } catch (error) {
      const failed = attemptError(error);
      if (isConflict(failed)) await this.judgeConflict();
      throw failed;
    }
    if (isGuarded) return sent;
    await lease.judge();
    throw toError(Fault.unknown(NOT_MATCHED));
  }

  /** A take-over conflicts as well as any other write: a look at the document tells. */
  private async judgeConflict(): Promise<void> {
    try {
      await this.all.lease.judge();
    } catch (found) {
      this.check();
      if (found instanceof DamagedError) throw found;
      // To repeat the transaction is safe, whatever has happened to the lease.
    }
  }

  /** Runs the callback and commits. If the lease is lost before the commit is sent, that is told at once. */
  private async untilLost(own: OwnSession): Promise<T> {
    const { engine, lease } = this.all;
    let forget = (): void => undefined;
    const lost = new Promise<never>((_, reject) => {
      forget = onAbort(lease.signal, () => {
        if (this.isCommitSent) return;
        // The callback may be busy, or never end.
        void engine.runner.track(this.kill(own));
        reject(this.all.lossOf(this.guardsFirst));
      });
    });
    try {
      return await Promise.race([this.workAndCommit(own), lost]);
    } finally {
      forget();
    }
  }

  private async workAndCommit(own: OwnSession): Promise<T> {
    const { runner } = this.all.engine;
    let result: T | undefined;
    try {
      // A loss from before has been told to nobody.
      this.check();
      await runner.backend.runIn(own.session, async () => {
        result = await this.work(own.session);
        // A close waits for this, and not for the callback.
        await runner.track(this.guardAndCommit(own));
      });
    } catch (error) {
      // A transaction that may be committed or not blocks nobody until somebody knows.
      if (error instanceof CommitUnknownError) void runner.track(this.kill(own));
      if (!this.isCommitSent) await this.discard(own);
      else void own.end();
      throw error;
    }
    void own.end();
    return result as T;
  }

  private async guardAndCommit(own: OwnSession): Promise<void> {
    this.check();
    own.check();
    const guarded = this.guarded ?? (await this.guardLast(own.session));
    this.check();
    own.check();
    // Nothing is awaited between the check and the sending.
    this.isCommitSent = true;
    await this.commit(own);
    const { engine, lease } = this.all;
    this.all.guardsFirst = false;
    engine.guesses.noteBlocked(lease.name, false);
    lease.holding.onRenewed(engine.clock.now(), guarded);
  }

  private async guardLast(session: ClientSession): Promise<number> {
    const { all } = this;
    try {
      return await this.guard(session);
    } catch (error) {
      if (!isConflict(error)) throw error;
      const { holding } = all.lease;
      const open = all.engine.clock.now() - this.began;
      if (open >= holding.validity() * 1e3) throw toError(holding.tooLong());
      all.guardsFirst = true;
      throw error;
    }
  }

  /**
   * Commits, and repeats only that until it is known: the transaction may be committed already, and then the lease counts
   * no more.
   */
  private async commit(own: OwnSession): Promise<void> {
    const { engine, lease } = this.all;
    const { clock } = engine;
    const rules = new Commit(clock.now());
    const pauses = growing(...RETRY);
    let last: AttemptError | undefined;
    for (;;) {
      const answer = own.commit().then(() => 'committed' as const, attemptError);
      const told = await before(clock, rules.deadline(), answer);
      if (told === 'committed') return;
      last = told ?? last;
      const pause = pauses.next().value;
      const step = told ? rules.onFailed(clock.now(), told.failure, pause) : CommitStep.GiveUp;
      if (step === CommitStep.NotCommitted) throw told;
      if (step === CommitStep.GiveUp)
        throw toError(lease.holding.commitUnknown(last?.failure), last?.source);
      await new Promise<void>((wake) => void clock.timer(clock.now() + pause * 1e3, wake));
    }
  }
}

/** Whether another write to a document came between. */
function isConflict(error: unknown): boolean {
  return error instanceof AttemptError && error.failure.serverCode() === WRITE_CONFLICT;
}

/** Whether an error of the driver, or of any copy of it, says that the transaction may be repeated. */
function isRepeatable(error: unknown): boolean {
  const { hasErrorLabel } = (error ?? {}) as { hasErrorLabel?: (label: string) => boolean };
  return (
    typeof hasErrorLabel === 'function' && hasErrorLabel.call(error, 'TransientTransactionError')
  );
}
