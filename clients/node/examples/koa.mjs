// A middleware for one route: of all processes, one handles a key at a time. The others answer 423, with the time after
// which to try again.

import { LeaseBusyError } from 'mongo-lease';

/** Handles a request only while this process has the lease of its key. */
export function oneAtATime(leases, keyOf) {
  return async (context, next) => {
    let lease;
    try {
      lease = await leases.acquire(`route:${keyOf(context)}`, { wait: 0 });
    } catch (error) {
      if (!(error instanceof LeaseBusyError)) throw error;
      context.status = 423;
      context.set('retry-after', String(Math.ceil((error.retryAfter ?? 1000) / 1000)));
      return;
    }
    try {
      context.state.lease = lease;
      await next();
      // What was done without the lease is not told as done.
      lease.check();
    } finally {
      await lease.release();
    }
  };
}
