// A server, through the caller's `Db`.

import { BSON, type ClientSession, type Db, Long, type Document, Timestamp } from 'mongodb';
import { type Clock, SystemClock } from './clock';
import { type Command, Event, type Manager, type Reply } from './core';
import { type Backend, EXACT, type News, type NewsStream, bytesOf, exact } from './runner';

// How long the server waits for an event before it sends an empty answer.
const AWAIT_MS = 10_000;

/** The reply to a write that lacks the confirmation of a majority. Newer drivers throw it. */
function unconfirmed(error: unknown): Document {
  const { name, result } = error as { name?: string; result?: Document };
  if (name === 'MongoWriteConcernError' && result) return result;
  throw error;
}

/** A server. Commands go out by `Db.command`, which the driver sends once: it retries no command of this kind. */
export class ServerBackend implements Backend {
  readonly clock: Clock = new SystemClock();

  constructor(private readonly db: Db) {}

  get name(): string {
    return this.db.databaseName;
  }

  get connections(): number {
    // Zero stands for no limit.
    return this.db.client.options.maxPoolSize || Infinity;
  }

  async send(
    command: Command,
    collection: string,
    sent: number,
    maxTimeMs: number,
  ): Promise<Reply> {
    const document = exact(command.build(collection, sent));
    document.maxTimeMS = Long.fromNumber(maxTimeMs);
    // A read must not go to a secondary, whatever the client's read preference is.
    const sending = this.db.command(document, { ...EXACT, readPreference: 'primary' });
    return command.decode(bytesOf(await sending.catch(unconfirmed)), sent);
  }

  async sendIn(session: ClientSession, command: Uint8Array): Promise<Uint8Array> {
    // An error of this command is the caller's, as the driver makes it.
    return bytesOf(await this.db.command(exact(command), { session }));
  }

  async watch(
    manager: Manager,
    collection: string,
    since: bigint | undefined,
  ): Promise<NewsStream> {
    const session = this.db.client.startSession({ causalConsistency: false });
    try {
      const stages = (exact(Event.pipeline(manager)).list ?? []) as Document[];
      const start = since === undefined ? {} : { startAtOperationTime: timestamp(since) };
      const command = {
        aggregate: collection,
        pipeline: [{ $changeStream: start }, ...stages],
        cursor: {},
        readConcern: { level: 'majority' },
      };
      const options = { ...EXACT, readPreference: 'primary', session } as const;
      const reply = await this.db.command(command, options);
      return new ServerStream(this.db, collection, session, reply.cursor as Cursor);
    } catch (error) {
      await session.endSession();
      throw error;
    }
  }
}

interface Cursor {
  id: Long;
  firstBatch?: Document[];
  nextBatch?: Document[];
}

/**
 * A change stream as plain commands. The driver's own resumes by itself after errors, and tells neither when it is open
 * nor when it has missed something; here a broken stream is reported, and every waiter sends an attempt.
 */
class ServerStream implements NewsStream {
  private first: Document[] | undefined;
  private readonly closing = new AbortController();

  constructor(
    private readonly db: Db,
    private readonly collection: string,
    private readonly session: ClientSession,
    private readonly cursor: Cursor,
  ) {
    this.first = cursor.firstBatch;
  }

  async next(): Promise<News[]> {
    let events = this.first ?? [];
    this.first = undefined;
    if (events.length === 0) {
      const { id } = this.cursor;
      const command = {
        getMore: id,
        collection: this.collection,
        maxTimeMS: AWAIT_MS,
      };
      const { session, closing } = this;
      const { signal } = closing;
      const options = { ...EXACT, readPreference: 'primary', session, signal } as const;
      const reply = await this.db.command(command, options);
      const cursor = reply.cursor as Cursor;
      if (cursor.id.isZero()) throw new Error('the server closed the change stream');
      events = cursor.nextBatch ?? [];
    }
    return events.map((event) => {
      const told = Event.decode(BSON.serialize(event));
      return { promotions: told.promotions(), recheck: told.recheck() };
    });
  }

  async close(): Promise<void> {
    // A server notices only at the end of a read that its cursor is killed. A read that is aborted closes its
    // connection, and no write is lost.
    this.closing.abort();
    const command = { killCursors: this.collection, cursors: [this.cursor.id] };
    try {
      await this.db.command(command, { session: this.session });
    } catch {
      // The cursor has gone with its connection or its server.
    } finally {
      await this.session.endSession();
    }
  }
}

/** A token as the server's type. */
export function timestamp(token: bigint): Timestamp {
  return new Timestamp(token);
}
