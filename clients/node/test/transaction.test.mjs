// `transaction`, with both drivers that are supported.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { describe, test } from 'node:test';
import { UUID } from 'mongodb';
import {
  CommitUnknownError,
  LeaseBusyError,
  LeaseLostError,
  LeaseManager,
  TransactionTooLongError,
  inMemory,
} from '../index.mjs';
import { PATIENCE, World, lossOf, ownServer, queueOf, takeOver, uri, within } from './help.mjs';
import { Proxy } from './proxy.mjs';

/** A manager, its client, and a collection beside the leases. */
async function setUp(
  world,
  options = {},
  client = world.client(undefined, { monitorCommands: true }),
) {
  const leases = world.manager(options, client);
  await leases.ready();
  const papers = await world.db(client).createCollection('papers');
  return { client, leases, papers };
}

/** The commands that a client sends from now on. */
function sentBy(client) {
  const sent = [];
  client.on('commandStarted', (event) => sent.push(event));
  return sent;
}

const named = (sent, name) => sent.filter(({ commandName }) => commandName === name);
const guards = (sent) =>
  named(sent, 'update').filter(
    ({ command }) => command.update === 'locks' && command.autocommit === false,
  );

/** Writes the document from another client. A transaction that nobody aborts keeps it from that for a minute. */
async function writeBeside(world, _id) {
  const papers = world.db().collection('papers');
  const written = papers.updateOne({ _id }, { $set: { beside: true } }, { upsert: true });
  assert.ok(await within(PATIENCE, written), 'a transaction blocks the document');
}

/** An answer to a commit after which the driver says that nobody knows, and repeats it. Its server stays in order. */
const UNKNOWN = { errorCode: 89, errorLabels: ['RetryableWriteError'] };

/** Makes one command of the clients with this name fail on the server, until it is told otherwise. */
async function failCommand(world, appName, command, fault, mode = 'alwaysOn') {
  const admin = world.client().db('admin');
  const set = (mode, data) => admin.command({ configureFailPoint: 'failCommand', mode, ...data });
  await set(mode, { data: { failCommands: [command], appName, ...fault } });
  const off = () => set('off');
  world.onEnd(off);
  return off;
}

test('work that commits a transaction and then releases its lease keeps its result', async (t) => {
  const world = World.of(t);
  const { leases, papers } = await setUp(world);
  const other = world.manager();
  const result = await leases.withLease('a', async (lease) => {
    const written = await lease.transaction(async (session) => {
      await papers.insertOne({ _id: 1 }, { session });
      return 'written';
    });
    assert.equal(await lease.release(), 'released');
    // The rest of the work needs no lease, and others have it meanwhile.
    await (await other.acquire('a')).release();
    return written;
  });
  assert.equal(result, 'written');
  assert.equal(await papers.countDocuments(), 1);
  // A release within the transaction ends it: nothing is written, and the work is told.
  const work = leases.withLease('a', (lease) =>
    lease.transaction(async (session) => {
      await papers.insertOne({ _id: 2 }, { session });
      await lease.release();
    }),
  );
  await assert.rejects(work, { code: 'LOST', reason: 'released' });
  assert.equal(await papers.countDocuments(), 1);
});

test('the stack of what ends a transaction has the line of the call', async (t) => {
  const world = World.of(t);
  const { leases, papers } = await setUp(world);
  const forever = () => new Promise(() => undefined);
  const calls = [
    async function theCaller() {
      const lease = await leases.acquire('a', { renew: false, ttl: 1000 });
      await lease.transaction(forever);
    },
    async function theCaller() {
      const lease = await leases.acquire('b');
      await takeOver(world, 'b');
      await lease.transaction((session) => papers.insertOne({}, { session }));
    },
  ];
  for (const call of calls) {
    const error = await call().catch((found) => found);
    assert.equal(error.code, 'LOST');
    assert.match(error.stack, /^ +at async theCaller /m, error.stack);
  }
});

test('the callback is committed with its guard, and its result is the result', async (t) => {
  const world = World.of(t);
  const { client, leases, papers } = await setUp(world);
  const lease = await leases.acquire('a');
  const sent = sentBy(client);
  const expiry = async () =>
    (await world.db().collection('locks').findOne({ name: 'a' })).expiresAt.getTime();
  const before = await expiry();
  const result = await lease.transaction(async (session) => {
    assert.equal(session.inTransaction(), true);
    await papers.insertOne({ _id: 1 }, { session });
    return 'done';
  });
  assert.equal(result, 'done');
  assert.equal(await papers.countDocuments(), 1);
  const ofIt = sent
    .filter(({ command }) => command.autocommit === false)
    .map(({ commandName }) => commandName);
  assert.deepEqual(ofIt, ['find', 'insert', 'update', 'commitTransaction']);
  const [commit] = named(sent, 'commitTransaction');
  const { w, j } = commit.command.writeConcern;
  assert.deepEqual([w, j], ['majority', true]);
  assert.equal(sent[0].command.readConcern.level, 'local');
  // The commit has prolonged the lease.
  assert.ok(lease.isValid() && (await expiry()) > before);
  assert.equal(await lease.transaction(() => 7), 7);
  assert.equal(await lease.release(), 'released');
});

describe('the traps of a guard', () => {
  test('outside of a transaction it is refused, before it and after it', async (t) => {
    const world = World.of(t);
    const { client, leases } = await setUp(world);
    const lease = await leases.acquire('a');
    const sent = sentBy(client);
    const refused = {
      code: 'INVALID_OPTION',
      option: 'session',
      message: /^session: has no transaction in progress/,
    };
    await client.withSession(async (session) => {
      await assert.rejects(lease.guard(session), refused);
      session.startTransaction();
      await session.abortTransaction();
      await assert.rejects(lease.guard(session), refused);
      session.startTransaction();
      await client.db(world.name).collection('papers').insertOne({ _id: 1 }, { session });
      await session.commitTransaction();
      await assert.rejects(lease.guard(session), refused);
    });
    for (const none of [undefined, null, {}, 7]) await assert.rejects(lease.guard(none), refused);
    assert.deepEqual(named(sent, 'update'), []);
  });

  const PREFERENCES = ['primary', 'primaryPreferred', 'secondary', 'secondaryPreferred', 'nearest'];
  for (const readPreference of PREFERENCES) {
    test(`with the read preference ${readPreference} both work`, async (t) => {
      const world = World.of(t);
      const { host } = new URL(uri.replace('mongodb:', 'http:'));
      // A client that must read from a secondary does not connect to a set without one.
      const directConnection = readPreference === 'secondary';
      const options = {
        directConnection,
        readPreference,
        readConcern: { level: 'available' },
        w: 1,
      };
      const client = world.client(`mongodb://${host}`, options);
      const { leases, papers } = await setUp(world, {}, client);
      const lease = await leases.acquire('a');
      await lease.transaction(async (session) => {
        await papers.insertOne({ _id: 1 }, { session });
        assert.equal((await papers.findOne({ _id: 1 }, { session }))._id, 1);
      });
      const own = { readPreference: 'primary', readConcern: { level: 'local' } };
      const guarded = async (session) => {
        await lease.guard(session);
        await papers.insertOne({ _id: 2 }, { session });
      };
      await client.withSession((session) => session.withTransaction(() => guarded(session), own));
      const stored = await world.db().collection('papers').countDocuments();
      assert.equal(stored, 2);
    });
  }

  test("a loss, and the callback's own error, are thrown as they are and not repeated", async (t) => {
    const world = World.of(t);
    const { client, leases, papers } = await setUp(world);
    const lease = await leases.acquire('a');
    for (const error of [new Error('my own'), new LeaseBusyError('held'), 'a text', undefined]) {
      let tries = 0;
      const failing = lease.transaction(async (session) => {
        tries += 1;
        await papers.insertOne({ _id: tries }, { session });
        throw error;
      });
      assert.equal(
        await failing.then(
          () => 'committed',
          (thrown) => thrown,
        ),
        error,
      );
      assert.equal(tries, 1);
    }
    assert.equal(await papers.countDocuments(), 0);
    await takeOver(world, 'a');
    let tries = 0;
    const guarded = async (session) => {
      tries += 1;
      await lease.guard(session);
    };
    const loss = await client.withSession((session) =>
      session.withTransaction(() => guarded(session)).catch((error) => error),
    );
    assert.ok(loss instanceof LeaseLostError);
    assert.deepEqual([loss.code, loss.isTransient, tries], ['LOST', false, 1]);
  });

  test('a holder that is killed in a transaction delays the next one by its ttl', async (t) => {
    const world = World.of(t);
    const { leases } = await setUp(world);
    const program = `
      import { MongoClient } from 'mongodb';
      import { LeaseManager } from 'mongo-lease';
      const client = new MongoClient(${JSON.stringify(uri)});
      const db = client.db(${JSON.stringify(world.name)});
      const lease = await new LeaseManager(db, { ttl: 1000 }).acquire('a');
      await lease.transaction(async (session) => {
        await db.collection('papers').insertOne({ _id: 1 }, { session });
        console.log(session.id.id.toString('hex'));
        await new Promise((resolve) => setTimeout(resolve, 600_000));
      });
    `;
    const options = { cwd: new URL('..', import.meta.url), stdio: ['ignore', 'pipe', 'inherit'] };
    const holder = spawn(process.execPath, ['--input-type=module', '-e', program], options);
    const ended = once(holder, 'exit');
    const [id] = await once(createInterface(holder.stdout), 'line');
    // The server would have its transaction for a minute, and drop no database meanwhile.
    const admin = world.client().db('admin');
    world.onEnd(() => admin.command({ killSessions: [{ id: new UUID(id) }] }));
    holder.kill('SIGKILL');
    await ended;
    const next = await within(PATIENCE, leases.acquire('a', { wait: 120_000 }));
    assert.ok(next, 'the transaction of the killed holder blocks the lease');
    await next.release();
  });

  test('a standalone server is told, before anything is sent', async (t) => {
    const world = World.of(t);
    const at = await ownServer(world, 'standalone');
    const client = world.client(at, { monitorCommands: true });
    const leases = new LeaseManager(client.db('standalone'), { ensureIndexes: true });
    world.onEnd(() => leases.close());
    const lease = await leases.acquire('a');
    const sent = sentBy(client);
    const unsupported = {
      code: 'UNSUPPORTED',
      message: 'unsupported: a transaction under a lease needs a replica set',
    };
    await assert.rejects(
      lease.transaction(() => assert.fail()),
      unsupported,
    );
    const session = client.startSession();
    session.startTransaction();
    await assert.rejects(lease.guard(session), unsupported);
    await session.endSession();
    assert.deepEqual(named(sent, 'find').concat(named(sent, 'update')), []);
  });
});

test('permits, readers and leases in memory have no transactions', async (t) => {
  const world = World.of(t);
  const { client, leases } = await setUp(world);
  const reader = await leases.acquire('shared', { shared: true });
  const permit = await leases.semaphore('five', 5).acquire();
  const sent = sentBy(client);
  const message =
    'unsupported: `transaction` works for exclusive leases only: transactions of two holders would conflict';
  for (const lease of [reader, permit]) {
    await assert.rejects(
      lease.transaction(() => assert.fail()),
      { code: 'UNSUPPORTED', message },
    );
  }
  assert.deepEqual(
    sent.filter(({ command }) => command.autocommit === false),
    [],
  );
  const lease = await inMemory().manager().acquire('a');
  const inMemoryOnly = {
    code: 'UNSUPPORTED',
    message: 'unsupported: a store in memory has no transactions',
  };
  await assert.rejects(
    lease.transaction(() => assert.fail()),
    inMemoryOnly,
  );
  await assert.rejects(lease.guard(client.startSession()), inMemoryOnly);
  const other = await leases.acquire('a');
  await assert.rejects(other.transaction('work'), {
    code: 'INVALID_OPTION',
    message: 'work: must be a function',
  });
});

test('after a conflict the next try guards first, and commits', async (t) => {
  const world = World.of(t);
  const { client, leases, papers } = await setUp(world);
  const lease = await leases.acquire('a');
  const sent = sentBy(client);
  let tries = 0;
  await lease.transaction(async (session) => {
    tries += 1;
    await papers.insertOne({ _id: tries }, { session });
    // Another write to the lease's document, behind the transaction's snapshot.
    if (tries === 1) await lease.renew();
    else assert.equal(guards(sent).length, 2, 'the second try has guarded already');
  });
  assert.deepEqual([tries, guards(sent).length], [2, 2]);
  assert.deepEqual(await papers.distinct('_id'), [2]);
  // It is remembered for the next transaction of the lease only where that is needed.
  tries = 0;
  await lease.transaction(async () => void (tries += 1));
  assert.equal(tries, 1);
  const order = sent
    .filter(({ command }) => command.autocommit === false)
    .map(({ commandName }) => commandName);
  assert.deepEqual(order.slice(-3), ['find', 'update', 'commitTransaction']);
});

test('of many that wait, each commits by its second try', async (t) => {
  const world = World.of(t);
  const { papers } = await setUp(world);
  const locks = world.db().collection('locks');
  const all = Array.from({ length: 8 }, (_, number) => {
    const client = world.client();
    const papers = world.db(client).collection('papers');
    return { number, leases: world.manager({ waiterTtl: 1500 }, client), papers };
  });
  let waiting = all.length;
  const tries = all.map(() => 0);
  const work = async ({ number, leases, papers }) => {
    const lease = await leases.acquire('a', { wait: 300_000 });
    waiting -= 1;
    await lease.transaction(async (session) => {
      tries[number] += 1;
      await papers.insertOne({ _id: number }, { session });
      if (tries[number] > 1 || waiting === 0) return;
      // Until somebody who waits has written to the document: a join, or a heartbeat.
      const seen = JSON.stringify(await locks.findOne({ name: 'a' }));
      while (JSON.stringify(await locks.findOne({ name: 'a' })) === seen);
    });
    await lease.release();
  };
  await Promise.all(all.map(work));
  assert.equal(await papers.countDocuments(), all.length);
  assert.ok(
    tries.every((count) => count <= 2),
    `${tries}`,
  );
  // The control: there were conflicts.
  assert.ok(
    tries.some((count) => count === 2),
    `${tries}`,
  );
});

test('a loss before the commit is told, and no commit is sent', async (t) => {
  const world = World.of(t);
  const { client, leases, papers } = await setUp(world);
  const sent = sentBy(client);
  for (const guardsFirst of [false, true]) {
    const name = `first ${guardsFirst}`;
    const lease = await leases.acquire(name);
    let tries = 0;
    const losing = lease.transaction(async (session) => {
      tries += 1;
      await papers.insertOne({ _id: 1 }, { session });
      if (guardsFirst && tries === 1) await lease.renew();
      // One that guards first has no take-over: an operator ends the lease there, and the update waits.
      else if (!guardsFirst) await takeOver(world, name);
      else await leases.close();
    });
    const reason = guardsFirst ? 'released' : 'takenOver';
    await assert.rejects(losing, { code: 'LOST', reason, isTransient: false });
    assert.deepEqual(named(sent, 'commitTransaction'), []);
    await writeBeside(world, 1);
    await world.db().collection('papers').deleteMany({});
  }
});

test('a callback that does not end delays no loss, and what it does afterwards is not written', async (t) => {
  const world = World.of(t);
  const { leases, papers } = await setUp(world, { ttl: 2000 });
  const lease = await leases.acquire('a', { renew: false });
  let goOn;
  const held = new Promise((resolve) => (goOn = resolve));
  let late;
  const lost = lease.transaction(async (session) => {
    await papers.insertOne({ _id: 1 }, { session });
    await held;
    late = papers.insertOne({ _id: 2 }, { session });
    await late;
  });
  await assert.rejects(lost, { code: 'LOST', reason: 'endedAsAsked' });
  // What it has written blocks nobody.
  await writeBeside(world, 1);
  goOn();
  await new Promise((resolve) => setImmediate(resolve));
  await assert.rejects(late, { code: 251 });
  assert.equal(await papers.countDocuments({ _id: 2 }), 0);
});

test('an operation that an error overtakes is aborted with its transaction', async (t) => {
  const world = World.of(t);
  const { client, leases, papers } = await setUp(world);
  const lease = await leases.acquire('a');
  for (let _id = 0; _id < 10; _id += 1) {
    const isSent = new Promise((resolve) => {
      client.on('commandStarted', ({ commandName }) => commandName === 'insert' && resolve());
    });
    const failing = lease.transaction(async (session) => {
      void papers.insertOne({ _id }, { session }).catch(() => undefined);
      await isSent;
      throw new Error('no');
    });
    await assert.rejects(failing, /^Error: no$/);
    await writeBeside(world, _id);
  }
  assert.equal(await papers.countDocuments({ beside: true }), 10);
});

test('an operation that the callback did not wait for is never sent outside', async (t) => {
  const world = World.of(t);
  const client = world.client(undefined, { monitorCommands: true, appName: world.name });
  const { leases, papers } = await setUp(world, {}, client);
  const lease = await leases.acquire('a');
  const sent = sentBy(client);
  const late = [];
  let session;
  const insert = () =>
    late.push(papers.insertOne({ _id: late.length }, { session }).catch(() => undefined));
  const failing = lease.transaction(async (its) => {
    session = its;
    await papers.findOne({}, { session });
    throw new Error('no');
  });
  client.on(
    'commandSucceeded',
    ({ commandName }) => commandName === 'abortTransaction' && insert(),
  );
  await assert.rejects(failing, /^Error: no$/);
  insert();
  // The driver takes a transaction for over once its commit has failed.
  await failCommand(world, world.name, 'commitTransaction', UNKNOWN, { times: 4 });
  client.on('commandFailed', ({ commandName }) => commandName === 'commitTransaction' && insert());
  await lease.transaction(async (its) => {
    session = its;
    await papers.findOne({}, { session });
  });
  insert();
  assert.ok(late.length > 4);
  await Promise.all(late);
  const outside = named(sent, 'insert').filter(({ command }) => command.autocommit !== false);
  assert.deepEqual(outside, []);
});

test('the callback cannot end the transaction', async (t) => {
  const world = World.of(t);
  const { client, leases, papers } = await setUp(world);
  const lease = await leases.acquire('a');
  const sent = sentBy(client);
  const refused = {
    code: 'INVALID_OPTION',
    option: 'session',
    message: /`transaction` ends its transaction itself/,
  };
  const work = lease.transaction(async (session) => {
    await papers.insertOne({ _id: 1 }, { session });
    await assert.rejects(session.commitTransaction(), refused);
    await assert.rejects(session.abortTransaction(), refused);
    assert.throws(() => session.startTransaction(), /already in progress/);
    await assert.rejects(
      session.withTransaction(async () => undefined),
      /already in progress/,
    );
    await session.commitTransaction();
  });
  await assert.rejects(work, refused);
  const ended = lease.transaction(async (session) => {
    await papers.insertOne({ _id: 2 }, { session });
    await session.endSession();
    await assert.rejects(papers.insertOne({ _id: 3 }, { session }), /expired session/);
  });
  await assert.rejects(ended, refused);
  assert.deepEqual(named(sent, 'commitTransaction'), []);
  assert.equal(await papers.countDocuments(), 0);
});

describe('after the commit was sent', () => {
  test('a lost reply repeats the commit alone', async (t) => {
    const world = World.of(t);
    const proxy = await Proxy.start(world);
    const { leases, papers } = await setUp(world, {}, world.client(proxy.uri));
    const lease = await leases.acquire('a');
    const isLost = proxy.loseNextReply('commitTransaction');
    let tries = 0;
    await lease.transaction(async (session) => {
      tries += 1;
      await papers.insertOne({ _id: tries }, { session });
    });
    await isLost;
    assert.equal(tries, 1);
    assert.equal(await world.db().collection('papers').countDocuments(), 1);
    const count = (name) => proxy.sent.filter((sent) => sent.name === name).length;
    assert.equal(count('commitTransaction'), 2);
    const guarded = proxy.sent.filter(
      ({ name, command }) => name === 'update' && command.autocommit === false,
    );
    assert.equal(guarded.length, 1);
  });

  test('a loss of the lease is no error', async (t) => {
    const world = World.of(t);
    const client = world.client(undefined, { monitorCommands: true, appName: world.name });
    const { leases, papers } = await setUp(world, { ttl: 1000 }, client);
    const lease = await leases.acquire('a');
    // The transaction is open meanwhile, and nobody can renew the lease.
    const off = await failCommand(world, world.name, 'commitTransaction', UNKNOWN);
    let tries = 0;
    const committed = lease.transaction(async (session) => {
      tries += 1;
      await papers.insertOne({ _id: 1 }, { session });
      return 'done';
    });
    const sent = sentBy(client);
    await lossOf(lease);
    await off();
    assert.equal(await committed, 'done');
    assert.deepEqual([tries, guards(sent).length], [1, 1]);
    assert.ok(named(sent, 'commitTransaction').length > 1);
    assert.equal(await papers.countDocuments(), 1);
  });

  test('where nobody knows, that is said, and it is not transient', async (t) => {
    const world = World.of(t);
    const client = world.client(undefined, { monitorCommands: true, appName: world.name });
    const { leases, papers } = await setUp(world, {}, client);
    const lease = await leases.acquire('a');
    const off = await failCommand(world, world.name, 'commitTransaction', { errorCode: 50 });
    let tries = 0;
    const unknown = await lease
      .transaction(async (session) => {
        tries += 1;
        await papers.insertOne({ _id: 1 }, { session });
      })
      .catch((error) => error);
    await off();
    assert.ok(unknown instanceof CommitUnknownError, `${unknown}`);
    assert.deepEqual([unknown.code, unknown.isTransient, tries], ['COMMIT_UNKNOWN', false, 1]);
    assert.match(
      unknown.message,
      /^whether the transaction under lease "a" was committed is unknown: /,
    );
    assert.equal(unknown.cause.code, 50);
  });

  test('where the server has aborted it, all of it is repeated', async (t) => {
    const world = World.of(t);
    const client = world.client(undefined, { monitorCommands: true, appName: world.name });
    const { leases, papers } = await setUp(world, {}, client);
    const lease = await leases.acquire('a');
    const fault = { errorCode: 251, errorLabels: ['TransientTransactionError'] };
    await failCommand(world, world.name, 'commitTransaction', fault, { times: 1 });
    let tries = 0;
    await lease.transaction(async (session) => {
      tries += 1;
      await papers.insertOne({ _id: tries }, { session });
    });
    assert.equal(tries, 2);
    assert.deepEqual(await papers.distinct('_id'), [2]);
  });
});

describe('one that outlives the validity', () => {
  const tooLong = (error) => {
    assert.ok(error instanceof TransactionTooLongError, `${error?.stack}`);
    assert.deepEqual([error.code, error.isTransient], ['TRANSACTION_TOO_LONG', false]);
    assert.match(error.message, /give the lease a ttl longer than 1s 500ms, or do less/);
    return true;
  };

  test('names the ttl, where it guards first', async (t) => {
    const world = World.of(t);
    const { leases, papers } = await setUp(world, { ttl: 1500 });
    const lease = await leases.acquire('a');
    let tries = 0;
    const outlived = lease.transaction(async (session) => {
      tries += 1;
      await papers.insertOne({ _id: 1 }, { session });
      if (tries === 1) await lease.renew();
      else await lossOf(lease);
    });
    await assert.rejects(outlived, tooLong);
    await writeBeside(world, 1);
    await assert.rejects(
      lease.transaction(() => assert.fail()),
      tooLong,
    );
  });

  test('names the ttl, where it guards last and was renewed meanwhile', async (t) => {
    const world = World.of(t);
    const { client, leases, papers } = await setUp(world, { ttl: 1500 });
    const lease = await leases.acquire('a');
    const outlived = lease.transaction(async (session) => {
      const begun = performance.now();
      await papers.insertOne({ _id: 1 }, { session });
      while (performance.now() < begun + 1500) await once(client, 'commandSucceeded');
    });
    await assert.rejects(outlived, tooLong);
    assert.equal(await papers.countDocuments(), 0);
  });
});

test('renewals are held back until a third of the validity is left', async (t) => {
  const world = World.of(t);
  const ttl = 3000;
  const { client, leases, papers } = await setUp(world, { ttl });
  const lease = await leases.acquire('a');
  let left;
  await lease.transaction(async (session) => {
    await papers.insertOne({ _id: 1 }, { session });
    if (left !== undefined) return;
    left = await new Promise((resolve) => {
      client.on(
        'commandStarted',
        ({ commandName }) => commandName === 'update' && resolve(lease.remaining()),
      );
    });
  });
  assert.ok(left <= ttl / 3, `renewed when ${left} ms were left`);
  assert.ok(lease.isValid());
});

test('it waits for a renewal that is under way', async (t) => {
  const world = World.of(t);
  const proxy = await Proxy.start(world);
  const client = world.client(proxy.uri, { monitorCommands: true });
  // A renewal has a fifth of the ttl for its answer.
  const { leases, papers } = await setUp(world, { ttl: 15_000 }, client);
  const lease = await leases.acquire('a');
  const answer = await proxy.holdNextReply('update');
  const sent = sentBy(client);
  const done = lease.transaction((session) => papers.insertOne({ _id: 1 }, { session }));
  // The pool serves who asks first: without the wait, the transaction has begun when these are answered.
  for (let times = 0; times < 5; times += 1) await client.db('admin').command({ ping: 1 });
  const hasBegun = () => sent.some(({ command }) => command.startTransaction);
  const hasBegunTooSoon = hasBegun();
  answer();
  await done;
  assert.deepEqual([hasBegunTooSoon, hasBegun()], [false, true]);
});

test('a guard whose reply is lost blocks nobody, where it is the first operation', async (t) => {
  const world = World.of(t);
  const proxy = await Proxy.start(world);
  const client = world.client(proxy.uri, { monitorCommands: true });
  const { leases } = await setUp(world, {}, client);
  const lease = await leases.acquire('a');
  // The first try guards last and conflicts: the next guard is the first operation of the second one.
  const isLost = new Promise((resolve) => {
    client.once('commandFailed', () => proxy.loseNextReply('update').then(resolve));
  });
  const sent = sentBy(client);
  let tries = 0;
  const done = lease.transaction(async () => {
    tries += 1;
    if (tries === 1) await lease.renew();
  });
  assert.ok(
    await within(
      PATIENCE,
      done.then(() => true),
    ),
    'the lease is blocked',
  );
  await isLost;
  assert.equal(tries, 2);
  assert.equal(guards(sent).length, 3);
  await lease.release();
});

test('a close aborts open transactions', async (t) => {
  const world = World.of(t);
  const { leases, papers } = await setUp(world);
  const lease = await leases.acquire('a');
  let isOpen;
  const opened = new Promise((resolve) => (isOpen = resolve));
  const open = lease.transaction(async (session) => {
    await papers.insertOne({ _id: 1 }, { session });
    isOpen();
    await new Promise(() => undefined);
  });
  const told = assert.rejects(open, { code: 'LOST', reason: 'released' });
  await opened;
  assert.deepEqual(await leases.close(), { released: 1, leftToExpire: [], commandsLeft: 0 });
  await told;
  await writeBeside(world, 1);
  assert.deepEqual(await papers.distinct('_id'), [1]);
  assert.equal((await papers.findOne({ _id: 1 })).beside, true);
});

test('a client that is closed aborts open transactions', async (t) => {
  const world = World.of(t);
  const { client, leases, papers } = await setUp(world);
  const lease = await leases.acquire('a');
  let goOn;
  const held = new Promise((resolve) => (goOn = resolve));
  let isOpen;
  const opened = new Promise((resolve) => (isOpen = resolve));
  const open = lease.transaction(async (session) => {
    await papers.insertOne({ _id: 1 }, { session });
    isOpen();
    await held;
  });
  const told = assert.rejects(open, { code: 'INVALID_OPTION', option: 'session' });
  await opened;
  await client.close();
  goOn();
  await told;
  await writeBeside(world, 1);
});

test('a queue is served while transactions go on', async (t) => {
  const world = World.of(t);
  const { leases, papers } = await setUp(world);
  const lease = await leases.acquire('a');
  const other = world.client();
  const theirs = world.db(other).collection('papers');
  const next = world.manager({}, other).acquire('a', { wait: 120_000 });
  await queueOf(world.db(), 'a', 1);
  await lease.transaction((session) => papers.insertOne({ _id: 1 }, { session }));
  await lease.release();
  const granted = await within(PATIENCE, next);
  await granted.transaction((session) => theirs.insertOne({ _id: 2 }, { session }));
  assert.equal(await papers.countDocuments(), 2);
  await granted.release();
});
