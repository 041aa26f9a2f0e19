// Renews held leases, many in one command, and declares them lost: one alarm for each manager.
//
// The alarm waits for the clock alone, so a command that hangs delays no other command and no loss.

import { Alarm, type Clock } from './clock';
import { Constants, type Failure, HoldStep, Looked, Renewal } from './core';
import type { Engine } from './engine';
import { AttemptError } from './errors';
import type { Lease } from './lease';
import { type AttemptTime, oneAttempt, untilAnswered } from './retry';
import type { Attempt } from './runner';

// The most leases in one command.
const BATCH_MAX = Constants.renewalsMax();

/** Leases that one command renews. */
interface Batch {
  leases: Lease[];
  /** When the rules declared them due. */
  plannedAt: number;
  isShared: boolean;
  /** Whether they are one lease's, whose document is known to be blocked. */
  isBlocked: boolean;
  /** How long the command may take, in milliseconds. */
  time: number;
}

export class Renewer {
  /** The held leases, each with the moment at which the rules look at it next. */
  private readonly agenda = new Map<Lease, number>();
  private readonly alarm: Alarm;
  private readonly clock: Clock;

  constructor(private readonly engine: Engine) {
    this.clock = engine.clock.background;
    this.alarm = new Alarm(this.clock, () => this.look());
  }

  add(lease: Lease): void {
    this.schedule(lease);
  }

  remove(lease: Lease): boolean {
    return this.agenda.delete(lease);
  }

  leases(): Lease[] {
    return [...this.agenda.keys()];
  }

  stop(): void {
    this.alarm.stop();
  }

  private schedule(lease: Lease): void {
    const at = lease.holding.wakeAt(this.clock.lag);
    this.agenda.set(lease, at);
    this.alarm.by(at);
  }

  /** Calls the rules for all leases that are due, and for those that are nearly due and can share a command. */
  private look(): void {
    const now = this.clock.now();
    let first: Lease | undefined;
    let firstAt = Infinity;
    for (const [lease, at] of this.agenda) {
      if (at < firstAt) [first, firstAt] = [lease, at];
    }
    if (!first) return;
    if (firstAt <= now) this.renewDue(now, now + first.holding.renewSlack() * 1e3);
    let next = Infinity;
    for (const at of this.agenda.values()) next = Math.min(next, at);
    this.alarm.by(next);
  }

  private renewDue(now: number, until: number): void {
    const due: [Lease[], Lease[]] = [[], []];
    const alone = new Map<string, Lease[]>();
    for (const [lease, at] of [...this.agenda]) {
      if (at > until) continue;
      const step = lease.tick();
      if (step === HoldStep.Lost || step === HoldStep.Nothing) {
        this.agenda.delete(lease);
        continue;
      }
      // Also schedules the check whether the renewal was answered.
      this.agenda.set(lease, lease.holding.wakeAt(this.clock.lag));
      if (step === HoldStep.Renew) due[lease.isShared ? 1 : 0].push(lease);
      if (step === HoldStep.RenewAlone) {
        alone.set(lease.name, [...(alone.get(lease.name) ?? []), lease]);
      }
    }
    for (const leases of alone.values()) this.send(leases, now, true);
    for (const leases of due) {
      for (let place = 0; place < leases.length; place += BATCH_MAX) {
        this.send(leases.slice(place, place + BATCH_MAX), now, false);
      }
    }
  }

  private send(leases: Lease[], plannedAt: number, isBlocked: boolean): void {
    const isShared = leases[0]?.isShared ?? false;
    const time = Math.min(...leases.map((lease) => lease.holding.bulkDeadline()));
    this.start({ leases, plannedAt, isShared, isBlocked, time });
  }

  private start(batch: Batch): void {
    void this.engine.runner.track(this.renew(batch));
  }

  private async renew(batch: Batch): Promise<void> {
    const renewal = new Renewal(batch.isShared);
    batch.leases.forEach((lease) => renewal.add(lease.holding));
    const { clock } = this;
    const attempt = (time: AttemptTime): Attempt =>
      this.engine.runner.start(renewal.command(), time, { isBlocked: batch.isBlocked });
    const isBlocked = (failure: Failure): boolean => failure.isBlocked();
    try {
      const policy = oneAttempt(clock, batch.time);
      const { reply } = await untilAnswered(clock, policy, attempt, isBlocked);
      if (reply.count() === renewal.documents()) this.renewed(batch.leases, reply.sent());
      else await this.sortOut(batch, renewal, reply.sent());
    } catch (error) {
      if (!(error instanceof AttemptError)) throw error;
      if (isBlocked(error.failure) && this.split(batch, renewal)) return;
      this.failed(batch.leases, batch.plannedAt, () => error.failure.fault().message());
    }
  }

  private renewed(leases: Lease[], sent: number): void {
    const now = this.clock.now();
    for (const lease of leases) {
      const step = lease.holding.onRenewed(now, sent);
      if (step === HoldStep.Wait) this.tellRenewed(lease);
      this.engine.guesses.noteBlocked(lease.name, false);
      this.reschedule(lease);
    }
  }

  private tellRenewed(lease: Lease): void {
    lease.report((name, token) => {
      const remaining = lease.remaining();
      return { event: 'renewed', name, token, remaining };
    });
  }

  private tellFailed(lease: Lease, why: () => string): void {
    lease.report((name, token) => {
      const remaining = lease.remaining();
      return { event: 'renewalFailed', name, token, remaining, reason: why() };
    });
  }

  private failed(leases: Lease[], plannedAt: number, why: () => string): void {
    const now = this.clock.now();
    for (const lease of leases) {
      const step = lease.holding.onFailed(now, plannedAt, Math.random());
      if (step === HoldStep.Wait) this.tellFailed(lease, why);
      this.reschedule(lease);
    }
  }

  /** Puts a lease on the agenda again, or takes it off if it has ended. */
  reschedule(lease: Lease): void {
    lease.tellEnd();
    if (!this.agenda.has(lease)) return;
    if (lease.holding.endedBy() === undefined) this.schedule(lease);
    else this.agenda.delete(lease);
  }

  /** Sends a batch again in pieces. Returns false if it is about one document: then that one is blocked. */
  private split(batch: Batch, renewal: Renewal): boolean {
    const places = renewal.pieces();
    const pieces: Lease[][] = [];
    places.forEach((piece, place) => {
      const lease = batch.leases[place];
      if (lease) (pieces[piece] ??= []).push(lease);
    });
    if (pieces.length < 2) {
      // From now on the other leases are renewed without it.
      const now = this.clock.now();
      batch.leases.forEach((lease) => lease.holding.onGuarded(now));
      this.engine.guesses.noteBlocked(batch.leases[0]?.name ?? '', true);
      return false;
    }
    const time = Constants.pieceTime(batch.time);
    pieces.forEach((leases) => this.start({ ...batch, leases, time }));
    return true;
  }

  /** Finds out which leases of a batch did not match, and who holds them. */
  private async sortOut(batch: Batch, renewal: Renewal, sent: number): Promise<void> {
    const { clock, engine } = this;
    const look = (time: AttemptTime): Attempt => engine.runner.start(renewal.look(), time);
    const seen = (await untilAnswered(clock, oneAttempt(clock, batch.time), look)).reply;
    const notRenewed: Lease[] = [];
    const incomplete = new Set<string>();
    const now = clock.now();
    for (const lease of batch.leases) {
      const { holding } = lease;
      const hadEnded = holding.endedBy() !== undefined;
      const looked = hadEnded ? Looked.Gone : holding.afterLook(seen, sent, now);
      if (looked === Looked.Gone) incomplete.add(lease.name);
      if (looked === Looked.Renewed) this.tellRenewed(lease);
      if (looked === Looked.NotRenewed) notRenewed.push(lease);
      else this.reschedule(lease);
    }
    // Of several grants in one document, one that has ended keeps the others from being renewed: again, without it.
    const isKept = (lease: Lease): boolean => batch.isShared && incomplete.has(lease.name);
    const again = notRenewed.filter(isKept);
    if (again.length > 0) this.start({ ...batch, leases: again });
    const failed = notRenewed.filter((lease) => !isKept(lease));
    this.failed(failed, batch.plannedAt, () => 'its document is damaged');
  }

  /** Renews one lease at its holder's wish. Throws an error if that is not confirmed. */
  async renewNow(lease: Lease): Promise<void> {
    const { engine } = this;
    const { clock } = engine;
    const { holding } = lease;
    const renewal = new Renewal(lease.isShared);
    renewal.add(holding);
    const attemptTimeout = holding.attemptTimeout();
    const wait = Math.min(lease.remaining(), attemptTimeout * 2);
    const policy = { attemptTimeout, deadline: clock.now() + wait * 1e3 };
    const attempt = (time: AttemptTime): Attempt =>
      engine.runner.start(renewal.command(), time, {
        isBlocked: engine.guesses.isBlocked(lease.name),
      });
    const { reply } = await untilAnswered(clock, policy, attempt);
    if (reply.count() === 0) {
      await lease.judge();
      return;
    }
    const step = holding.onRenewed(clock.now(), reply.sent());
    if (step === HoldStep.Wait) this.tellRenewed(lease);
    this.reschedule(lease);
  }
}
