// The registry of one manager's waiters: receives their signals, schedules their heartbeats.
//
// A call is registered before its first attempt is sent, so every signal for it finds it. A waiter that relies on a
// stream is told when the stream ends.

import { Alarm, type Clock, Wake } from './clock';
import type { Call } from './call';
import { Constants, Heartbeats, type Promotion } from './core';

/** The state of the change stream that reports promotions. */
type Stream =
  /** No waiter has needed it. */
  | { is: 'closed' }
  /** It is being opened, and will report events from this oplog time on. */
  | { is: 'wanted'; since: bigint | undefined }
  /** It reports events from `since` on, and in any case events after `opened`. */
  | { is: 'open'; since: bigint | undefined; opened: number }
  /** It does not work. */
  | { is: 'absent' };

/** The registration of one call. */
export class Slot {
  isQueued = false;
  /** When the newest confirmed heartbeat was sent. */
  confirmed = 0;
  heartbeatAt = Infinity;
  promotion: Promotion | undefined;
  mustRecheck = false;
  readonly callId: string;

  constructor(
    readonly call: Call,
    public deadline: number,
    /** What its signals wake. */
    public wake: Wake,
    private readonly waiters: Waiters,
  ) {
    this.callId = call.request.callId();
  }

  get name(): string {
    return this.call.name;
  }

  recheck(): void {
    this.mustRecheck = true;
    this.wake.notify();
  }

  confirm(sent: number): void {
    this.confirmed = Math.max(this.confirmed, sent);
    this.heartbeatAt = Heartbeats.nextAt(this.confirmed, this.waiters.waiterTtl, this.deadline);
  }

  /** Notes that the call is in the queue. Its attempt was sent at `sent`, and applied at oplog time `at`. */
  joined(sent: number, at: bigint | undefined): void {
    this.waiters.joined(this, sent, at);
  }

  /** Another call now waits with this entry, until `deadline`. */
  passTo(wake: Wake, deadline: number): void {
    this.wake = wake;
    this.deadline = deadline;
    if (this.isQueued) this.confirm(this.confirmed);
    this.waiters.lookAgain(this.heartbeatAt);
  }

  close(): void {
    this.waiters.remove(this);
  }
}

export class Waiters {
  private readonly slots = new Map<string, Slot>();
  private queued = 0;
  private stream: Stream = { is: 'closed' };
  private readonly alarm: Alarm;
  /** Notified when a call has joined a queue. */
  readonly joinedWake = new Wake();

  constructor(
    private readonly clock: Clock,
    readonly waiterTtl: number,
    beat: (due: Slot[]) => void,
  ) {
    this.alarm = new Alarm(clock, () => beat(this.due()));
  }

  register(call: Call, deadline: number, wake: Wake): Slot {
    const slot = new Slot(call, deadline, wake, this);
    this.slots.set(slot.callId, slot);
    return slot;
  }

  remove(slot: Slot): void {
    if (this.slots.delete(slot.callId) && slot.isQueued) this.queued -= 1;
  }

  /** Keeps the registration of a call that has given up, whose entry waits for the next call. */
  keep(slot: Slot): Slot {
    this.slots.set(slot.callId, slot);
    if (slot.isQueued) this.queued += 1;
    return slot;
  }

  get hasQueued(): boolean {
    return this.queued > 0;
  }

  /** Whether a stream reports promotions, or will. */
  get hasStream(): boolean {
    return this.stream.is === 'wanted' || this.stream.is === 'open';
  }

  /** The stream that the loop has to open, if any. */
  get wanted(): { since: bigint | undefined } | undefined {
    if (this.queued === 0) return undefined;
    if (this.stream.is === 'wanted') return { since: this.stream.since };
    return this.stream.is === 'absent' ? { since: undefined } : undefined;
  }

  disableStream(): void {
    this.stream = { is: 'absent' };
  }

  /** The stream reports from now on. Waiters that it may have missed something for send another attempt. */
  streamIsOpen(since: bigint | undefined): void {
    const before = this.stream;
    this.stream = { is: 'open', since, opened: this.clock.now() };
    const isSeamless = before.is === 'wanted' && before.since !== undefined;
    if (!isSeamless) this.allRecheck();
  }

  streamIsGone(): void {
    this.stream = { is: 'absent' };
    this.allRecheck();
  }

  /** Closes the stream if no call is in a queue. Returns whether it did. */
  closeStream(): boolean {
    if (this.queued === 0) this.stream = { is: 'closed' };
    return this.queued === 0;
  }

  /** Tells a call that it was promoted. One that is not registered has accepted it already, or gives it back. */
  promoted(promotion: Promotion): void {
    const slot = this.slots.get(promotion.callId());
    if (!slot) return;
    slot.promotion = promotion;
    slot.wake.notify();
  }

  recheck(callId: string): void {
    this.slots.get(callId)?.recheck();
  }

  private allRecheck(): void {
    for (const slot of this.slots.values()) if (slot.isQueued) slot.recheck();
  }

  joined(slot: Slot, sent: number, at: bigint | undefined): void {
    slot.confirm(sent);
    const isNew = !slot.isQueued;
    slot.isQueued = true;
    if (isNew) {
      this.queued += 1;
      if (this.stream.is === 'closed') this.stream = { is: 'wanted', since: at };
      // The stream reports from the oplog time of the first reply on. This attempt may have joined earlier, although
      // its reply came later.
      if (this.mayHaveMissed(sent, at)) slot.recheck();
      this.joinedWake.notify();
    }
    this.lookAgain(slot.heartbeatAt);
  }

  private mayHaveMissed(sent: number, at: bigint | undefined): boolean {
    const { stream } = this;
    const isEarlier = (since: bigint): boolean => at === undefined || at < since;
    if (stream.is === 'wanted') return stream.since !== undefined && isEarlier(stream.since);
    if (stream.is !== 'open') return false;
    return sent < stream.opened && (stream.since === undefined || isEarlier(stream.since));
  }

  /** The slots whose heartbeat is due or nearly due: so all entries come to share one command. */
  private due(): Slot[] {
    const now = this.clock.now();
    const until = now + Constants.heartbeatSlack(this.waiterTtl) * 1e3;
    const slots = [...this.slots.values()];
    const isAnyDue = slots.some((slot) => slot.heartbeatAt <= now);
    const due = isAnyDue ? slots.filter((slot) => slot.heartbeatAt <= until) : [];
    // Whatever happens to this heartbeat, the next one is sent in time.
    const next = now + Constants.heartbeatEvery(this.waiterTtl) * 1e3;
    for (const slot of due) slot.heartbeatAt = next;
    for (const slot of slots) this.alarm.by(slot.heartbeatAt);
    return due;
  }

  /** Makes sure that a heartbeat that is due at this moment is sent then. */
  lookAgain(at: number): void {
    this.alarm.by(at);
  }

  abandonAll(): void {
    for (const slot of this.slots.values()) slot.call.abandon();
  }

  stop(): void {
    this.alarm.stop();
  }
}
