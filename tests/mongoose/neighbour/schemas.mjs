// What services make of the recipe's schema.

import mongoose from 'mongoose';
import { lockSchema } from './lock.mjs';

/** The recipe's schema with something added or changed. */
function but(change) {
  const schema = lockSchema.clone();
  change(schema);
  return schema;
}

export const schemas = {
  'the recipe': lockSchema,
  // Fields of its own, and those that Mongoose keeps by itself.
  'with more fields': but((schema) => {
    schema.set('timestamps', true);
    schema.add({ host: { type: String, default: 'node-1' } });
  }),
  // Anything that the schema does not name is an error.
  strict: but((schema) => schema.set('strict', 'throw')),
  'without unique': new mongoose.Schema(
    { name: String, value: String, expiresAt: { type: Date, index: { expireAfterSeconds: 0 } } },
    { collection: 'locks' },
  ),
  'kept for a minute': new mongoose.Schema(
    { name: { type: String, unique: true }, value: String, expiresAt: { type: Date, expires: 60 } },
    { collection: 'locks' },
  ),
  // The short way to write the TTL index.
  'expires 0': new mongoose.Schema(
    { name: { type: String, unique: true }, value: String, expiresAt: { type: Date, expires: 0 } },
    { collection: 'locks' },
  ),
};
