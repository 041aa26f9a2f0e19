// Sends commands: to a server through the caller's `Db`, or to a store in memory. Nothing above knows which.

import { randomUUID } from 'node:crypto';
import { BSON, type ClientSession, type Document } from 'mongodb';
import type { Clock } from './clock';
import {
  type Command,
  Constants,
  Failure,
  type Lane,
  type Manager,
  Pace,
  type Promotion,
  type Reply,
} from './core';
import { AttemptError } from './errors';
import { Guesses } from './guesses';
import type { AttemptTime, Pending } from './retry';
import { SlotQueue, type Waiting } from './slots';

/** The messages of a stream: promotions, and calls that should send an attempt. */
export interface News {
  promotions: Promotion[];
  recheck: string | undefined;
}

/** A stream of the promotions to one manager's calls. */
export interface NewsStream {
  /** The next news; none where nothing has happened for as long as the server waits for an event. */
  next(): Promise<News[]>;
  close(): Promise<void>;
}

/** Where the commands of one manager go. */
export interface Backend {
  readonly clock: Clock;
  readonly name: string;
  /** How many connections commands can have at once. */
  readonly connections: number;
  /** The driver's error where it finds no server at present. */
  whySilent(): unknown;
  /** Sends one command, of which the server takes so many milliseconds at the most. */
  send(command: Command, collection: string, sent: number, maxTimeMs: number): Promise<Reply>;
  /** Refuses where there are no transactions. */
  checkTransactions(): void;
  startSession(): ClientSession;
  /** Runs the work of a transaction in this session, as Mongoose's own `transaction` does where that is used. */
  runIn(session: ClientSession, work: () => Promise<void>): Promise<void>;
  /** Sends the command that aborts the transaction of a session. */
  kill(command: Uint8Array): Promise<void>;
  /** Sends a command within a transaction, and returns the reply's bytes. */
  sendIn(session: ClientSession, command: Uint8Array): Promise<Uint8Array>;
  watch(manager: Manager, collection: string, since: bigint | undefined): Promise<NewsStream>;
}

// All numbers keep their types: what is sent is what the core has made, and what it reads is what the server sent.
// They are all that there are: a call on a collection inherits those that it does not state.
export const EXACT = {
  promoteValues: false,
  promoteLongs: false,
  promoteBuffers: false,
  useBigInt64: false,
  bsonRegExp: true,
  raw: false,
  fieldsAsRaw: {},
  ignoreUndefined: false,
  serializeFunctions: false,
  enableUtf8Validation: true,
} as const;

/** A document that the driver sends as the very bytes that the core has made. */
export function exact(bytes: Uint8Array): Document {
  return BSON.deserialize(bytes, EXACT);
}

/** The bytes of a reply that was read exactly, without what the driver alone needs. */
export function bytesOf(document: Document): Uint8Array {
  const told = { ...document, $clusterTime: undefined };
  return BSON.serialize(told, { ignoreUndefined: true });
}

/**
 * 122 random bits as 32 hexadecimal digits, which nobody can guess. Node makes them of a state in this process: a machine
 * that is copied while it runs makes them twice.
 */
export function randomHex(): string {
  return randomUUID().replaceAll('-', '');
}

/** The failure of an attempt for an error of the driver. */
export function attemptError(error: unknown): AttemptError {
  if (error instanceof AttemptError) return error;
  if (error instanceof Failure) return new AttemptError(error);
  const { cause } = error as { cause?: unknown };
  // With a `timeoutMS` of the client, the driver wraps what the server said of a time limit.
  if ((error as Error)?.name === 'MongoOperationTimeoutError' && hasCode(cause)) {
    return attemptError(cause);
  }
  // Replies are read exactly, and so are errors: the code is a number of BSON, and no user expects that. The driver may
  // have another copy of `bson` than we.
  const coded = error as { code?: { _bsontype?: string; valueOf(): number } | number } | undefined;
  if (typeof coded?.code === 'object' && coded.code?._bsontype === 'Int32')
    coded.code = coded.code.valueOf();
  const { name, code, codeName, message, errorLabels, errorLabelSet } = error as {
    name?: string;
    code?: unknown;
    codeName?: string;
    message?: string;
    errorLabels?: string[];
    errorLabelSet?: Set<string>;
  };
  const labels = errorLabels ?? [...(errorLabelSet ?? [])];
  const number = typeof code === 'number' ? code : undefined;
  const text = message ?? String(error);
  return new AttemptError(Failure.driver(name ?? '', number, codeName ?? '', text, labels), error);
}

function hasCode(error: unknown): boolean {
  return (error as { code?: unknown } | undefined)?.code !== undefined;
}

/** What else concerns an attempt. */
export interface AttemptOptions {
  /** The one lease that it is about. While a transaction blocks that, its attempts are short, and have few slots. */
  about?: string;
  /** Whether all that it is about is known to be blocked. */
  isBlocked?: boolean;
  /** Gets the outcome in any case, also when the caller has gone. The caller gets what it returns, or throws. */
  heard?: (outcome: Reply | AttemptError) => Reply;
  /** It grants and frees nothing: a close does not wait for it. */
  isLookOnly?: boolean;
}

/** Sends the commands of one manager, within its slots. */
export class Runner {
  /** The commands that wait or are under way, and what waits for them. */
  private readonly work = new Set<Promise<unknown>>();
  /** @internal */
  readonly slots: SlotQueue;
  /** @internal */
  readonly pace = new Pace();
  readonly collection: string;
  readonly guesses: Guesses;

  constructor(
    readonly backend: Backend,
    manager: Manager,
    slots: number,
  ) {
    this.collection = manager.collection();
    this.guesses = new Guesses(manager, backend.clock);
    this.slots = new SlotQueue(slots);
  }

  get clock(): Clock {
    return this.backend.clock;
  }

  /** Starts one attempt: its command, which is used up, is sent once there is a slot for it. */
  start(command: Command, time: AttemptTime, options: AttemptOptions = {}): Attempt {
    const attempt = new Attempt(this, command, time, options);
    if (!options.isLookOnly) void this.track(attempt.answer);
    attempt.begin();
    return attempt;
  }

  /** Notes work that a close waits for. */
  track<T>(work: Promise<T>): Promise<T> {
    this.work.add(work);
    const done = (): void => void this.work.delete(work);
    work.then(done, done);
    return work;
  }

  /** How much is under way. */
  get underWay(): number {
    return this.work.size;
  }

  /** Waits until nothing is under way, or until this moment. */
  async idle(deadline: number): Promise<void> {
    while (this.work.size > 0 && this.clock.now() < deadline) {
      const all = Promise.allSettled([...this.work]);
      await before(this.clock, deadline, all);
    }
  }

  /** From now on no acquire is sent. Commands that keep or free a lease still are. */
  closeAcquires(): void {
    this.slots.closeAcquires();
  }

  /** From now on nothing is sent. */
  close(): void {
    this.slots.closeAll();
  }
}

/** One attempt: it waits for a slot, and has it until the database answers, however long that takes. */
export class Attempt implements Pending, Waiting {
  hasLeft = false;
  sentAt: number | undefined;
  readonly answer: Promise<Reply>;
  private resolve!: (reply: Reply) => void;
  private reject!: (error: unknown) => void;
  private readonly lane: Lane;
  private readonly isBlocked: boolean;

  constructor(
    private readonly runner: Runner,
    private readonly command: Command,
    private readonly time: AttemptTime,
    private readonly options: AttemptOptions,
  ) {
    const { about } = options;
    this.isBlocked = options.isBlocked ?? (about !== undefined && runner.guesses.isBlocked(about));
    this.lane = command.lane(this.isBlocked);
    this.answer = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
  }

  /** @internal */
  begin(): void {
    const { slots } = this.runner;
    if (slots.take(this.lane)) void this.carryOut();
    else slots.enter(this.lane, this);
  }

  /** It has waited, and the slot is there. Returns whether it uses that. */
  go(): boolean {
    const { clock, pace } = this.runner;
    const left = (this.time.deadline - clock.rough()) / 1e3;
    if (pace.isTooLate(Math.max(0, left), this.time.timeoutMs)) {
      this.end(new AttemptError(Failure.notSent()));
      return false;
    }
    void this.carryOut();
    return true;
  }

  refuse(): void {
    this.end(new AttemptError(Failure.shutDown()));
  }

  withdraw(): void {
    if (this.hasLeft || this.sentAt !== undefined) return;
    this.hasLeft = true;
    this.end(new AttemptError(Failure.notSent()));
  }

  private async carryOut(): Promise<void> {
    const { runner, command, lane } = this;
    const { backend, clock, collection, slots } = runner;
    const sent = clock.sent();
    const sentAt = clock.rough();
    this.sentAt = sentAt;
    let outcome: Reply | AttemptError;
    try {
      outcome = await backend.send(command, collection, sent, this.maxTime(sentAt));
    } catch (error) {
      outcome = attemptError(error);
    }
    this.note(outcome, sentAt);
    this.end(outcome);
    slots.giveBack(lane);
  }

  private maxTime(sentAt: number): number {
    const { time, isBlocked, options, runner } = this;
    const left = Math.min(time.timeoutMs, (time.deadline - sentAt) / 1e3);
    const mustBeShort = (isBlocked && options.about !== undefined) || runner.slots.areFew;
    const bound = mustBeShort ? runner.pace.bound(isBlocked) : Infinity;
    const most = Math.min(Constants.serverTime(left), bound);
    return Math.max(1, Math.min(Math.ceil(most), 2 ** 31 - 1));
  }

  /** Notes what the outcome says of the database, and of the document. */
  private note(outcome: Reply | AttemptError, sentAt: number): void {
    const { runner, options } = this;
    const { pace, clock, guesses } = runner;
    const { about } = options;
    const now = clock.rough();
    if (!(outcome instanceof AttemptError)) {
      pace.wentThrough(now, sentAt);
      if (about !== undefined && guesses.isBlocked(about) && outcome.hasWritten())
        guesses.noteBlocked(about, false);
      return;
    }
    const { failure } = outcome;
    if (failure.isCutOff()) pace.timedOut(now, sentAt);
    const isShown = failure.isBlocked() && Pace.saysBlocked((now - sentAt) / 1e3);
    if (about !== undefined && isShown) guesses.noteBlocked(about, true);
  }

  private end(outcome: Reply | AttemptError): void {
    // The collector of JavaScript does not see how large it is.
    this.command.free();
    try {
      const { heard } = this.options;
      const told = heard ? heard(outcome) : outcome;
      if (told instanceof AttemptError) throw told;
      this.resolve(told);
    } catch (error) {
      this.reject(error);
    }
  }
}

/** The result of the work, or `undefined` when the moment comes first. The work goes on. */
export async function before<T>(
  clock: Clock,
  deadline: number,
  work: Promise<T>,
): Promise<T | undefined> {
  let cancel = (): void => {};
  const timer = new Promise<undefined>((resolve) => {
    cancel = clock.timer(deadline, () => resolve(undefined));
  });
  try {
    return await Promise.race([work, timer]);
  } finally {
    cancel();
  }
}
