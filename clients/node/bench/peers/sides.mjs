// The sides of the comparison. Each has `take`, an attempt that returns what gives the lock back, and `wait`, which
// waits for it: by the library's own call where it has one, otherwise by an attempt each 100 ms. What gives a lock back
// has `renew`, where the library does not renew by itself, and can. `commands` counts what was sent.

import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';
import { MongoClient } from 'mongodb';
import mongodbLock from 'mongodb-lock';
import Redlock from 'redlock';
import { IoredisAdapter, createLock } from 'redlock-universal';
import { LeaseManager } from '../../index.mjs';

export const TTL_MS = 30_000;
const POLL_MS = 100;
const MAJORITY = { writeConcern: { w: 'majority', journal: true } };

function polling(take) {
  return async (name) => {
    for (;;) {
      const release = await take(name);
      if (release) return release;
      await sleep(POLL_MS);
    }
  };
}

/** The floor: an insert and a delete by the bare driver. It excludes nobody. */
export async function bare(uri) {
  const client = new MongoClient(uri);
  const locks = client.db('peers').collection('bare');
  await indexes(locks);
  const take = async (name) => {
    const value = randomUUID();
    await locks.insertOne({ name, value, expiresAt: new Date(Date.now() + TTL_MS) }, MAJORITY);
    return () => locks.deleteOne({ name, value }, MAJORITY);
  };
  return { take, close: () => client.close() };
}

async function indexes(locks) {
  await locks.createIndex({ name: 1 }, { unique: true });
  await locks.createIndex({ expiresAt: 1 }, { expireAfterSeconds: 0 });
  // Live locks of others: look-ups then walk over no more than a few index entries of deleted ones.
  if ((await locks.estimatedDocumentCount()) > 0) return;
  const [value, expiresAt] = ['other', new Date(Date.now() + 3_600_000)];
  const others = Array.from({ length: 1000 }, () => ({ name: randomUUID(), value, expiresAt }));
  await locks.insertMany(others);
}

export async function mongoLease(uri, monitorCommands = false) {
  const client = new MongoClient(uri, { monitorCommands });
  let sent = 0;
  client.on('commandStarted', () => (sent += 1));
  const leases = new LeaseManager(client.db('peers'), { ensureIndexes: true });
  await leases.ready();
  await indexes(client.db('peers').collection('locks'));
  const releaseOf = (lease) => lease && Object.assign(() => lease.release(), { lease });
  const take = async (name) => releaseOf(await leases.acquire(name));
  const wait = async (name) => releaseOf(await leases.acquire(name, { wait: 600_000 }));
  const close = async () => {
    await leases.close();
    await client.close();
  };
  return { take, wait, close, commands: () => sent, renewsItself: true };
}

/** The recipe that Mongoose's users know: an upsert guarded by the expiry, and a delete by name and value. */
export async function recipe(uri) {
  const client = new MongoClient(uri);
  const locks = client.db('peers').collection('recipe');
  await indexes(locks);
  const take = async (name) => {
    const [value, now] = [randomUUID(), Date.now()];
    const free = { name, $or: [{ expiresAt: { $lte: new Date(now) } }, { expiresAt: null }] };
    const held = { $set: { value, expiresAt: new Date(now + TTL_MS) } };
    try {
      await locks.findOneAndUpdate(free, held, { upsert: true, ...MAJORITY });
    } catch (error) {
      if (error.code === 11000) return undefined;
      throw error;
    }
    return () => locks.deleteOne({ name, value }, MAJORITY);
  };
  return { take, wait: polling(take), close: () => client.close() };
}

/** It was written for driver 3, so it gets a collection with callbacks and that driver's results. */
export async function mongodbLockSide(uri) {
  const client = new MongoClient(uri);
  const locks = client.db('peers').collection('mongodb-lock', MAJORITY);
  await locks.createIndex({ name: 1 }, { unique: true });
  const called = (promise, callback) => void promise.then((it) => callback(null, it), callback);
  const old = {
    findOneAndUpdate: (query, update, callback) =>
      called(locks.findOneAndUpdate(query, update, { includeResultMetadata: true }), callback),
    findOneAndDelete: (query, callback) =>
      called(locks.findOneAndDelete(query, { includeResultMetadata: true }), callback),
    insertOne: (document, callback) =>
      called(
        locks.insertOne(document).then(() => ({ ops: [document] })),
        callback,
      ),
  };
  const take = async (name) => {
    const lock = mongodbLock(old, name, { timeout: TTL_MS, removeExpired: true });
    const answered = (resolve, reject) => (error, it) => (error ? reject(error) : resolve(it));
    const code = await new Promise((...ends) => lock.acquire(answered(...ends)));
    if (!code) return undefined;
    return () => new Promise((...ends) => lock.release(code, answered(...ends)));
  };
  return { take, wait: polling(take), close: () => client.close() };
}

/** Commands that Redis got: each call of these libraries is a script. */
async function scripts(client) {
  const stats = await client.info('commandstats');
  const of = (name) => Number(new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
  return of('eval') + of('evalsha');
}

export function redlock(port) {
  const client = new Redis(port);
  const locks = new Redlock([client]);
  const take = async (name) => {
    let lock = await locks.acquire([name], TTL_MS);
    const renew = async () => void (lock = await lock.extend(TTL_MS));
    return Object.assign(() => lock.release(), { renew });
  };
  // Its own pauses: 200 ms, and up to 100 ms more or less.
  const wait = async (name) => {
    const lock = await locks.acquire([name], TTL_MS, { retryCount: -1 });
    return () => lock.release();
  };
  return { take, wait, close: () => client.quit(), commands: () => scripts(client) };
}

export function redlockUniversal(port) {
  const client = new Redis(port);
  const adapter = new IoredisAdapter(client);
  const by = (options) => async (key) => {
    const lock = createLock({ adapter, key, ttl: TTL_MS, ...options });
    const handle = await lock.acquire();
    const renew = () => lock.extend(handle, TTL_MS);
    return Object.assign(() => lock.release(handle), { renew });
  };
  const [take, wait] = [by({}), by({ retryAttempts: 1e6 })];
  return { take, wait, close: () => client.quit(), commands: () => scripts(client) };
}
