// A session whose transaction only this package ends.

import type { ClientSession } from 'mongodb';
import { Commit } from './core';
import type { MongooseConnection } from './driver';
import { invalidOption } from './errors';
import { bytesOf } from './runner';

const ENDED_BY_US =
  '`transaction` ends its transaction itself: return from the callback to commit it, and throw an error to abort it';

/** A transaction that has been started in a session of its own, and whose callback cannot end it. */
export class OwnSession {
  private isEnded = false;
  private isCommitSent = false;
  private readonly commitIt: () => Promise<unknown>;
  private readonly abortIt: () => Promise<unknown>;
  private readonly endIt: () => Promise<void>;
  private readonly ending: Promise<unknown>[] = [];

  constructor(readonly session: ClientSession) {
    // Everything that a client's options could change for it.
    session.startTransaction({
      readConcern: { level: 'local' },
      writeConcern: { w: 'majority', journal: true },
      readPreference: 'primary',
      maxCommitTimeMS: Commit.timeout(),
    });
    // A driver that has a time limit of the client's would apply it to the commit.
    (session as { timeoutMS?: number }).timeoutMS = undefined;
    this.commitIt = session.commitTransaction.bind(session);
    this.abortIt = session.abortTransaction.bind(session);
    this.endIt = session.endSession.bind(session);
    const refuse = (): Promise<never> => Promise.reject(invalidOption('session', ENDED_BY_US));
    Object.assign(session, {
      commitTransaction: refuse,
      abortTransaction: refuse,
      // The driver calls it too, when the client is closed, and Mongoose at the end.
      endSession: async () => {
        this.isEnded = true;
        if (!this.isCommitSent) void this.abort();
        await this.end();
      },
      // After a transaction the driver sends the next operation without one. An operation that the callback has not
      // waited for would be written outside of the lease: so it goes on to name the transaction, and is refused.
      inTransaction: () => true,
    });
  }

  /** Throws an error if the callback has ended the session: its transaction is aborted then. */
  check(): void {
    if (this.isEnded) throw invalidOption('session', ENDED_BY_US);
  }

  /** Sends a commit. A second call repeats it. */
  commit(): Promise<unknown> {
    this.isCommitSent = true;
    return this.noted(this.commitIt());
  }

  /** Aborts the transaction, if the server has it still. */
  abort(): Promise<unknown> {
    // The driver refuses a second one.
    return this.noted(this.abortIt().catch(() => undefined));
  }

  /** Aborts it on the server by the command for its id, whatever operation is under way in it; or else by the driver. */
  kill(kill: (id: Uint8Array) => Promise<unknown>): Promise<unknown> {
    const { id } = this.session;
    if (!id) return this.abort();
    // With a strict stable API the server refuses the command.
    return this.noted(kill(bytesOf(id)).catch(() => this.abort()));
  }

  /** Gives the session back, once nothing of it is under way: another one gets its number on the server. */
  async end(): Promise<void> {
    await Promise.allSettled(this.ending);
    await this.endIt();
  }

  private noted<T>(work: Promise<T>): Promise<T> {
    this.ending.push(work);
    return work;
  }
}

/**
 * Runs the work as Mongoose's own `transaction` does: documents that the work has saved are reset if it fails, and
 * operations find the session where Mongoose is told so (`transactionAsyncLocalStorage`). The session, and what begins
 * and ends the transaction, are ours.
 */
export async function withMongoose<T>(
  connection: MongooseConnection,
  session: ClientSession,
  work: () => Promise<T>,
): Promise<T> {
  const withTransaction = (run: () => Promise<unknown>): Promise<unknown> => {
    // From here on it is the driver's, which refuses a transaction within one.
    delete (session as Partial<ClientSession>).withTransaction;
    return run();
  };
  Object.assign(session, { withTransaction });
  const ours = Object.create(connection, {
    startSession: { value: () => Promise.resolve(session) },
  }) as MongooseConnection;
  return (await ours.transaction(work)) as T;
}
