// What users are told: the core's errors as classes, each with a code.

import { BSON } from 'mongodb';
import { Failure, Fault } from './core';
import { LeaseInfo, toInfo } from './info';

/** The kind of an error, as one word that does not change. */
export type ErrorCode =
  | 'BUSY'
  | 'WAIT_TIMEOUT'
  | 'QUEUE_FULL'
  | 'LOST'
  | 'NOT_MIGRATED'
  | 'MISSING_PRIVILEGE'
  | 'DAMAGED'
  | 'INVALID_OPTION'
  | 'INVALID_NAME'
  | 'UNSUPPORTED'
  | 'SHUT_DOWN'
  | 'UNKNOWN'
  | 'COMMIT_UNKNOWN'
  | 'TRANSACTION_TOO_LONG'
  | 'MONGODB';

/** Why a lease was lost. */
export type LostReason =
  'notRenewed' | 'outOfReach' | 'takenOver' | 'removed' | 'resumed' | 'endedAsAsked' | 'released';

/** What an error says. For users' mocks: the package makes its own from what the core tells. */
export interface ErrorFields {
  message?: string;
  code?: ErrorCode;
  isTransient?: boolean;
  /** Of a `LeaseBusyError`. */
  held?: LeaseInfo;
  /** Of a `LeaseBusyError`, in milliseconds. */
  retryAfter?: number;
  /** Of a `LeaseLostError`. Defaults to `outOfReach`. */
  reason?: LostReason;
  /** Of an `InvalidOptionError`. Defaults to `options`. */
  option?: string;
}

// More lines than a call has within this package.
const OWN_LINES = 15;

/** An error of a lease operation. */
export class LeaseError extends Error {
  /** The kind of the error. */
  readonly code: ErrorCode;
  /** Whether the same call may succeed later, although nobody changes the program, the user or the collection. */
  readonly isTransient: boolean;

  /** The code is that of the class, unless the fields say another one. */
  constructor(told: string | ErrorFields = {}, options?: ErrorOptions) {
    const { message = '', code, isTransient } = fieldsOf(told);
    const { stackTraceLimit: limit } = Error;
    // The caller's lines come behind ours. Where nobody may set the limit, it stays as it is.
    Reflect.set(Error, 'stackTraceLimit', limit > 0 ? limit + OWN_LINES : limit);
    super(message, options);
    Reflect.set(Error, 'stackTraceLimit', limit);
    this.name = nameOf(new.target);
    this.code = code ?? codeOf(new.target);
    this.isTransient = isTransient ?? TRANSIENT.includes(this.code);
  }

  /** Its fields with the message, which the JSON of an error lacks. */
  toJSON(): object {
    return { ...this, message: this.message };
  }
}

/** Another holder has the lease, and the call was not to wait; or the lease was not granted in time. */
export class LeaseBusyError extends LeaseError {
  /** The lease as the server last described it. */
  readonly held: LeaseInfo | undefined;
  /** How long the holder has the lease at the most, unless it renews it, in milliseconds. */
  readonly retryAfter: number | undefined;

  constructor(told: string | ErrorFields = {}, options?: ErrorOptions) {
    super(told, options);
    const { held, retryAfter } = fieldsOf(told);
    this.held = held;
    this.retryAfter = retryAfter;
  }
}

/** The lease was not granted within the call's waiting time. */
export class WaitTimeoutError extends LeaseBusyError {}

/** The lease's queue is full. */
export class QueueFullError extends LeaseError {}

/** The lease is not held any more. Its former holder must not act on it from now on. */
export class LeaseLostError extends LeaseError {
  /** Why it was lost. */
  readonly reason: LostReason;

  constructor(told: string | ErrorFields = {}, options?: ErrorOptions) {
    super(told, options);
    this.reason = fieldsOf(told).reason ?? 'outOfReach';
  }
}

/** An option or a name has an invalid value. Nothing was sent. */
export class InvalidOptionError extends LeaseError {
  /** The option or argument, as `maxClockSkew`; `name` where a lease's name is refused. */
  readonly option: string;

  constructor(told: string | ErrorFields = {}, options?: ErrorOptions) {
    super(told, options);
    this.option = fieldsOf(told).option ?? (this.code === 'INVALID_NAME' ? 'name' : 'options');
  }
}

/** The collection lacks a required index, or has documents of another format; or the user lacks a privilege. */
export class NotReadyError extends LeaseError {}

/** The lease document has a form that no holder writes. It counts as held until a person repairs it. */
export class DamagedError extends LeaseError {}

/** The server, the driver or the system lacks a required feature. */
export class UnsupportedError extends LeaseError {}

/** The manager has been closed. */
export class ShutDownError extends LeaseError {}

/** Whether the operation took effect is unknown. If it did, its effect ends with the lease's ttl at the latest. */
export class UnknownOutcomeError extends LeaseError {}

/**
 * Whether a transaction under the lease was committed is unknown: no answer to its commit has told. To repeat the whole
 * transaction may carry it out twice.
 */
export class CommitUnknownError extends LeaseError {}

/**
 * A transaction was open for longer than its lease is valid without a renewal. It was aborted, and to repeat it cannot
 * help.
 */
export class TransactionTooLongError extends LeaseError {}

/** The database refused, or could not be reached. Nothing was written. */
export class DatabaseError extends LeaseError {}

const CLASSES: Record<ErrorCode, typeof LeaseError> = {
  BUSY: LeaseBusyError,
  WAIT_TIMEOUT: WaitTimeoutError,
  QUEUE_FULL: QueueFullError,
  LOST: LeaseLostError,
  NOT_MIGRATED: NotReadyError,
  MISSING_PRIVILEGE: NotReadyError,
  DAMAGED: DamagedError,
  INVALID_OPTION: InvalidOptionError,
  INVALID_NAME: InvalidOptionError,
  UNSUPPORTED: UnsupportedError,
  SHUT_DOWN: ShutDownError,
  UNKNOWN: UnknownOutcomeError,
  COMMIT_UNKNOWN: CommitUnknownError,
  TRANSACTION_TOO_LONG: TransactionTooLongError,
  MONGODB: DatabaseError,
};

// The names of the classes: a bundler gives classes other names, and keeps those of properties.
const NAMED: Record<string, unknown> = {
  LeaseError,
  LeaseBusyError,
  WaitTimeoutError,
  QueueFullError,
  LeaseLostError,
  InvalidOptionError,
  NotReadyError,
  DamagedError,
  UnsupportedError,
  ShutDownError,
  UnknownOutcomeError,
  CommitUnknownError,
  TransactionTooLongError,
  DatabaseError,
};

// Those that pass by themselves, where nothing else is known of them.
const TRANSIENT: ErrorCode[] = ['BUSY', 'WAIT_TIMEOUT', 'QUEUE_FULL', 'UNKNOWN'];

function fieldsOf(told: string | ErrorFields): ErrorFields {
  return typeof told === 'object' ? (told ?? {}) : { message: String(told) };
}

/** The name of a class of ours, or of one that a user has made of it. */
function nameOf(of: typeof LeaseError): string {
  return Object.keys(NAMED).find((name) => NAMED[name] === of) ?? of.name;
}

/** The first code of a class, or of the class that a user has made another one of. */
function codeOf(of: unknown): ErrorCode {
  const codes = Object.keys(CLASSES) as ErrorCode[];
  const isOf = (code: ErrorCode): boolean => CLASSES[code] === of;
  return codes.find(isOf) ?? (of === LeaseError ? 'MONGODB' : codeOf(Object.getPrototypeOf(of)));
}

/**
 * @internal Adds the caller's lines to the stack of an error of ours that was made where the caller is not known: in a
 * timer, or between callbacks of a driver.
 */
export function withCaller(error: unknown): unknown {
  if (!(error instanceof LeaseError)) return error;
  const { stack } = error;
  const { stack: here } = new LeaseError();
  // A program may make something else of a stack than a text.
  if (typeof stack !== 'string' || typeof here !== 'string') return error;
  const lines = here.split('\n').filter((line) => /^\s+at /.test(line) && !stack.includes(line));
  error.stack = [stack, ...lines].join('\n');
  return error;
}

/** @internal An option or argument is refused before the core sees it. */
export function invalidOption(option: string, reason: string): InvalidOptionError {
  return new InvalidOptionError({ message: `${option}: ${reason}`, option });
}

/** @internal The error for what the core tells. */
export function toError(fault: Fault, cause?: unknown): LeaseError {
  const code = fault.code() as ErrorCode;
  const [info, retryAfter, option] = [fault.info(), fault.retryAfter(), fault.option()];
  const reason = fault.reason() as LostReason | undefined;
  const fields: ErrorFields = {
    message: fault.message(),
    code,
    isTransient: fault.isTransient(),
    ...(info && { held: toInfo(BSON.deserialize(info)) }),
    ...(retryAfter !== undefined && { retryAfter }),
    ...(reason !== undefined && { reason }),
    ...(option !== undefined && { option }),
  };
  return new (CLASSES[code] ?? LeaseError)(fields, cause === undefined ? undefined : { cause });
}

/** @internal One attempt at a command has failed. */
export class AttemptError extends Error {
  constructor(
    readonly failure: Failure,
    readonly source?: unknown,
  ) {
    super('an attempt has failed');
  }

  toError(): LeaseError {
    return toError(this.failure.fault(), this.source);
  }
}

/** @internal The error that a caller is told for a failure. */
export function asLeaseError(error: unknown): unknown {
  if (error instanceof AttemptError) return error.toError();
  if (error instanceof Fault) return toError(error);
  return error;
}
