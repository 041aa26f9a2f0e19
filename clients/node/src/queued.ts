// An acquire call that waits: first in its process's local queue, then in the queue of the lease document.
//
// The core decides what the call does next; this carries it out.

import { Call } from './call';
import { Wake, about, delays, growing } from './clock';
import {
  Constants,
  Fault,
  type Info,
  type Promotion,
  Reply,
  type Request,
  WaitStep,
  Waiter,
} from './core';
import type { Engine } from './engine';
import { AttemptError, DatabaseError, UnknownOutcomeError, toError, asLeaseError } from './errors';
import type { LeaseEvent } from './events';
import { Lease } from './lease';
import type { Inherited, Ticket } from './local-queue';
import { Stop, Stopped } from './retry';
import { onAbort, throwIfAborted } from './signals';
import type { Slot } from './waiters';

// Between two attempts of the first waiter in the queue, without a change stream, in milliseconds.
const POLL = delays(Constants.poll());

export class QueuedCall {
  private readonly wake = new Wake();
  private readonly call: Call;
  private readonly waiter: Waiter;
  private readonly ticket: Ticket;
  private readonly polls = growing(...POLL);
  private slot: Slot | undefined;
  /** The queue entry of the previous local waiter, until this call has taken it over. */
  private inherited: Inherited | undefined;
  /** The lease as the server last described it to this call. */
  private held: Info | undefined;
  /** Whether another call of this process rechecks the lease for this one. */
  private isLed = false;
  private promotion: Promotion | undefined;

  constructor(
    private readonly engine: Engine,
    request: Request,
    private readonly deadline: number,
    private readonly signal: AbortSignal | undefined,
    /** When its caller began to wait. */
    private readonly started = engine.clock.rough(),
  ) {
    this.call = new Call(engine, request, true);
    this.waiter = new Waiter(request, deadline, engine.waiters.waiterTtl);
    const { localQueues } = engine;
    this.ticket = localQueues.join(this.call.name, request.activeCalls(), this.wake);
  }

  /** Waits until the lease is granted, or the deadline comes, or the caller goes. */
  async wait(): Promise<Lease> {
    const goes = (): void => this.wake.notify();
    const forget = [onAbort(this.signal, goes), this.engine.onClosing(goes)];
    try {
      await this.untilTurn();
      return await this.untilGranted();
    } finally {
      forget.forEach((each) => each());
      this.leave();
    }
  }

  private get clock(): Engine['clock'] {
    return this.engine.clock;
  }

  private checkCaller(): void {
    throwIfAborted(this.signal);
    this.engine.checkOpen();
  }

  private async untilTurn(): Promise<void> {
    while (!this.ticket.hasTurn) {
      this.checkCaller();
      if (this.clock.now() >= this.deadline) {
        await this.engine.timeouts.next();
        this.checkCaller();
        throw this.timeout();
      }
      await this.wake.until(this.clock, this.deadline);
    }
    this.checkCaller();
    this.inherited = this.ticket.takeInherited();
    if (this.inherited) {
      this.inherited.slot.passTo(this.wake, this.deadline);
      this.waiter.inherit(this.inherited.waiter, this.deadline);
    }
    this.slot = this.engine.waiters.register(this.call, this.deadline, this.wake);
  }

  private async untilGranted(): Promise<Lease> {
    let step = this.waiter.onTimer(this.clock.rough());
    for (;;) {
      this.checkCaller();
      switch (step) {
        case WaitStep.GiveUp:
          await this.engine.timeouts.next();
          this.checkCaller();
          // One that was promoted meanwhile takes it, if it is not too late.
          if (!this.slot?.promotion) throw this.timeout();
          step = this.heard();
          break;
        case WaitStep.Wait:
          // What came together with the answer to an attempt has no wake-up of its own.
          if (!this.hasNews()) await this.wake.until(this.clock, this.waiter.wakeAt());
          step = this.heard();
          break;
        case WaitStep.TakePromotion: {
          const told = this.promotion;
          this.promotion = undefined;
          const lease = told && this.call.acceptPromotion(told, this.waiter.term());
          if (lease) return lease;
          step = this.waiter.onRecheck(this.clock.now());
          break;
        }
        case WaitStep.Acquire: {
          const outcome = await this.acquire();
          if (outcome instanceof Lease) return outcome;
          step = outcome ? this.refused(outcome) : this.heard();
        }
      }
    }
  }

  private hasNews(): boolean {
    const slots = [this.slot, this.inherited?.slot];
    const leads = this.isLed && this.ticket.ledBy === 0;
    return leads || slots.some((slot) => slot?.promotion ?? slot?.mustRecheck);
  }

  /** What has woken this call: a promotion of its own is worth more than an attempt. */
  private heard(): WaitStep {
    const { slot, inherited, waiter } = this;
    const now = this.clock.now();
    if (slot?.promotion) {
      this.promotion = slot.promotion;
      slot.promotion = undefined;
      return waiter.onPromoted(now, this.promotion);
    }
    const mustRecheck = slot?.mustRecheck ?? false;
    // This call takes a grant of the inherited entry over with an attempt of its own.
    const isInherited = inherited?.slot.promotion ?? inherited?.slot.mustRecheck;
    if (slot) slot.mustRecheck = false;
    if (mustRecheck || isInherited) return waiter.onRecheck(now);
    if (this.isLed && this.ticket.ledBy === 0) {
      this.isLed = false;
      return waiter.onLeads(now, this.recheckEvery());
    }
    return waiter.onTimer(now);
  }

  /** Sends attempts until one is answered. Returns nothing if the call was promoted, or its caller went, first. */
  private async acquire(): Promise<Lease | Reply | undefined> {
    const { call, slot, clock, deadline } = this;
    if (slot) slot.mustRecheck = false;
    const inherited = this.inherited?.slot;
    if (inherited) inherited.mustRecheck = false;
    const predecessor = inherited?.call.request.value();
    const stop = new Stop();
    const answering = call.untilAnswered(deadline, predecessor, stop);
    let isAnswered = false;
    const done = (): void => {
      isAnswered = true;
      this.wake.notify();
    };
    answering.then(done, done);
    const isGone = (): boolean => (this.signal?.aborted ?? false) || this.engine.isClosing;
    const goesOn = (): boolean => !isAnswered && !call.lease;
    // The loop of attempts ends by the deadline.
    while (goesOn() && !slot?.promotion && !isGone()) await this.wake.until(clock, Infinity);
    if (goesOn()) {
      stop.stop();
      // Its own end is no longer of interest.
      answering.catch(() => undefined);
      return undefined;
    }
    try {
      const answer = call.lease ?? (await answering);
      // Granted or refused: the server has put this call into the inherited entry's place.
      this.inherited?.slot.close();
      this.inherited?.slot.call.succeeded();
      this.inherited = undefined;
      return answer;
    } catch (error) {
      if (error instanceof Stopped) this.checkCaller();
      const told = asLeaseError(error);
      const isSilent = told instanceof UnknownOutcomeError || told instanceof DatabaseError;
      // The database did not answer in time: more time could have helped.
      throw isSilent && clock.now() >= deadline ? this.timeout(error) : told;
    }
  }

  /** Notes what the server said when it refused. */
  private refused(reply: Reply): WaitStep {
    const { engine, slot, waiter } = this;
    if (reply.ahead() === undefined || !slot) {
      throw toError(Fault.queueFull(this.call.name, reply.waiting()));
    }
    // Before the query of the stream's state: when the stream ends, only calls marked as queued are told.
    slot.joined(reply.sent(), reply.token());
    engine.guesses.noteAwaited(this.call.name);
    // A release by another program sends no event.
    const isNotified = reply.tellsItsEnd() && engine.waiters.hasStream;
    const { ledBy } = this.ticket;
    this.isLed = ledBy > 0;
    if (!this.held) engine.events.report(() => this.queuedEvent(reply));
    this.held = reply.info(engine.manager);
    if (this.held) this.ticket.record(this.held);
    const poll = this.polls.next().value;
    return waiter.onRefused(this.clock.now(), reply, ledBy, isNotified, poll, this.recheckEvery());
  }

  private queuedEvent(reply: Reply): LeaseEvent {
    return { event: 'queued', name: this.call.name, ahead: reply.ahead() ?? 0 };
  }

  private recheckEvery(): number {
    return about(this.engine.time('recheck_every'));
  }

  /** Gives up the place, or what is left of it: a queue entry goes to the next call. */
  private leave(): void {
    const { slot, inherited, call, waiter, ticket } = this;
    slot?.close();
    const isExclusive = call.request.isExclusive();
    if (ticket.hasTurn && inherited && !call.attempts.hasStarted()) {
      // It has only the entry that it inherited.
      ticket.passOn({ slot: inherited.slot, waiter });
    } else {
      inherited?.slot.close();
      inherited?.slot.call.abandonEntry();
      if (slot && isExclusive && call.attempts.hasOnlyAnEntry()) {
        call.isPassedOn = true;
        ticket.passOn({ slot: this.engine.waiters.keep(slot), waiter });
      }
    }
    // Does nothing when the grant was accepted: then the lease continues the call.
    call.abandon();
    ticket.leave();
  }

  private timeout(source?: unknown): Error {
    const { call, ticket, clock } = this;
    const held = (this.held ?? ticket.lastSeen)?.copy();
    const waited = (clock.now() - this.started) / 1e3;
    const attempt = source instanceof AttemptError ? source : undefined;
    const fault = attempt?.failure.fault();
    const told = Fault.waitTimeout(call.name, waited, !ticket.hasTurn, held, fault);
    return toError(told, attempt?.source);
  }
}
