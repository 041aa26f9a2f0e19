// `lock` and `unlock` as Redis users have them: `SET key value NX PX ttl`, and the script that deletes the key where it
// still has the value. Such a lock is not renewed. A second `lock` with the same value is refused as in Redis, but begins
// the ttl anew.

/** Both functions, for leases of this manager. */
export function redisLike(leases) {
  return {
    /** Whether the key was free, and has the value now. */
    async lock(key, value, ttl) {
      const lease = await leases.tryAcquire(key, { value, ttl, renew: false });
      // `NX` refuses also who has it.
      return lease !== undefined && !lease.isGrantedAgain;
    },
    /** Whether the key had this value, and is free now, whichever process has locked it. */
    async unlock(key, value) {
      return (await leases.release(key, value)) === 'released';
    },
  };
}
