// The lock that many services have by Mongoose, with the same two functions: what `acquire` returns can be released by any
// process. It is prolonged for as long as its process lives, and ends with the ttl where that dies.

import { LeaseManager } from 'mongo-lease';

/** The locks in the database of a connected Mongoose connection. */
export function locks(connection, options = {}) {
  const leases = new LeaseManager(connection, { ensureIndexes: true, ...options });
  return {
    /** The value of the lock, or null where somebody else has it. */
    async acquire(name, ttl) {
      const lease = await leases.tryAcquire(name, { ttl });
      return lease?.value ?? null;
    },
    /** Whether the lock was held with this value, and is released. */
    async release(name, value) {
      return (await leases.release(name, value)) === 'released';
    },
    close: () => leases.close(),
  };
}
