// The package for `import`. It is the same code as for `require`, so that a process has one of it.
import leases from './dist/index.js';

export const {
  DamagedError,
  DatabaseError,
  InvalidOptionError,
  Lease,
  LeaseBusyError,
  LeaseError,
  LeaseLostError,
  LeaseManager,
  MemoryStore,
  NotReadyError,
  QueueFullError,
  Semaphore,
  ShutDownError,
  UnknownOutcomeError,
  UnsupportedError,
  WaitTimeoutError,
  fencedUpdate,
  inMemory,
} = leases;
export default leases;
