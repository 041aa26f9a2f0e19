// Leases as their documents show them.

/** One holder of a lease that several hold. */
export interface LeaseHolder {
  /** The holder, as `label@host:pid`. */
  owner: string | null;
  /** The holder's value. Anybody who knows it can release its permits: so logs and JSON do not have it. */
  value: string;
  permits: number;
  limit: number;
  /** When it was admitted, by the server's clock. */
  acquiredAt: Date | null;
  /** When its permits become free unless it renews them, by the server's clock. */
  expiresAt: Date | null;
  /** The time from the server's reply to that expiry, in milliseconds. */
  remaining: number;
  metadata: Record<string, unknown>;
  /** Whether this very process is the holder. */
  heldHere: boolean;
}

/** A lease as its document shows it: a snapshot. */
export interface LeaseInfo {
  name: string;
  /** `damaged`: its expiry is no date. It counts as held until a person repairs the document. */
  state: 'held' | 'free' | 'damaged';
  /** The holder, as `label@host:pid`. Null if another program holds the lease. */
  owner: string | null;
  /** The holder's value. Anybody who knows it can release the lease: so logs and JSON do not have it. */
  value: string | null;
  /** When it was granted, by the server's clock. */
  acquiredAt: Date | null;
  /** When it runs out unless it is renewed, by the server's clock. */
  expiresAt: Date | null;
  /** The time from the server's reply to the expiry, in milliseconds. */
  remaining: number | null;
  /** The metadata that the holder attached. */
  metadata: Record<string, unknown>;
  /** How many permits are in use; null if that is unknown. */
  inUse: number | null;
  /** The most permits that may be in use; null if that is unknown. */
  limit: number | null;
  /** How many entries the queue has. */
  waiting: number;
  /** Whether this very process holds the lease. */
  heldHere: boolean;
  /** Whether several hold the lease at once. */
  shared: boolean;
  /** The holders of a lease that several hold. Empty in errors. */
  holders: LeaseHolder[];
  /** All that in one line, for people. */
  text: string;
}

/** @internal The lease in a document of the core. */
export function toInfo(document: object): LeaseInfo {
  const info = document as LeaseInfo;
  for (const each of [info, ...info.holders]) {
    Object.defineProperty(each, 'value', { value: each.value, enumerable: false });
  }
  return info;
}
