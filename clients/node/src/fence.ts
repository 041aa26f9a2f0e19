// Fenced writes: each stores a token, and is refused where the document holds a newer one.

import { BSON, type Collection, type Document, type Filter, MongoServerError } from 'mongodb';
import type { ClientSession, UpdateFilter } from 'mongodb';
import { Fault, FencedWrite } from './core';
import { refusedAsError } from './engine';
import { toError } from './errors';
import { bytesOf, exact } from './runner';

/** The options of a fenced write. */
export interface FencedOptions {
  /** The field that stores the token. Defaults to `fence`. */
  field?: string;
  /** Inserts the document where there is none. The filter must have equality on `_id`. */
  upsert?: boolean;
  session?: ClientSession;
}

/** The outcome of a fenced write. */
export type Fenced =
  /** The write was applied. */
  | { outcome: 'applied' }
  /** The document has seen a newer token, or holds something else in the field. */
  | { outcome: 'refused'; seen: bigint | undefined }
  /** Nothing matches the filter. */
  | { outcome: 'noSuchDocument' };

const MAJORITY = { w: 'majority', journal: true } as const;

/**
 * Updates one document, and stores the token of a lease in it, unless the document has seen a newer one.
 *
 * The filter and the update are complete: nothing has to be added to them. Every write to the document has to be fenced
 * by the same field: an unfenced one is not refused.
 */
export async function fencedUpdate<T extends Document>(
  collection: Collection<T>,
  filter: Filter<T>,
  update: UpdateFilter<T> | Document[],
  token: bigint,
  options: FencedOptions = {},
): Promise<Fenced> {
  const { field = 'fence', upsert = false, session } = options;
  if (typeof token !== 'bigint') {
    throw toError(Fault.invalidOption('options', 'a token is a bigint'));
  }
  if (upsert && session) {
    const reason = 'an upsert cannot use a session: a duplicate key aborts its transaction';
    throw toError(Fault.invalidOption('upsert', reason));
  }
  const write = BSON.serialize({ filter, update }, { ignoreUndefined: true });
  const fence = refusedAsError(() => new FencedWrite(write, field, token, upsert));
  const merged = exact(fence.merged());
  const sent = { ...(session && { session }), writeConcern: MAJORITY };
  const target = collection as unknown as Collection<Document>;
  const send = (isUpsert: boolean): ReturnType<typeof target.updateOne> => {
    // A transaction has a write concern of its own.
    const { writeConcern, ...others } = sent;
    const concern = session?.inTransaction() ? {} : { writeConcern };
    const all = { ...others, ...concern, upsert: isUpsert };
    return target.updateOne(merged.filter as Document, merged.update as Document, all);
  };
  let result;
  try {
    result = await send(upsert);
  } catch (error) {
    // Another program has inserted the document, or the fence has refused: a repetition without upsert tells which.
    if (!upsert || !collidesOnId(error)) throw error;
    result = await send(false);
  }
  if (result.matchedCount > 0 || result.upsertedCount > 0) return { outcome: 'applied' };
  const found = await target.findOne(exact(fence.refusing()), {
    ...(session && { session }),
    projection: { [field]: 1 },
    readPreference: 'primary',
    promoteValues: false,
  });
  if (!found) return { outcome: 'noSuchDocument' };
  return { outcome: 'refused', seen: fence.tokenIn(bytesOf(found)) };
}

function collidesOnId(error: unknown): boolean {
  if (!(error instanceof MongoServerError) || error.code !== 11_000) return false;
  const pattern = error.keyPattern as Document | undefined;
  return pattern !== undefined && Object.keys(pattern).join() === '_id';
}
