// Options, and how they reach the core, which checks them.

import { BSON, type Document } from 'mongodb';
import { CallSettings, Fault, ManagerSettings } from './core';
import { checkSignal } from './signals';

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

// What TypeScript itself carries out.
const OWN = ['wait', 'signal'];

/** The library's name of an option: `max_clock_skew` for `maxClockSkew`. */
function nameOf(option: string): string {
  return option.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

function entries(options: unknown): [string, unknown][] {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw Fault.invalidOption('options', 'must be an object');
  }
  const all = Object.entries(options).filter(([, value]) => value !== undefined);
  for (const [option, value] of all) {
    if (typeof value === 'string' && !isWellFormed(value)) {
      throw Fault.invalidOption(nameOf(option), 'it is no well-formed Unicode');
    }
  }
  return all;
}

/** @internal Whether a text has no half of a surrogate pair: UTF-8 has no form for it. */
export function isWellFormed(text: string): boolean {
  return Buffer.from(text, 'utf8').toString('utf8') === text;
}

/** @internal A lease's name. */
export function checkName(name: unknown): string {
  if (typeof name !== 'string') throw Fault.invalidName('it is no string');
  // Two names could become the same one.
  if (!isWellFormed(name)) throw Fault.invalidName('it is no well-formed Unicode');
  return name;
}

/** @internal An option that is a text. */
export function checkText(option: string, text: unknown): string {
  if (typeof text !== 'string') throw Fault.invalidOption(option, 'must be a string');
  if (!isWellFormed(text)) throw Fault.invalidOption(option, 'it is no well-formed Unicode');
  return text;
}

const MUST_BE: Record<string, string> = {
  string: 'must be a string',
  boolean: 'must be true or false',
  object: 'must be an object',
  number: 'must be a number of milliseconds',
  function: 'must be a function',
};

/** @internal Checks that there are no other options than these, and that they have these types. */
export function checkTypes(options: unknown, types: Record<string, string>): void {
  for (const [option, value] of entries(options)) {
    const type = types[option];
    if (type === undefined) {
      throw Fault.invalidOption('options', `there is no option ${JSON.stringify(option)}`);
    }
    if (typeof value !== type || value === null) {
      throw Fault.invalidOption(nameOf(option), MUST_BE[type] ?? type);
    }
  }
}

/** @internal */
export function checkListOptions(options: ListOptions): ListOptions {
  const types = { prefix: 'string', glob: 'string', heldBy: 'string', withFree: 'boolean' };
  checkTypes(options, types);
  if (options.prefix !== undefined && options.glob !== undefined) {
    throw Fault.invalidOption('pattern', 'a listing has a `prefix` or a `glob`, not both');
  }
  return options;
}

/** @internal */
export function settingsOf(options: ManagerOptions): ManagerSettings {
  const settings = new ManagerSettings();
  for (const [option, value] of entries(options)) {
    if (option !== 'ensureIndexes') settings.set(nameOf(option), value);
    else if (typeof value !== 'boolean') {
      throw Fault.invalidOption('ensure_indexes', 'must be true or false');
    }
  }
  return settings;
}

/** @internal */
export function callSettingsOf(options: AcquireOptions): CallSettings {
  const settings = new CallSettings();
  for (const [option, value] of entries(options)) {
    if (option === 'signal') checkSignal(value);
    if (OWN.includes(option)) continue;
    if (option === 'metadata') settings.setMetadata(serialized('metadata', value));
    else settings.set(nameOf(option), value);
  }
  return settings;
}

/** @internal The bytes of an option that is a document. */
export function serialized(
  option: string,
  document: unknown,
  how: BSON.SerializeOptions = {},
): Uint8Array {
  if (typeof document !== 'object' || document === null || Array.isArray(document)) {
    throw Fault.invalidOption(option, 'must be a document');
  }
  try {
    return BSON.serialize(document, how);
  } catch (error) {
    throw Fault.invalidOption(option, error instanceof Error ? error.message : String(error));
  }
}
