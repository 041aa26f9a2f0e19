// A coordinator for node-cron 4: of all processes with the same task, one runs it each time.
//
//     cron.setRunCoordinator(coordinator(leases));
//     cron.schedule('0 3 * * *', nightlyBackup, { name: 'nightly-backup', distributed: true });
//
// Each time has a name of its own, which stays taken for longer than the clocks of the processes differ.

/** Lets the first process that asks for a time of a task run it. */
export function coordinator(leases, { clocksDifferBy = 60_000 } = {}) {
  const running = new Map();
  return {
    async shouldRun(key) {
      const lease = await leases.tryAcquire(`cron:${key}`, { holdAtLeast: clocksDifferBy });
      if (lease) running.set(key, lease);
      return lease !== undefined;
    },
    async onComplete(key) {
      const lease = running.get(key);
      running.delete(key);
      await lease?.release();
    },
  };
}
