// Programs that get the recipe wrong: what the tests have to find out.

import { randomUUID } from 'node:crypto';
import * as recipe from './lock.mjs';

/** Takes a lock without looking whether it has expired. */
async function acquireWhateverTheExpiry(Lock, name, { ttlMs }) {
  const expiresAt = new Date(Date.now() + ttlMs);
  const update = { $set: { value: randomUUID(), expiresAt } };
  return Lock.findOneAndUpdate({ name }, update, { upsert: true, returnDocument: 'after' });
}

/** Removes a lock by its name, whoever holds it. */
async function releaseByNameAlone(Lock, name) {
  const { deletedCount } = await Lock.deleteOne({ name });
  return deletedCount > 0;
}

export const flavours = {
  'to the letter': recipe,
  'ignores the expiry': { ...recipe, acquire: acquireWhateverTheExpiry },
  'releases by name alone': { ...recipe, release: releaseByNameAlone },
};
