// An acquire call in progress: its attempts, the grant that they bring, and what has to be cleaned up.

import {
  Answer,
  Attempts,
  Cleanup,
  Failure,
  Holding,
  Next,
  type Promotion,
  Reply,
  type Request,
} from './core';
import type { Engine } from './engine';
import { AttemptError, toError } from './errors';
import { Lease } from './lease';
import { GIVE_BACK, type Likely } from './release';
import { type AttemptTime, type Policy, type Stop, Stopped, untilAnswered } from './retry';
import { type Attempt, before } from './runner';

const DUPLICATE_KEY = 11_000;

export class Call {
  readonly attempts: Attempts;
  readonly name: string;
  readonly started: number;
  /** Another owner has taken over the cleanup of this call. */
  isPassedOn = false;
  /** What it was granted and has accepted. */
  lease: Lease | undefined;

  constructor(
    readonly engine: Engine,
    readonly request: Request,
    private readonly waits: boolean,
  ) {
    this.name = request.name();
    this.attempts = new Attempts(request);
    this.started = engine.clock.rough();
  }

  /** The caller has gone: every grant that the call has, or may yet get, is given back. */
  abandon(): void {
    if (!this.isPassedOn) this.cleanUp(this.attempts.abandon());
  }

  /** The lease has ended, and so has every grant up to now. */
  settle(): void {
    this.cleanUp(this.attempts.settle());
  }

  /** Another call has taken over the queue entry. */
  succeeded(): void {
    this.cleanUp(this.attempts.succeeded());
  }

  /** The queue entry that another call was to take over is given up. */
  abandonEntry(): void {
    this.cleanUp(this.attempts.abandon());
  }

  /**
   * Sends attempts until the server grants the lease or refuses it, or the deadline comes. Returns the lease, or the
   * refusal. What fails is thrown as an `AttemptError`.
   */
  async untilAnswered(
    deadline: number,
    predecessor: string | undefined,
    stop: Stop,
  ): Promise<Lease | Reply> {
    const { engine, request } = this;
    const policy = { attemptTimeout: request.attemptTimeout(), deadline };
    let isUnanswered = !this.attempts.hasStarted();
    let hasCheckedIndexes = false;
    for (;;) {
      engine.checkOpen();
      const attempt = (time: AttemptTime): Attempt => this.attempt(isUnanswered, predecessor, time);
      let reply: Reply;
      try {
        ({ reply } = await untilAnswered(engine.clock, policy, attempt, undefined, stop));
      } catch (error) {
        const asks = error instanceof AttemptError && error.failure.next() === Next.CheckIndexes;
        if (!asks || hasCheckedIndexes) throw error;
        hasCheckedIndexes = true;
        isUnanswered = false;
        await before(engine.clock, deadline, engine.verifyIndexes());
        continue;
      }
      isUnanswered = false;
      // Whoever has stopped waiting accepts nothing: the answer is given back.
      if (stop.isStopped) throw new Stopped();
      const answer = reply.answer();
      if (answer === Answer.Granted) {
        const lease = await this.accept(reply, policy, stop);
        // The collector of JavaScript does not see how large it is.
        reply.free();
        if (lease) return lease;
        // The answer came too late to be a valid grant. The server still holds the lease for this call: send another
        // attempt.
        if (engine.clock.now() >= deadline) throw new AttemptError(Failure.unanswered());
        continue;
      }
      engine.guesses.noteContended(this.name, true);
      if (answer === Answer.Refused) {
        // Such a lease is never granted.
        const damaged = reply.damaged();
        if (damaged) throw toError(damaged);
        return reply;
      }
      // The next attempt is a slow one, because this call has already sent one.
    }
  }

  /** Starts one attempt. The call learns its answer even when the caller has gone by then. */
  private attempt(
    isUnanswered: boolean,
    predecessor: string | undefined,
    time: AttemptTime,
  ): Attempt {
    const { engine, request, attempts, name } = this;
    const isFirst = !attempts.hasStarted();
    const isNew = request.hasNewValue() && predecessor === undefined;
    const isLikelyFree = !this.waits || !engine.guesses.isContended(name);
    const mayRepeat = isUnanswered && request.isExclusive();
    const isFast = (isFirst || mayRepeat) && isNew && isLikelyFree;
    const number = attempts.start();
    const command = isFast ? request.fast(number) : request.slow(number, predecessor);
    const heard = (outcome: Reply | AttemptError): Reply => {
      if (!(outcome instanceof AttemptError)) {
        this.answered(attempts.answered(outcome));
        return outcome;
      }
      const { failure } = outcome;
      if (isFast && request.isExclusive() && failure.serverCode() === DUPLICATE_KEY) {
        // It found the name taken and has changed nothing: another call was faster. The slow one follows at once.
        const reply = Reply.useSlowForm();
        this.answered(attempts.answered(reply));
        return reply;
      }
      this.answered(attempts.failed(failure));
      throw outcome;
    };
    return engine.runner.start(command, time, { about: name, heard });
  }

  private answered(cleanup: Cleanup): void {
    // After a close nobody accepts a grant.
    const isOver = cleanup === Cleanup.Nothing && this.engine.isClosing;
    this.cleanUp(isOver ? this.attempts.abandon() : cleanup);
  }

  /** Makes a lease of a grant. Returns nothing when its validity has passed already. */
  private async accept(reply: Reply, policy: Policy, stop: Stop): Promise<Lease | undefined> {
    const { engine, request } = this;
    engine.guesses.noteContended(this.name, reply.waiting() > 0);
    let now = engine.clock.now();
    const holding = Holding.granted(request, reply, now);
    if (!holding) return undefined;
    let token = reply.token();
    if (token === undefined) {
      // A server without an oplog needs one more command for it.
      const send = (time: AttemptTime): Attempt =>
        engine.runner.start(holding.standaloneToken(), time);
      token = (await untilAnswered(engine.clock, policy, send, undefined, stop)).reply.token();
      if (token === undefined) return undefined;
      if (stop.isStopped) throw new Stopped();
      now = engine.clock.now();
    }
    const likely = holding.isAlone(reply) ? 'alone' : 'besideOthers';
    return this.hold(holding, token, likely, false, reply.sent(), now);
  }

  /** Makes a lease of a promotion that is valid for `term` milliseconds at first. */
  acceptPromotion(promotion: Promotion, term: number): Lease | undefined {
    const { engine, request } = this;
    engine.guesses.noteContended(this.name, true);
    const now = engine.clock.now();
    const holding = Holding.promoted(request, promotion, term, now);
    // A promotion implies a queue; assume more waiters.
    return this.hold(holding, promotion.token(), 'besideOthers', true, promotion.sent(), now);
  }

  private hold(
    holding: Holding,
    token: bigint,
    likely: Likely,
    isPromotion: boolean,
    sent: number,
    now: number,
  ): Lease | undefined {
    const { engine, attempts } = this;
    // A promotion and an answer may come at once, and mean one grant.
    if (this.lease) return this.lease;
    if (engine.isClosing || !holding.isValid(now)) return undefined;
    // In most cases the call can bring no other grant, and the lease need not remember it.
    const call = attempts.hasOneGrantOnly(isPromotion, sent) ? undefined : this;
    if (!attempts.accept(holding, isPromotion, sent)) return undefined;
    const lease = new Lease(engine, holding, token, likely, call);
    engine.renewer.add(lease);
    this.lease = lease;
    lease.report((name, granted) => ({ event: 'granted', name, token: granted }));
    return lease;
  }

  private cleanUp(cleanup: Cleanup): void {
    if (cleanup === Cleanup.Nothing) return;
    const { engine, request, attempts } = this;
    const isExclusive = request.isExclusive();
    let likely: Likely = 'maybeQueued';
    if (cleanup === Cleanup.GiveBack) {
      if (this.waits) likely = isExclusive ? 'maybeAlone' : 'maybeQueued';
      else likely = isExclusive ? 'alone' : 'besideOthers';
    }
    // An unrenewed grant lasts no longer than this, and a queue entry expires earlier.
    const until = engine.clock.now() + request.lasts() * 1e3;
    const ending = { name: this.name, target: attempts.toGiveBack(), steps: GIVE_BACK[likely] };
    engine.releaser.inBackground(ending, until);
  }
}
