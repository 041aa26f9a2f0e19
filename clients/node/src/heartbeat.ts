// Sends the heartbeats of all waiters: one command for all names. Those of a document that a transaction is likely to
// block go in a command of their own, so that it costs the other waiters at most one short command.

import type { Clock } from './clock';
import { Constants, Entry, type Failure, Heartbeats, type Reply } from './core';
import type { Engine } from './engine';
import { AttemptError } from './errors';
import { type AttemptTime, oneAttempt, untilAnswered } from './retry';
import type { Attempt } from './runner';
import type { Slot } from './waiters';

// The most waiters in one command.
const BATCH_MAX = Constants.heartbeatsMax();

export class Heart {
  constructor(private readonly engine: Engine) {}

  private get clock(): Clock {
    return this.engine.clock.background;
  }

  beat(due: Slot[]): void {
    const { engine } = this;
    const time = Constants.heartbeatSlack(engine.waiters.waiterTtl);
    const blocked = new Map<string, Slot[]>();
    const together: Slot[] = [];
    for (const slot of due) {
      if (!engine.guesses.isBlocked(slot.name)) together.push(slot);
      else blocked.set(slot.name, [...(blocked.get(slot.name) ?? []), slot]);
    }
    for (let place = 0; place < together.length; place += BATCH_MAX) {
      this.start(together.slice(place, place + BATCH_MAX), time);
    }
    for (const slots of blocked.values()) this.start(slots, time, true);
  }

  private start(slots: Slot[], time: number, isKnown = false): void {
    void this.engine.runner.track(this.send(slots, time, isKnown));
  }

  /** `isKnown` says that all are of one document, which is known to be blocked. */
  private async send(slots: Slot[], time: number, isKnown: boolean): Promise<void> {
    const { clock } = this;
    const { runner, waiters } = this.engine;
    const beats = new Heartbeats();
    slots.forEach((slot) => beats.add(slot.call.request));
    const attempt = (time: AttemptTime): Attempt =>
      runner.start(beats.command(waiters.waiterTtl), time, { isBlocked: isKnown });
    const isBlocked = (failure: Failure): boolean => failure.isBlocked();
    try {
      const { reply } = await untilAnswered(clock, oneAttempt(clock, time), attempt, isBlocked);
      if (reply.count() === beats.documents()) {
        slots.forEach((slot) => slot.confirm(reply.sent()));
        this.lookAgain(slots);
      } else await this.sortOut(slots, beats, reply, time);
    } catch (error) {
      if (!(error instanceof AttemptError)) throw error;
      if (isBlocked(error.failure) && this.split(slots, beats, time)) return;
      this.soon(slots);
    }
  }

  /** Sends a batch again in pieces. Returns false if it is about one document: then that one is blocked. */
  private split(slots: Slot[], beats: Heartbeats, time: number): boolean {
    const pieces: Slot[][] = [];
    beats.pieces().forEach((piece, place) => {
      const slot = slots[place];
      if (slot) (pieces[piece] ??= []).push(slot);
    });
    if (pieces.length < 2) {
      this.engine.guesses.noteBlocked(slots[0]?.name ?? '', true);
      return false;
    }
    pieces.forEach((piece) => this.start(piece, Constants.pieceTime(time)));
    return true;
  }

  /** Some waiters have no queue entry: makes them send an attempt. */
  private async sortOut(
    slots: Slot[],
    beats: Heartbeats,
    reply: Reply,
    time: number,
  ): Promise<void> {
    const { clock } = this;
    const { runner } = this.engine;
    const look = (time: AttemptTime): Attempt => runner.start(beats.look(), time);
    const seen = (await untilAnswered(clock, oneAttempt(clock, time), look)).reply;
    const told = beats.afterLook(seen, reply.count());
    const of = (entry: Entry): Slot[] => slots.filter((_, place) => told[place] === entry);
    of(Entry.Gone).forEach((slot) => slot.recheck());
    of(Entry.Confirmed).forEach((slot) => slot.confirm(reply.sent()));
    this.lookAgain(slots);
    this.soon(of(Entry.Again));
  }

  /** Sends the next heartbeats of these soon: at most four times as often as usual. */
  private soon(slots: Slot[]): void {
    const { waiters } = this.engine;
    const soon = this.clock.now() + Constants.heartbeatAgain(waiters.waiterTtl) * 1e3;
    slots.forEach((slot) => (slot.heartbeatAt = Math.min(slot.heartbeatAt, soon)));
    this.lookAgain(slots);
  }

  private lookAgain(slots: Slot[]): void {
    slots.forEach((slot) => this.engine.waiters.lookAgain(slot.heartbeatAt));
  }
}
