// Replies that are lost, late or uncertain, and commands that the driver must not repeat.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { World } from './help.mjs';
import { Proxy } from './proxy.mjs';

async function throughProxy(t, options) {
  const world = World.of(t);
  const proxy = await Proxy.start(world);
  const leases = world.manager(options, world.client(proxy.uri));
  await leases.ready();
  proxy.sent.length = 0;
  return { world, proxy, leases, locks: world.db().collection('locks') };
}

const count = (proxy, name) => proxy.sent.filter((sent) => sent.name === name).length;

test('a lost reply to an acquire yields one grant, without waiting for itself', async (t) => {
  const { proxy, leases, locks } = await throughProxy(t);
  const lost = proxy.loseNextReply('findAndModify');
  const started = performance.now();
  const lease = await leases.acquire('a');
  await lost;
  assert.ok(performance.now() - started < 5000, 'it waited for its own grant');
  const documents = await locks.find({ name: 'a' }).toArray();
  assert.equal(documents.length, 1);
  assert.equal(documents[0].value, lease.value);
  // The attempts carry the same value. The driver has repeated none of them: each is one of ours, with its own id.
  const attempts = proxy.sent.filter(({ name }) => name === 'findAndModify');
  assert.equal(attempts.length, 3, 'the lost one, a fast one and the slow one');
  const texts = attempts.map(({ command }) => JSON.stringify(command));
  assert.ok(texts.every((text) => text.includes(lease.value)));
  assert.equal(new Set(texts.map((text) => text.match(/-[0-9a-f]{32}\.\d+/)?.[0])).size, 3);
  assert.equal(await lease.release(), 'released');
  assert.equal(await locks.countDocuments({ name: 'a' }), 0);
});

test('a lost reply to a release is repeated, and frees nobody else', async (t) => {
  const { proxy, leases, locks } = await throughProxy(t);
  const lease = await leases.acquire('b');
  const lost = proxy.loseNextReply('delete');
  const released = await lease.release();
  await lost;
  // The first one may have released it, or the other: nobody knows.
  assert.equal(released, 'unknown');
  assert.equal(await locks.countDocuments({ name: 'b' }), 0);
});

test('a release without a majority is known for a valid lease', async (t) => {
  const world = World.of(t);
  const admin = world.client().db('admin');
  const appName = `unconfirmed-${world.name}`;
  const leases = world.manager({}, world.client(undefined, { appName }));
  await leases.ready();
  const fault = (mode) =>
    admin.command({
      configureFailPoint: 'failCommand',
      mode,
      data: {
        failCommands: ['delete'],
        writeConcernError: { code: 50, errmsg: 'as the test wants it' },
        appName,
      },
    });
  world.onEnd(() => fault('off'));
  const lease = await leases.acquire('h');
  await fault({ times: 1 });
  assert.equal(await lease.release(), 'released');
  // Valid, but ended by somebody else: no statement has matched.
  const other = await leases.acquire('h');
  await world.db().collection('locks').deleteOne({ name: 'h' });
  await fault({ times: 1 });
  assert.equal(await other.release(), 'notHeld');
});

test('a lost reply to a renewal is followed by another one, and the lease stays valid', async (t) => {
  const { proxy, leases } = await throughProxy(t, { ttl: 3000 });
  const lease = await leases.acquire('c');
  let isLost = false;
  lease.signal.addEventListener('abort', () => (isLost = true));
  const end = () => performance.now() + lease.remaining();
  const before = end();
  await proxy.loseNextReply('update');
  await lease.renew();
  assert.equal(isLost, false);
  assert.ok(end() > before, 'it was not renewed');
});

test('what an aborted call is granted late is given back', async (t) => {
  const { world, proxy, leases, locks } = await throughProxy(t);
  const stop = new AbortController();
  proxy.standStill();
  const call = leases.acquire('d', { signal: stop.signal });
  const refused = assert.rejects(call, { name: 'AbortError' });
  setImmediate(() => stop.abort());
  await refused;
  proxy.goOn();
  // Once its attempt is answered, the grant goes back: then another manager has it without waiting for the expiry.
  const lease = await world.manager().acquire('d', { wait: 20_000 });
  await lease.release();
  assert.equal(await locks.countDocuments({ name: 'd' }), 0);
});

test('the driver repeats no command of ours, although its own retries are on', async (t) => {
  const world = World.of(t);
  const admin = world.client().db('admin');
  const appName = `retries-${world.name}`;
  const client = world.client(undefined, { appName, retryWrites: true, monitorCommands: true });
  const leases = world.manager({}, client);
  await leases.ready();
  const sent = [];
  client.on('commandStarted', ({ commandName, command }) => {
    if (commandName === 'findAndModify') sent.push(command);
  });
  const fault = (mode) =>
    admin.command({
      configureFailPoint: 'failCommand',
      mode,
      data: {
        failCommands: ['findAndModify'],
        errorCode: 91,
        errorLabels: ['RetryableWriteError'],
        appName,
      },
    });
  await fault({ times: 1 });
  world.onEnd(() => fault('off'));
  const lease = await leases.acquire('e');
  // One that failed, and a fast one that finds the name free: an attempt with an id of its own, and no copy of the first.
  assert.equal(sent.length, 2);
  assert.notDeepEqual(sent[0].update, sent[1].update);
  assert.ok(sent.every(({ txnNumber }) => txnNumber === undefined));
  await lease.release();
});

test('what the server refuses is told with its code, and not repeated', async (t) => {
  const world = World.of(t);
  const admin = world.client().db('admin');
  const appName = `refused-${world.name}`;
  const client = world.client(undefined, { appName, monitorCommands: true });
  const leases = world.manager({}, client);
  await leases.ready();
  let started = 0;
  client.on(
    'commandStarted',
    ({ commandName }) => (started += Number(commandName === 'findAndModify')),
  );
  const fault = (mode) =>
    admin.command({
      configureFailPoint: 'failCommand',
      mode,
      data: { failCommands: ['findAndModify'], errorCode: 13, appName },
    });
  await fault('alwaysOn');
  world.onEnd(() => fault('off'));
  await assert.rejects(leases.acquire('g'), (error) => {
    assert.deepEqual([error.code, error.isTransient, error.cause.code], ['MONGODB', false, 13]);
    assert.match(
      error.message,
      /^the database failed: Command failed: Error code 13 \(Unauthorized\)/,
    );
    return true;
  });
  assert.equal(started, 1);
});

test('each wait ends by its deadline, although the database does not answer', async (t) => {
  const { proxy, leases } = await throughProxy(t, { shutdownTimeout: 300 });
  proxy.standStill();
  const started = performance.now();
  await assert.rejects(leases.acquire('f', { wait: 500 }), (error) => {
    assert.equal(error.code, 'WAIT_TIMEOUT');
    assert.match(
      error.message,
      /^lease "f" was not granted within .*; the database did not answer/,
    );
    return true;
  });
  const took = performance.now() - started;
  assert.ok(took >= 490 && took < 3000, `${took}`);
  assert.equal(count(proxy, 'findAndModify') <= 1, true);
  const closing = performance.now();
  const report = await leases.close();
  assert.ok(performance.now() - closing < 5000, 'the close waited for the database');
  assert.equal(report.released, 0);
  proxy.goOn();
});
