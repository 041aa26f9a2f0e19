// Leases on MongoDB: locks that expire, tell their holder when they are lost, and fence its writes.

export { type CampaignOptions, Leadership, type StopReason } from './campaign';
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
export type { LeaseEvent } from './events';
export { type Fenced, type FencedOptions, fencedUpdate } from './fence';
export type { LeaseHolder, LeaseInfo } from './info';
export { Job, type JobOptions, type JobRun, type StartOptions } from './job';
export { Lease, type LeaseKey } from './lease';
export { LeaseManager, Semaphore } from './manager';
export { MemoryStore, inMemory } from './memory';
export type { AcquireOptions, ListOptions, ManagerOptions } from './options';
export type { CloseReport, Released } from './outcomes';
export { type AcquireAllOptions, LeaseSet } from './several';
