// Sends commands: to a server through the caller's `Db`, or to a store in memory. Nothing above knows which.

import { randomBytes } from 'node:crypto';
import { BSON, type ClientSession, type Document } from 'mongodb';
import type { Clock } from './clock';
import { Command, Failure, type Manager, type Promotion, type Reply } from './core';
import { AttemptError } from './errors';

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
  /** Sends one command, of which the server takes so many milliseconds at the most. */
  send(command: Command, collection: string, sent: number, maxTimeMs: number): Promise<Reply>;
  /** Sends the document of a guard within the caller's transaction, and returns the reply's bytes. */
  sendIn(session: ClientSession, command: Uint8Array): Promise<Uint8Array>;
  watch(manager: Manager, collection: string, since: bigint | undefined): Promise<NewsStream>;
}

// All numbers keep their types: what is sent is what the core has made, and what it reads is what the server sent.
export const EXACT = {
  promoteValues: false,
  promoteLongs: false,
  promoteBuffers: false,
  bsonRegExp: true,
  raw: false,
} as const;

/** A document that the driver sends as the very bytes that the core has made. */
export function exact(bytes: Uint8Array): Document {
  return BSON.deserialize(bytes, EXACT);
}

/** The bytes of a reply that was read exactly. */
export function bytesOf(document: Document): Uint8Array {
  return BSON.serialize(document, { ignoreUndefined: true });
}

/** Fresh randomness of the operating system, as hexadecimal digits. */
export function randomHex(bytes: number): string {
  return randomBytes(bytes).toString('hex');
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
  // Replies are read exactly, and so are errors: the code is a number of BSON, and no user expects that.
  const coded = error as { code?: unknown } | undefined;
  if (coded?.code instanceof BSON.Int32) coded.code = coded.code.valueOf();
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
  return new AttemptError(
    Failure.driver(name ?? '', number, codeName ?? '', text, labels),
    error,
  );
}

function hasCode(error: unknown): boolean {
  return (error as { code?: unknown } | undefined)?.code !== undefined;
}

/** Sends the commands of one manager. */
export class Runner {
  /** The commands that are under way, and what waits for them. */
  private readonly work = new Set<Promise<unknown>>();
  private isClosed = false;

  constructor(readonly backend: Backend, readonly collection: string) {}

  get clock(): Clock {
    return this.backend.clock;
  }

  /**
   * Sends one command, which is used up, and waits for its answer however long the database takes. Throws an
   * `AttemptError`.
   */
  async attempt(command: Command, timeoutMs: number): Promise<Reply> {
    if (this.isClosed) throw new AttemptError(Failure.shutDown());
    const sent = this.clock.sent();
    const sending = this.backend.send(command, this.collection, sent, maxTime(timeoutMs));
    try {
      return await this.track(sending);
    } catch (error) {
      throw attemptError(error);
    } finally {
      // The collector of JavaScript does not see how large it is.
      command.free();
    }
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

  /** From now on nothing is sent. */
  close(): void {
    this.isClosed = true;
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

// The server gives up a little earlier than we do: its answer distinguishes a document that a transaction blocks from a
// server that does not answer.
function maxTime(timeoutMs: number): number {
  const left = timeoutMs - Math.min(timeoutMs / 8, 250);
  return Math.max(1, Math.min(Math.ceil(left), 2 ** 31 - 1));
}
