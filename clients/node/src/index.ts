// Leases on MongoDB: locks that expire, tell their holder when they are lost, and fence its writes.

export type { AnyCollection, AnyDb, AnySession, MongooseConnection } from './driver';
export {
  CommitUnknownError,
  DamagedError,
  DatabaseError,
  type ErrorCode,
  type ErrorFields,
  InvalidOptionError,
  LeaseBusyError,
  LeaseError,
  LeaseLostError,
  type LostReason,
  NotReadyError,
  QueueFullError,
  ShutDownError,
  TransactionTooLongError,
  UnknownOutcomeError,
  UnsupportedError,
  WaitTimeoutError,
} from './errors';
export { type Fenced, type FencedOptions, fencedUpdate } from './fence';
export type { LeaseHolder, LeaseInfo } from './info';
export { Lease } from './lease';
export { LeaseManager, Semaphore } from './manager';
export { MemoryStore, inMemory } from './memory';
export type { AcquireOptions, ListOptions, ManagerOptions } from './options';
export type { CloseReport, Released } from './outcomes';
