// Every call means the same whatever the options of its client, its server or Mongoose are: each states what it needs.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { BSON, Long, ObjectId } from 'mongodb';
import { LeaseManager, fencedUpdate } from '../index.mjs';
import { World, mongooseOfDriver, ownServer, queueOf, uri } from './help.mjs';

const OPTIONS = {
  'no option': {},
  'readPreference primaryPreferred': { readPreference: 'primaryPreferred' },
  'readPreference secondaryPreferred': { readPreference: 'secondaryPreferred' },
  'readPreference secondaryPreferred with tags': {
    readPreference: 'secondaryPreferred',
    readPreferenceTags: [{ region: 'x' }],
  },
  'readPreference nearest': { readPreference: 'nearest' },
  'w 0': { w: 0 },
  'w 1': { w: 1 },
  'w 1 without the journal': { w: 1, journal: false },
  'wtimeoutMS 1': { w: 'majority', wtimeoutMS: 1 },
  'readConcern available': { readConcern: { level: 'available' } },
  'readConcern local': { readConcern: { level: 'local' } },
  'readConcern majority': { readConcern: { level: 'majority' } },
  'readConcern linearizable': { readConcern: { level: 'linearizable' } },
  'readConcern snapshot': { readConcern: { level: 'snapshot' } },
  'retryWrites false': { retryWrites: false },
  'retryReads false': { retryReads: false },
  'timeoutMS 5000': { timeoutMS: 5000 },
  'socketTimeoutMS 5000': { socketTimeoutMS: 5000 },
  'maxPoolSize 1': { maxPoolSize: 1 },
  'maxPoolSize 2': { maxPoolSize: 2 },
  'compressors zlib': { compressors: ['zlib'] },
  'a strict stable API': { serverApi: { version: '1', strict: true, deprecationErrors: true } },
  directConnection: { directConnection: true },
  ignoreUndefined: { ignoreUndefined: true },
  useBigInt64: { useBigInt64: true },
  'promoteLongs false': { promoteLongs: false },
  'promoteValues false': { promoteValues: false },
  promoteBuffers: { promoteBuffers: true },
  bsonRegExp: { bsonRegExp: true },
  raw: { raw: true },
  serializeFunctions: { serializeFunctions: true },
  checkKeys: { checkKeys: true },
  fieldsAsRaw: { fieldsAsRaw: { fence: true, cursor: true, value: true, n: true } },
  'enableUtf8Validation false': { enableUtf8Validation: false },
};

const WRITES = ['findAndModify', 'update', 'delete', 'createIndexes'];
const READS = ['find', 'aggregate'];
const OURS = [...WRITES, ...READS, 'listIndexes', 'getMore', 'killCursors'];

/** What a command of ours leaves to the client's options. */
function leftOpen({ commandName, command }) {
  const missing = [];
  const isAlone = command.autocommit === undefined;
  const { mode } = command.$readPreference ?? {};
  // A driver says so to a server that it is connected to directly.
  if (mode !== undefined && mode !== 'primaryPreferred') missing.push(`$readPreference ${mode}`);
  if (isAlone && WRITES.includes(commandName)) {
    const { w, j, wtimeout } = command.writeConcern ?? {};
    if (w !== 'majority' || j !== true || wtimeout !== undefined) missing.push('writeConcern');
  }
  if (isAlone && READS.includes(commandName)) {
    if (!['majority', 'local'].includes(command.readConcern?.level)) missing.push('readConcern');
  }
  return missing.map((what) => `${commandName}: ${what}`);
}

/** Collects what the library's commands leave open from now on. */
function watch(client) {
  const seen = { names: new Set(), open: new Set() };
  const isOurs = ({ commandName }) => OURS.includes(commandName);
  client.on('commandStarted', (event) => {
    if (!isOurs(event)) return;
    seen.names.add(event.commandName);
    leftOpen(event).forEach((each) => seen.open.add(each));
  });
  return seen;
}

// With some options, a driver and a server accept no transaction that does not state these.
const TRANSACTION = { writeConcern: { w: 'majority' }, readConcern: { level: 'snapshot' } };

/** Every public call of leases, once. Returns what they have told. */
async function everyLease(leases, client, plain) {
  const told = {};
  const lease = await leases.acquire('a', { metadata: { order: 7 } });
  const { state, metadata, heldHere } = await leases.get('a');
  Object.assign(told, { state, metadata, heldHere });
  told.tried = await leases.tryAcquire('a');
  await lease.renew();
  told.isValid = lease.isValid() && lease.remaining() > 20_000;
  const foreign = client.db(plain.databaseName).collection('foreign');
  const pay = async (session) => {
    await lease.guard(session);
    await foreign.insertOne({ _id: 1 }, { session });
  };
  await client.withSession((session) => session.withTransaction(() => pay(session), TRANSACTION));
  told.result = await lease.transaction(async (session) => {
    await foreign.insertOne({ _id: 2 }, { session });
    return 'paid';
  });
  told.paid = await plain.collection('foreign').countDocuments();
  told.work = await leases.withLease('b', ({ name }) => name);
  const reader = await leases.acquire('shared', { shared: true });
  await reader.renew();
  const five = leases.semaphore('five', 5);
  const permit = await five.tryAcquire({ permits: 2 });
  told.listed = [];
  for await (const { name, inUse } of leases.list()) told.listed.push(`${name} ${inUse}`);
  told.released = [await reader.release(), await permit.release()];
  const { token } = lease;
  const late = leases.acquire('a', { wait: 200 });
  told.late = await late.catch(({ code, held }) => [code, held?.name ?? 'no answer in time']);
  const waiting = leases.acquire('a', { wait: 60_000 });
  await queueOf(plain, 'a', 1);
  told.released.push(await lease.release());
  const next = await waiting;
  told.isNewer = next.token > token;
  await next.renew();
  told.released.push(await next.release());
  return told;
}

const LEASES = {
  state: 'held',
  metadata: { order: 7 },
  heldHere: true,
  tried: undefined,
  isValid: true,
  result: 'paid',
  paid: 2,
  work: 'b',
  listed: ['a 1', 'five 2', 'shared 1'],
  released: ['released', 'released', 'released', 'released'],
  isNewer: true,
};

const VALUES = {
  int: 7,
  double: 1.5,
  whole: 2 ** 40,
  big: 5n,
  long: Long.fromNumber(9),
  text: 'x',
  none: null,
  is: true,
  date: new Date(0),
  binary: Buffer.from('x'),
  pattern: /x/i,
  id: new ObjectId('0123456789abcdef01234567'),
  list: [1, [2, undefined]],
  inner: { a: { b: undefined } },
  gone: undefined,
  work() {},
};

/** Every kind of fenced write. Returns what they have told and done. */
async function everyFencedWrite(papers, plain, client) {
  const told = {};
  const stored = plain.collection('papers');
  await stored.insertMany([
    { _id: 1, count: 0 },
    { _id: 2, count: 0 },
    { _id: 3, gone: 1 },
    { _id: 4, gone: 1 },
  ]);
  const add = { $inc: { count: 1 } };
  const write = async (filter, update, token, options) => {
    const { outcome, seen } = await fencedUpdate(papers, filter, update, token, options);
    return seen === undefined ? outcome : `${outcome} ${seen}`;
  };
  told.applied = await write({ _id: 1 }, add, 1000n);
  told.older = await write({ _id: 1 }, add, 10n);
  told.missing = await write({ _id: 9 }, add, 1000n);
  told.undefined = await write({ _id: undefined }, { $set: { wrong: 1 } }, 5000n);
  told.inner = await write({ _id: { $eq: undefined } }, { $set: { wrong: 1 } }, 5000n);
  told.wrong = await stored.countDocuments({ wrong: 1 });
  told.upsert = await write({ _id: 8 }, add, 1000n, { upsert: true });
  told.late = await write({ _id: 8 }, add, 10n, { upsert: true });
  told.stages = await write({ _id: 1 }, [{ $set: { count: { $add: ['$count', 1] } } }], 1001n);
  const within = (token) =>
    client.withSession((session) =>
      session.withTransaction(() => write({ _id: 2 }, add, token, { session }), TRANSACTION),
    );
  told.within = [await within(1000n), await within(10n)];
  told.bad = await write({ _id: 1 }, { $set: { _id: 5 } }, 2000n).catch(({ code }) => code);
  told.counts = (await stored.find({ _id: { $lt: 3 } }).toArray()).map(({ count }) => count);
  // What is written is what the collection's own call writes.
  await papers.updateOne(
    { _id: 3 },
    { $set: VALUES },
    { writeConcern: { w: 'majority', journal: true } },
  );
  await fencedUpdate(papers, { _id: 4 }, { $set: VALUES }, 1000n);
  const [theirs, ours] = await stored
    .find({ _id: { $gt: 2, $lt: 5 } }, { promoteValues: false })
    .toArray();
  const text = ({ _id, fence, ...rest }) => BSON.EJSON.stringify(rest, { relaxed: false });
  assert.equal(text(ours), text(theirs));
  return told;
}

const FENCED = {
  applied: 'applied',
  older: 'refused 1000',
  missing: 'noSuchDocument',
  undefined: 'noSuchDocument',
  inner: 'noSuchDocument',
  wrong: 0,
  upsert: 'applied',
  late: 'refused 1000',
  stages: 'applied',
  within: ['applied', 'refused 1000'],
  bad: 66,
  counts: [2, 1],
};

/** Runs everything with this client. `papers` is where the fenced writes go. */
async function everything(
  world,
  client,
  plain,
  { db = client.db(world.name), papers = db.collection('papers') } = {},
) {
  await Promise.all(['foreign', 'papers'].map((name) => plain.createCollection(name)));
  const seen = watch(client);
  const leases = new LeaseManager(db, { ensureIndexes: true });
  const { late, ...told } = await everyLease(leases, client, plain);
  assert.deepEqual(told, LEASES);
  assert.equal(late[0], 'WAIT_TIMEOUT');
  const report = await leases.close();
  assert.deepEqual(report, { released: 0, leftToExpire: [], commandsLeft: 0 });
  // The driver's own call of the test is none of ours.
  const ofLeases = [...seen.open];
  assert.deepEqual(ofLeases, []);
  for (const name of OURS) assert.ok(seen.names.has(name), `no ${name} was seen`);
  assert.deepEqual(await everyFencedWrite(papers, plain, client), FENCED);
  assert.deepEqual(
    [...seen.open].filter((each) => !ofLeases.includes(each)),
    [],
  );
  assert.equal(await plain.collection('locks').countDocuments(), 0);
}

describe('every call, with', { concurrency: 4 }, () => {
  for (const [what, options] of Object.entries(OPTIONS)) {
    test(what, async (t) => {
      const world = World.of(t);
      const client = world.client(uri, { monitorCommands: true, ...options });
      await everything(world, client, world.db());
    });
  }
});

test('control: commands that state nothing are found', async (t) => {
  const world = World.of(t);
  const client = world.client(uri, {
    monitorCommands: true,
    w: 1,
    readPreference: 'secondaryPreferred',
  });
  const seen = watch(client);
  await client.db(world.name).collection('papers').insertOne({ _id: 1 });
  await client
    .db(world.name)
    .collection('papers')
    .updateOne({ _id: 1 }, { $set: { a: 1 } });
  await client.db(world.name).collection('papers').findOne({ _id: 1 });
  const open = [
    'update: writeConcern',
    'find: $readPreference secondaryPreferred',
    'find: readConcern',
  ];
  assert.deepEqual([...seen.open], open);
});

test('every call, with the defaults of a database', async (t) => {
  const world = World.of(t);
  const client = world.client(uri, { monitorCommands: true });
  const options = {
    readPreference: 'secondary',
    writeConcern: { w: 1 },
    readConcern: { level: 'available' },
    raw: true,
  };
  await everything(world, client, world.db(), { db: client.db(world.name, options) });
});

test('every call, with the defaults of a cluster', async (t) => {
  const at = await ownServer(World.of(t));
  for (const [level, w] of [
    ['local', 1],
    ['available', 'majority'],
    ['majority', 1],
  ]) {
    const world = World.of(t);
    const client = world.client(at, { monitorCommands: true });
    await client.db('admin').command({
      setDefaultRWConcern: 1,
      defaultReadConcern: { level },
      defaultWriteConcern: { w, wtimeout: 1 },
    });
    await everything(world, client, world.client(at).db(world.name));
  }
});

describe('every call through Mongoose, with', { concurrency: 4 }, () => {
  for (const what of [
    'no option',
    'readPreference secondaryPreferred',
    'w 0',
    'readConcern snapshot',
    'a strict stable API',
    'ignoreUndefined',
    'useBigInt64',
    'promoteValues false',
    'raw',
  ]) {
    test(what, async (t) => {
      const { default: mongoose } = await import(mongooseOfDriver);
      const world = World.of(t);
      const options = { dbName: world.name, monitorCommands: true, ...OPTIONS[what] };
      const connection = await mongoose.createConnection(uri, options).asPromise();
      world.onEnd(() => connection.close());
      const client = connection.getClient();
      const { db } = connection;
      await everything(world, client, world.db(), { db, papers: connection.collection('papers') });
    });
  }
});

test('a client that closes silent connections does not break the change stream', async (t) => {
  const world = World.of(t);
  const client = world.client(uri, { monitorCommands: true, socketTimeoutMS: 800 });
  const holder = await world.manager().acquire('a');
  const leases = world.manager({}, client);
  const ended = new Promise((resolve) => {
    const of =
      (how) =>
      ({ commandName }) =>
        commandName === 'getMore' && resolve(how);
    client.on('commandSucceeded', of('answered')).on('commandFailed', of('cut off'));
  });
  const waiting = leases.acquire('a');
  assert.equal(await ended, 'answered');
  await holder.release();
  await (await waiting).release();
});
