// The recipe of the articles on Mongoose, as a service in Node.js has it in its own code.

import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import mongoose from 'mongoose';

export const lockSchema = new mongoose.Schema(
  {
    name: { type: String, required: true, unique: true },
    value: { type: String, required: true },
    expiresAt: { type: Date, index: { expireAfterSeconds: 0 } },
  },
  { collection: 'locks' },
);

const DUPLICATE_KEY = 11000;

/** The lock's document, or `null` when somebody else had it for as long as we were to wait. */
export async function acquire(Lock, name, { ttlMs = 30_000, waitMs = 0, pollMs = 50 } = {}) {
  const value = randomUUID();
  const giveUpAt = performance.now() + waitMs;
  for (;;) {
    const now = new Date();
    try {
      return await Lock.findOneAndUpdate(
        { name, $or: [{ expiresAt: { $lte: now } }, { expiresAt: null }] },
        { $set: { value, expiresAt: new Date(now.getTime() + ttlMs) } },
        { upsert: true, returnDocument: 'after' },
      );
    } catch (error) {
      // Held: no document matched, and the upsert tried to insert a second one of this name.
      if (error.code !== DUPLICATE_KEY) throw error;
    }
    if (performance.now() >= giveUpAt) return null;
    await sleep(pollMs);
  }
}

/** Whether it was still ours to release. */
export async function release(Lock, name, value) {
  const { deletedCount } = await Lock.deleteOne({ name, value });
  return deletedCount > 0;
}
