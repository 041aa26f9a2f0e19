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
  | 'MONGODB';

/** Why a lease was lost. */
export type LostReason =
  | 'notRenewed'
  | 'outOfReach'
  | 'takenOver'
  | 'removed'
  | 'resumed'
  | 'endedAsAsked'
  | 'released';

/** An error of a lease operation. */
export class LeaseError extends Error {
  /** The kind of the error. */
  readonly code: ErrorCode;
  /** Whether the same call may succeed later, although nobody changes the program, the user or the collection. */
  readonly isTransient: boolean;

  /** @internal */
  constructor(fault: Fault, cause?: unknown) {
    super(fault.message(), cause === undefined ? undefined : { cause });
    this.name = new.target.name;
    this.code = fault.code() as ErrorCode;
    this.isTransient = fault.isTransient();
  }
}

/** Another holder has the lease, and the call was not to wait; or the lease was not granted in time. */
export class LeaseBusyError extends LeaseError {
  /** The lease as the server last described it. */
  readonly held: LeaseInfo | undefined;
  /** How long the holder has the lease at the most, unless it renews it, in milliseconds. */
  readonly retryAfter: number | undefined;

  /** @internal */
  constructor(fault: Fault, cause?: unknown) {
    super(fault, cause);
    const info = fault.info();
    this.held = info && toInfo(BSON.deserialize(info));
    this.retryAfter = fault.retryAfter();
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

  /** @internal */
  constructor(fault: Fault, cause?: unknown) {
    super(fault, cause);
    this.reason = fault.reason() as LostReason;
  }
}

/** An option or a name has an invalid value. Nothing was sent. */
export class InvalidOptionError extends LeaseError {
  /** The option, by the library's name: `max_clock_skew`. */
  readonly option: string;

  /** @internal */
  constructor(fault: Fault, cause?: unknown) {
    super(fault, cause);
    this.option = fault.option() ?? 'name';
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

/** The database refused, or could not be reached. Nothing was written. */
export class DatabaseError extends LeaseError {}

const CLASSES: Record<ErrorCode, new (fault: Fault, cause?: unknown) => LeaseError> = {
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
  MONGODB: DatabaseError,
};

/** @internal The error for what the core tells. */
export function toError(fault: Fault, cause?: unknown): LeaseError {
  const of = CLASSES[fault.code() as ErrorCode] ?? LeaseError;
  return new of(fault, cause);
}

/** @internal One attempt at a command has failed. */
export class AttemptError extends Error {
  constructor(readonly failure: Failure, readonly source?: unknown) {
    super('an attempt has failed');
  }

  toError(): LeaseError {
    return toError(this.failure.fault(), this.source);
  }
}
