// Fenced writes: each stores a token, and is refused where the document holds a newer one.

import type { BSONSerializeOptions, ClientSession, Collection, Document } from 'mongodb';
import { FencedWrite } from './core';
import type { AnyCollection, AnySession } from './driver';
import { refusedAsError } from './engine';
import { invalidOption } from './errors';
import { type Options, check, checkOptions, serialized } from './options';
import { EXACT, bytesOf, exact } from './runner';

/** The options of a fenced write. */
export interface FencedOptions {
  /** The field that stores the token. Defaults to `fence`. */
  field?: string;
  /** Inserts the document where there is none. The filter must have equality on `_id`. */
  upsert?: boolean;
  session?: AnySession;
}

/** The outcome of a fenced write. */
export type Fenced =
  /** The write was applied. */
  | { outcome: 'applied' }
  /** The document has seen a newer token, or holds something else in the field. */
  | { outcome: 'refused'; seen: bigint | undefined }
  /** Nothing matches the filter. */
  | { outcome: 'noSuchDocument' };

const OPTIONS: Options<FencedOptions> = { field: 'string', upsert: 'boolean', session: 'session' };
const NO_COLLECTION =
  'must be a `Collection` of the package `mongodb`, such as `Model.collection`; a Mongoose model itself casts the token';

// A transaction has concerns of its own.
const WRITING = { writeConcern: { w: 'majority', journal: true } } as const;
// The newest state, which is what has refused the write. A majority may have an older one.
const READING = { readConcern: { level: 'local' } } as const;
// The result, and an error's code, as plain numbers.
const PLAIN = { ...EXACT, promoteValues: true, promoteLongs: true, promoteBuffers: true } as const;

/**
 * Updates one document, and stores the token of a lease in it, unless the document has seen a newer one.
 *
 * The filter and the update are complete: nothing has to be added to them. Every write to the document has to be fenced
 * by the same field: an unfenced one is not refused.
 *
 * An `undefined` in the filter is `null`, and matches nothing that has the field, also where the collection has the option
 * `ignoreUndefined`. In the update it is what the collection's options say. The write is confirmed by a majority, or
 * by the transaction of the session.
 */
export async function fencedUpdate<Filter, Update>(
  collection: AnyCollection<Filter, Update>,
  filter: NoInfer<Filter>,
  update: NoInfer<Update>,
  token: bigint,
  options: FencedOptions = {},
): Promise<Fenced> {
  const { field = 'fence', upsert = false, session } = checkOptions(options, OPTIONS);
  if (!isCollection(collection)) throw invalidOption('collection', NO_COLLECTION);
  const target = collection as unknown as Collection<Document>;
  const fence = refusedAsError(() => {
    check('token', token, 'token');
    if (upsert && session) {
      const reason = 'an upsert cannot use a session: a duplicate key aborts its transaction';
      throw invalidOption('upsert', reason);
    }
    const { ignoreUndefined, serializeFunctions } = optionsOf(target);
    const functions = { serializeFunctions: serializeFunctions ?? false };
    const where = serialized('filter', filter, { ...functions, ignoreUndefined: false });
    const told = { ...functions, ignoreUndefined: ignoreUndefined ?? false };
    return new FencedWrite(where, serialized('update', { update }, told), field, token, upsert);
  });
  const merged = exact(fence.merged());
  const isAlone = !session?.inTransaction();
  const within = session ? { session: session as ClientSession } : {};
  const send = (isUpsert: boolean): ReturnType<typeof target.updateOne> => {
    const all = { ...PLAIN, ...within, ...(isAlone && WRITING), upsert: isUpsert };
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
    ...EXACT,
    ...within,
    ...(isAlone && READING),
    projection: { [field]: 1 },
    readPreference: 'primary',
  });
  if (!found) return { outcome: 'noSuchDocument' };
  return { outcome: 'refused', seen: fence.tokenIn(bytesOf(found)) };
}

/** What a collection's own writes make of what BSON has not. That of Mongoose has it in its connection. */
function optionsOf(collection: Partial<Pick<Collection, 'bsonOptions'>>): BSONSerializeOptions {
  const { conn } = collection as { conn?: { db?: { bsonOptions?: BSONSerializeOptions } } };
  return collection.bsonOptions ?? conn?.db?.bsonOptions ?? {};
}

function isCollection(collection: unknown): boolean {
  const { updateOne, findOne } = (collection ?? {}) as Partial<Collection>;
  // A model is a function. It drops a field that its schema has not, and so every token.
  const isObject = typeof collection === 'object';
  return isObject && typeof updateOne === 'function' && typeof findOne === 'function';
}

/** By what it says, and not by its class: the collection may be of another copy of the driver, as Mongoose's is. */
function collidesOnId(error: unknown): boolean {
  const { code, keyPattern } = (error ?? {}) as { code?: unknown; keyPattern?: Document };
  return code === 11_000 && keyPattern !== undefined && Object.keys(keyPattern).join() === '_id';
}
