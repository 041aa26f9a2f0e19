// Options, and how they reach the core, which checks them.

import { BSON, type ClientSession, type Document } from 'mongodb';
import { CallSettings, Fault, ManagerSettings } from './core';
import { invalidOption } from './errors';
import { isSignal } from './signals';

const NOT_WELL_FORMED = 'it is no well-formed Unicode';

/** The options of a manager. Times are in milliseconds. */
export interface ManagerOptions {
  /** The collection. Defaults to `locks`. */
  collection?: string;
  /** The label under which holders are shown, as `label@host:pid`. */
  owner?: string;
  /** How long a lease lasts without a renewal, from 100 ms to 366 days. Defaults to 30 s. */
  ttl?: number;
  /** By how much the clocks of the replica set's members may differ. At most an hour. Defaults to 1 s. */
  maxClockSkew?: number;
  /** How long one attempt may take before the next one goes out beside it. Defaults to 5 s, or half the ttl. */
  attemptTimeout?: number;
  /** How long an acquire waits unless it sets its own time. Defaults to 30 s. */
  wait?: number;
  /** How long the first check of the server may take. Defaults to 35 s. */
  buildTimeout?: number;
  /** How long a call waits for its release to be confirmed. Defaults to 10 s. */
  releaseTimeout?: number;
  /** How long a close may take. Defaults to 10 s. */
  shutdownTimeout?: number;
  /** How long the queue entry of a process that has died stays, from 500 ms to 10 minutes. Defaults to 10 s. */
  waiterTtl?: number;
  /** The longest time between two queries of a waiting call. At most a day. Defaults to 15 s. */
  recheckEvery?: number;
  /** Whether a change stream wakes waiting calls. Defaults to true. */
  changeStream?: boolean;
  /** How many entries one lease's queue may have, from 1 to 1,024. */
  maxWaiting?: number;
  /**
   * How many commands may be under way at once, from 1 to 10,000. A quarter of them is kept free for renewals and
   * releases; what else there is waits in this process. Defaults to 40, or to one less than the client's pool has
   * connections.
   */
  maxInFlight?: number;
  /** States that the collection has both indexes: for users who may not list them. */
  assumeIndexes?: boolean;
  /** Creates the collection and its two indexes where they are missing, before the first use. */
  ensureIndexes?: boolean;
}

/** Which leases a listing shows. */
export interface ListOptions {
  /** Names that begin with this. */
  prefix?: string;
  /** Names that match this as a whole: `*` stands for any characters, `?` for one. */
  glob?: string;
  /** Leases of this owner, as `label@host:pid`. */
  heldBy?: string;
  /** Also leases that have expired, if their documents have not been removed yet. */
  withFree?: boolean;
}

/** The options of an acquire call. Times are in milliseconds. */
export interface AcquireOptions {
  /** How long to wait for the lease; zero for one attempt, Infinity for no limit. Defaults to the manager's. */
  wait?: number;
  /** How long the lease lasts without a renewal. Defaults to the manager's. */
  ttl?: number;
  /** Ends the wait. A grant that the call may yet get is given back. */
  signal?: AbortSignal;
  /** Stored in the lease document, for those who inspect it: at most 4 KiB of BSON; 256 bytes beside others. */
  metadata?: Document;
  /** Whether the lease renews itself. Turn it off for functions that are frozen between calls. */
  renew?: boolean;
  /** The longest time for which the lease is held, however often it is renewed. */
  maxHold?: number;
  /**
   * How long the name stays taken at least, counted from the grant, also after an earlier release: for jobs that run in
   * less time than the clocks of their machines differ by. At most 366 days. A process that crashes leaves the name taken
   * for the ttl only. For exclusive leases.
   */
  holdAtLeast?: number;
  /** The label of the holder. Defaults to the manager's. */
  owner?: string;
  /**
   * The lease's value, by which it can be released. Two calls with one name and one value are one holder, in all
   * processes: the second one is granted the lease again (`isGrantedAgain`). Defaults to fresh random bits.
   */
  value?: string;
  /** How many permits of this name may be in use while this lease is held, from 1 to 1,000. */
  limit?: number;
  /** How many permits the lease takes. Defaults to 1. */
  permits?: number;
  /** Shares the lease with all others that share it: the reader of a reader-writer lock. */
  shared?: boolean;
}

/** The options of a permit of a semaphore, which has the limit. */
export type PermitOptions = Omit<AcquireOptions, 'limit' | 'shared'>;

// How arguments are checked here. The core checks the values of those that pass.
const KINDS = {
  string: { told: 'must be a string', fits: (it: unknown) => typeof it === 'string' },
  boolean: { told: 'must be true or false', fits: (it: unknown) => typeof it === 'boolean' },
  function: { told: 'must be a function', fits: (it: unknown) => typeof it === 'function' },
  // NaN is not.
  millis: {
    told: 'must be a number of milliseconds',
    fits: (it: unknown) => typeof it === 'number' && it >= 0,
  },
  count: {
    told: 'must be a whole number',
    fits: (it: unknown) => Number.isInteger(it) && (it as number) >= 0,
  },
  token: { told: 'must be a bigint, as `lease.token` is', fits: isToken },
  document: { told: 'must be a document', fits: isObject },
  signal: { told: 'must be an AbortSignal', fits: isSignal },
  session: { told: 'must be a ClientSession of the driver', fits: isSession },
};

/** @internal What an argument must be. */
export type Kind = keyof typeof KINDS;

/** @internal All options of one call: one that is missing here does not compile. */
export type Options<T> = { [option in keyof Required<T>]: Kind };

const OF_MANAGER: Options<ManagerOptions> = {
  collection: 'string',
  owner: 'string',
  ttl: 'millis',
  maxClockSkew: 'millis',
  attemptTimeout: 'millis',
  wait: 'millis',
  buildTimeout: 'millis',
  releaseTimeout: 'millis',
  shutdownTimeout: 'millis',
  waiterTtl: 'millis',
  recheckEvery: 'millis',
  changeStream: 'boolean',
  maxWaiting: 'count',
  maxInFlight: 'count',
  assumeIndexes: 'boolean',
  ensureIndexes: 'boolean',
};

const OF_LIST: Options<ListOptions> = {
  prefix: 'string',
  glob: 'string',
  heldBy: 'string',
  withFree: 'boolean',
};

const OF_PERMIT: Options<PermitOptions> = {
  wait: 'millis',
  ttl: 'millis',
  signal: 'signal',
  metadata: 'document',
  renew: 'boolean',
  maxHold: 'millis',
  holdAtLeast: 'millis',
  owner: 'string',
  value: 'string',
  permits: 'count',
};

const OF_ACQUIRE: Options<AcquireOptions> = { ...OF_PERMIT, limit: 'count', shared: 'boolean' };

// A single attempt waits for nothing.
const { wait: _, ...OF_TRY } = OF_ACQUIRE;

/** The library's name of an option: `max_clock_skew` for `maxClockSkew`. */
function nameOf(option: string): string {
  return option.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isToken(value: unknown): boolean {
  return typeof value === 'bigint' && BigInt.asUintN(64, value) === value;
}

function isSession(value: unknown): boolean {
  const { inTransaction, endSession } = (value ?? {}) as Partial<ClientSession>;
  return typeof inTransaction === 'function' && typeof endSession === 'function';
}

/** @internal Whether a text has no half of a surrogate pair: UTF-8 has no form for it. */
export function isWellFormed(text: string): boolean {
  // TypeScript's library of this target does not have it; every runtime of this package has.
  return (text as unknown as { isWellFormed(): boolean }).isWellFormed();
}

/** Whether all texts in a document that can be serialized are well-formed. */
function areWellFormed(of: unknown): boolean {
  const { toBSON } = (of ?? {}) as { toBSON?: () => unknown };
  // The object itself may refer to itself, as one of Mongoose's does.
  const value = typeof toBSON === 'function' ? toBSON.call(of) : of;
  if (typeof value === 'string') return isWellFormed(value);
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return true;
  const entries = value instanceof Map ? [...value] : Object.entries(value);
  return entries.every(([key, inner]) => areWellFormed(key) && areWellFormed(inner));
}

/** @internal A lease's name. */
export function checkName(name: unknown): string {
  if (typeof name !== 'string') throw Fault.invalidName('it is no string');
  // Two names could become the same one.
  if (!isWellFormed(name)) throw Fault.invalidName(NOT_WELL_FORMED);
  return name;
}

/** @internal Checks one option or argument, and returns it. */
export function check<T>(option: string, value: T, kind: Kind): T {
  const { told, fits } = KINDS[kind];
  if (!fits(value)) throw invalidOption(option, told);
  const isText = typeof value === 'string';
  if (isText && !isWellFormed(value)) throw invalidOption(option, NOT_WELL_FORMED);
  return value;
}

/**
 * @internal Checks that there are no other options than these, and that they are of these kinds. Returns them as they
 * were at this moment.
 */
export function checkOptions<T extends object>(options: T, kinds: Options<T>): T {
  // A promise that nobody has awaited has no option either, nor has a Map.
  if (Object.prototype.toString.call(options) !== '[object Object]') {
    const names = Object.keys(kinds).join(', ');
    throw invalidOption('options', `must be an object, with any of ${names}`);
  }
  const checked: Partial<Record<keyof T, unknown>> = {};
  for (const [option, value] of Object.entries(options)) {
    if (value === undefined) continue;
    if (!Object.hasOwn(kinds, option)) {
      const names = Object.keys(kinds).join(', ');
      const told = `there is no option ${JSON.stringify(option)}; there are ${names}`;
      throw invalidOption('options', told);
    }
    const key = option as keyof T;
    checked[key] = check<unknown>(option, value, kinds[key]);
  }
  return checked as T;
}

/** @internal */
export function checkListOptions(options: ListOptions): ListOptions {
  const checked = checkOptions(options, OF_LIST);
  if (checked.prefix !== undefined && checked.glob !== undefined) {
    throw invalidOption('glob', 'a listing has a `prefix` or a `glob`, not both');
  }
  return checked;
}

/** @internal */
export function checkManagerOptions(options: ManagerOptions): ManagerOptions {
  return checkOptions(options, OF_MANAGER);
}

/** @internal */
export function checkAcquireOptions(options: AcquireOptions): AcquireOptions {
  return checkOptions(options, OF_ACQUIRE);
}

/** @internal */
export function checkTryOptions(options: Omit<AcquireOptions, 'wait'>): AcquireOptions {
  return checkOptions(options, OF_TRY);
}

/** @internal The options of a permit of a semaphore, which has the limit. */
export function checkPermitOptions(options: PermitOptions): PermitOptions {
  return checkOptions(options, OF_PERMIT);
}

/** @internal The settings of options that were checked. */
export function settingsOf(options: ManagerOptions): ManagerSettings {
  const settings = new ManagerSettings();
  for (const [option, value] of Object.entries(options)) {
    if (option !== 'ensureIndexes') settings.set(nameOf(option), value);
  }
  return settings;
}

/** @internal The settings of options that were checked; nothing where they are the defaults. */
export function callSettingsOf(options: AcquireOptions): CallSettings | undefined {
  const { wait, signal, metadata, ...rest } = options;
  const others = Object.entries(rest);
  if (metadata === undefined && others.length === 0) return undefined;
  const settings = new CallSettings();
  if (metadata !== undefined) {
    settings.setMetadata(serialized('metadata', metadata));
    if (!areWellFormed(metadata)) throw invalidOption('metadata', NOT_WELL_FORMED);
  }
  for (const [option, value] of others) settings.set(nameOf(option), value);
  return settings;
}

/** @internal The bytes of an option that is a document. */
export function serialized(
  option: string,
  document: unknown,
  how: BSON.SerializeOptions = {},
): Uint8Array {
  check(option, document, 'document');
  try {
    return BSON.serialize(document as Document, how);
  } catch (error) {
    throw invalidOption(option, error instanceof Error ? error.message : String(error));
  }
}
