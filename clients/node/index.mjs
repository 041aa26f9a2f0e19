// The package for `import`. It is the same code as for `require`, so that a process has one of it.
import leases from './dist/index.js';

export const {
  CommitUnknownError,
  DamagedError,
  DatabaseError,
  InvalidOptionError,
  Job,
  Leadership,
  Lease,
  LeaseBusyError,
  LeaseError,
  LeaseLostError,
  LeaseManager,
  LeaseSet,
  MemoryStore,
  NotReadyError,
  QueueFullError,
  Semaphore,
  ShutDownError,
  TransactionTooLongError,
  UnknownOutcomeError,
  UnsupportedError,
  WaitTimeoutError,
  fencedUpdate,
  inMemory,
} = leases;
export default leases;
