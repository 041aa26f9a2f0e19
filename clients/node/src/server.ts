// A server, through the caller's `Db`.

import {
  BSON,
  type ClientSession,
  type Db,
  type DbOptions,
  type Document,
  Long,
  MongoServerSelectionError,
  Timestamp,
} from 'mongodb';
import { type Clock, SystemClock } from './clock';
import { type Command, Constants, Event, type Manager, type Reply } from './core';
import type { AnyDb, MongooseConnection } from './driver';
import { invalidOption } from './errors';
import { type Backend, EXACT, type News, type NewsStream, bytesOf, exact } from './runner';
import { withMongoose } from './session';
import { Documents } from './shape';

// How long the server waits for an event before it sends an empty answer.
const AWAIT_MS = Constants.streamAwait();

// A read must not go to a secondary, whatever the client's read preference is.
const PRIMARY = { readPreference: 'primary' } as const;
const IGNORED = { ignoreUndefined: true } as const;
/** Everything that a client's options could change for a command of ours. The concerns are in its document. */
const STATED = { ...EXACT, ...PRIMARY } as const;

type TopologyDescription = ConstructorParameters<typeof MongoServerSelectionError>[1];

/** What the driver knows of the servers. Its types do not show it. */
interface Topology {
  isConnected(): boolean;
  description: TopologyDescription;
}

/** The reply to a write that lacks the confirmation of a majority. Newer drivers throw it. */
function unconfirmed(error: unknown): Document {
  const { name, result } = error as { name?: string; result?: Document };
  if (name === 'MongoWriteConcernError' && result) return result;
  throw error;
}

/** A server. Commands go out by `Db.command`, which the driver sends once: it retries no command of this kind. */
export class ServerBackend implements Backend {
  readonly clock: Clock = new SystemClock();

  private readonly documents = new Documents();
  private readonly db: Db;
  private readonly mongoose: MongooseConnection | undefined;

  constructor(of: AnyDb | MongooseConnection) {
    this.mongoose = isMongoose(of) ? of : undefined;
    const db = this.mongoose ? this.mongoose.db : of;
    if (!isDb(db)) throw invalidOption('db', NO_DB);
    // Where drivers still have a time limit of the client's, it would replace the server's, and cut writes off.
    const untimed = { timeoutMS: undefined } as unknown as DbOptions;
    this.db = db.client.db(db.databaseName, untimed);
  }

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
    const document = this.documents.of(command, collection, sent);
    document.maxTimeMS = Long.fromNumber(maxTimeMs);
    const { topology } = this;
    // The driver closes a client whose first connection has failed, and answers from then on that it is closed. Here it is
    // connected again, unless its user has closed it: then there is no topology.
    if (topology && !topology.isConnected()) await this.db.client.connect();
    const sending = this.db.command(document, STATED);
    return command.decode(bytesOf(await sending.catch(unconfirmed)), sent);
  }

  private get topology(): Topology | undefined {
    return (this.db.client as unknown as { topology?: Topology }).topology;
  }

  whySilent(): unknown {
    const { topology } = this;
    const error = topology?.description.error;
    if (!topology || !error || topology.isConnected()) return undefined;
    return new MongoServerSelectionError(error.message, topology.description);
  }

  checkTransactions(): void {
    // Whether the server has an oplog is known to the manager.
  }

  startSession(): ClientSession {
    return this.db.client.startSession();
  }

  async runIn(session: ClientSession, work: () => Promise<void>): Promise<void> {
    await (this.mongoose ? withMongoose(this.mongoose, session, work) : work());
  }

  async kill(command: Uint8Array): Promise<void> {
    await this.db.command(exact(command), STATED);
  }

  async sendIn(session: ClientSession, command: Uint8Array): Promise<Uint8Array> {
    // An error of this command is the caller's, as the driver makes it.
    return bytesOf(await this.db.command(exact(command), { ...PRIMARY, session }));
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
      const options = { ...STATED, session };
      const reply = await this.db.command(command, options);
      const { db } = this;
      return new ServerStream({ db, collection, options, cursor: reply.cursor as Cursor });
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

/** What each read of a stream needs. */
interface Reading {
  db: Db;
  collection: string;
  options: typeof STATED & { session: ClientSession };
  cursor: Cursor;
}

/**
 * A change stream as plain commands. The driver's own resumes by itself after errors, and tells neither when it is open
 * nor when it has missed something; here a broken stream is reported, and every waiter sends an attempt.
 */
class ServerStream implements NewsStream {
  private first: Document[] | undefined;
  private readonly closing = new AbortController();

  constructor(private readonly of: Reading) {
    this.first = of.cursor.firstBatch;
  }

  async next(): Promise<News[]> {
    const { db, collection, options, cursor } = this.of;
    let events = this.first ?? [];
    this.first = undefined;
    if (events.length === 0) {
      const command = { getMore: cursor.id, collection, maxTimeMS: awaitMs(db) };
      const reply = await db.command(command, { ...options, signal: this.closing.signal });
      const next = reply.cursor as Cursor;
      if (next.id.isZero()) throw new Error('the server closed the change stream');
      events = next.nextBatch ?? [];
    }
    return events.map((event) => {
      // The token for resuming is the half of an event, and nothing reads it.
      const told = Event.decode(BSON.serialize({ ...event, _id: undefined }, IGNORED));
      return { promotions: told.promotions(), recheck: told.recheck() };
    });
  }

  async close(): Promise<void> {
    const { db, collection, options, cursor } = this.of;
    // A server notices only at the end of a read that its cursor is killed. A read that is aborted closes its
    // connection, and no write is lost.
    this.closing.abort();
    try {
      await db.command({ killCursors: collection, cursors: [cursor.id] }, options);
    } catch {
      // The cursor has gone with its connection or its server.
    } finally {
      await options.session.endSession();
    }
  }
}

/** The client may close connections that are silent for long: the server answers before that. */
function awaitMs(db: Db): number {
  const { socketTimeoutMS } = db.client.options;
  return socketTimeoutMS ? Math.min(AWAIT_MS, Math.ceil(socketTimeoutMS / 2)) : AWAIT_MS;
}

const NO_DB =
  'must be a `Db` of the package `mongodb`, or a connection of Mongoose once it is connected: after ' +
  '`await mongoose.connect(…)`, or `await connection.asPromise()`';

function isMongoose(of: unknown): of is MongooseConnection {
  const { startSession, transaction } = (of ?? {}) as Partial<MongooseConnection>;
  return typeof startSession === 'function' && typeof transaction === 'function';
}

function isDb(db: unknown): db is Db {
  const { command, client, databaseName } = (db ?? {}) as Partial<Db>;
  return typeof command === 'function' && typeof databaseName === 'string' && Boolean(client);
}

/** A token as the server's type. */
export function timestamp(token: bigint): Timestamp {
  return new Timestamp(token);
}
