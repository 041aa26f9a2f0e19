// The outcomes that users are told.

/** The outcome of a close. */
export interface CloseReport {
  /** How many leases were released. */
  released: number;
  /** The names of leases whose release was not confirmed in time. They end with their ttl at the latest. */
  leftToExpire: string[];
  /** How many commands were still waiting for the database when the time was over. */
  commandsLeft: number;
}

/** The outcome of a release. */
export type Released =
  /** The lease was held, and is released. */
  | 'released'
  /** The lease was not held any more. Nothing changed. */
  | 'notHeld'
  /** The lease is not held; this release may have ended it: an earlier attempt was not answered. */
  | 'unknown';
