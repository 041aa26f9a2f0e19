// The examples do what they say, beside a Rust process at the same names.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import Koa from 'koa';
import mongoose from 'mongoose';
import { service } from '../examples/fastify.mjs';
import { oneAtATime } from '../examples/koa.mjs';
import { listing } from '../examples/list.mjs';
import { locks } from '../examples/mongoose-lock.mjs';
import { turn } from '../examples/queue.mjs';
import { redisLike } from '../examples/redis.mjs';
import { World, queueOf } from './help.mjs';

test('Fastify: a lock for each key, and a graceful close', async (t) => {
  const world = World.of(t);
  const rust = await world.rust();
  const [one, other] = [service(world.manager()), service(world.manager())];
  const ask = async (app, method, url) => {
    const { statusCode, headers, body } = await app.inject({ method, url });
    return { statusCode, retryAfter: headers['retry-after'], body: JSON.parse(body) };
  };
  const first = await ask(one, 'POST', '/lock/a/1');
  assert.equal(first.statusCode, 200);
  const taken = await ask(one, 'POST', '/lock/a/1');
  assert.ok(BigInt(taken.body.token) > BigInt(first.body.token));
  assert.equal((await ask(one, 'POST', '/lock/a/2')).statusCode, 409);
  const refused = await ask(other, 'POST', '/lock/a/2');
  assert.equal(refused.statusCode, 409);
  assert.ok(Number(refused.retryAfter) > 0);
  assert.equal(await rust.ask('try lock:a', ''), 'busy');
  // The same id has it by the other instance too.
  const again = await ask(other, 'POST', '/lock/a/1');
  assert.equal(again.statusCode, 200);
  assert.ok(BigInt(again.body.token) > BigInt(taken.body.token));
  const once = await ask(one, 'POST', '/lock/a/1');
  assert.ok(BigInt(once.body.token) > BigInt(again.body.token));
  assert.equal((await ask(other, 'DELETE', '/lock/a/2')).statusCode, 404);
  assert.deepEqual((await ask(other, 'DELETE', '/lock/a/1')).body, { released: 'released' });
  assert.equal((await ask(one, 'DELETE', '/lock/a/1')).statusCode, 404);
  assert.equal(await rust.ask('try lock:a', ''), 'granted');
  // That process releases it behind its answer, and a call that waits is granted it then.
  await (await world.manager().acquire('lock:a')).release();
  const anew = await ask(one, 'POST', '/lock/a/1');
  assert.ok(BigInt(anew.body.token) > BigInt(once.body.token));
  assert.equal((await ask(one, 'DELETE', '/lock/a/1')).statusCode, 200);
  const next = await ask(other, 'POST', '/lock/a/2');
  assert.ok(BigInt(next.body.token) > BigInt(anew.body.token));
  assert.equal((await ask(one, 'POST', '/lock/a/released:x')).statusCode, 400);
  await other.close();
  await rust.ask('acquire lock:a', 'granted');
  await one.close();
});

test('Mongoose: what one process has acquired, another one releases by its value', async (t) => {
  const world = World.of(t);
  const rust = await world.rust();
  const connect = async () => {
    const connection = mongoose.createConnection(world.uri);
    world.onEnd(() => connection.close());
    const service = locks(await connection.asPromise());
    world.onEnd(() => service.close());
    return service;
  };
  const [one, other] = [await connect(), await connect()];
  const value = await one.acquire('invoice:42', 60_000);
  assert.equal(await other.acquire('invoice:42', 60_000), null);
  assert.equal(await rust.ask('try invoice:42', ''), 'busy');
  assert.equal(await other.release('invoice:42', 'another'), false);
  assert.equal(await other.release('invoice:42', value), true);
  assert.equal(await other.release('invoice:42', value), false);
  assert.equal(await rust.ask('try invoice:42', ''), 'granted');
});

test('Redis: a key is locked once, and unlocked by its value alone', async (t) => {
  const world = World.of(t);
  const rust = await world.rust();
  const [one, other] = [redisLike(world.manager()), redisLike(world.manager())];
  assert.equal(await one.lock('key', 'mine', 60_000), true);
  assert.equal(await other.lock('key', 'yours', 60_000), false);
  assert.equal(await other.lock('key', 'mine', 60_000), false);
  assert.equal(await rust.ask('try key', ''), 'busy');
  assert.equal(await other.unlock('key', 'yours'), false);
  assert.equal(await other.unlock('key', 'mine'), true);
  assert.equal(await one.unlock('key', 'mine'), false);
  assert.equal(await rust.ask('try key', ''), 'granted');
});

test('queue: processes have their turns in the order in which they came', async (t) => {
  const world = World.of(t);
  const rust = await world.rust();
  await rust.ask('acquire door', 'granted');
  const [turns, ahead, leases] = [[], [], []];
  for (let number = 0; number < 3; number += 1) {
    const queued = new Promise((resolve) => {
      const told = (others) => resolve(ahead.push(others));
      const own = turn(world.manager(), 'door', { told });
      leases.push(own.then((lease) => (turns.push(number), lease)));
    });
    await queued;
  }
  assert.deepEqual(ahead, [0, 1, 2]);
  await rust.ask('release door', 'Released');
  for (const lease of leases) await (await lease).release();
  assert.deepEqual(turns, [0, 1, 2]);
  const leaving = new AbortController();
  await rust.ask('acquire door', 'granted');
  const left = assert.rejects(turn(world.manager(), 'door', { signal: leaving.signal }), /enough/);
  await queueOf(world.db(), 'door', 1);
  leaving.abort(new Error('enough'));
  await left;
  await queueOf(world.db(), 'door', 0);
});

test('list: the locks of all processes by a pattern, without their values', async (t) => {
  const world = World.of(t);
  const rust = await world.rust();
  const leases = world.manager({ owner: 'me' });
  const server = listing(world.manager()).listen(0, '127.0.0.1');
  await once(server, 'listening');
  world.onEnd(() => new Promise((resolve) => server.close(resolve).closeAllConnections()));
  await rust.ask('acquire job:1', 'granted');
  await leases.acquire('job:2');
  const other = await leases.acquire('other');
  const at = `http://127.0.0.1:${server.address().port}`;
  const get = async (path) => {
    const response = await fetch(at + path);
    return [response.status, await response.text()];
  };
  const [status, text] = await get('/locks?pattern=job:*');
  const found = JSON.parse(text);
  const owners = found.map(({ name, owner }) => [name, owner.split('@')[0]]);
  assert.deepEqual(
    [status, owners],
    [
      200,
      [
        ['job:1', 'rust'],
        ['job:2', 'me'],
      ],
    ],
  );
  assert.ok(found.every(({ remaining }) => remaining > 0));
  const all = await get('/locks');
  assert.equal(JSON.parse(all[1]).length, 3);
  assert.ok(!all[1].includes(other.value));
  assert.equal((await get('/elsewhere'))[0], 404);
  assert.equal((await get(`/locks?pattern=${'%00'}`))[0], 400);
});

test('Koa: of two servers, one handles a key at a time', async (t) => {
  const world = World.of(t);
  const rust = await world.rust();
  let finish;
  let begun;
  const working = new Promise((resolve) => (begun = resolve));
  const serve = async () => {
    const app = new Koa();
    app.use(oneAtATime(world.manager(), (context) => context.path.slice(1)));
    app.use(async (context) => {
      begun();
      if (context.path === '/slow') await new Promise((resolve) => (finish = resolve));
      context.body = String(context.state.lease.isValid());
    });
    const server = app.listen(0, '127.0.0.1');
    await once(server, 'listening');
    world.onEnd(() => new Promise((resolve) => server.close(resolve).closeAllConnections()));
    return `http://127.0.0.1:${server.address().port}`;
  };
  const [one, other] = [await serve(), await serve()];
  const slow = fetch(`${one}/slow`);
  await working;
  const refused = await fetch(`${other}/slow`);
  assert.equal(refused.status, 423);
  assert.ok(Number(refused.headers.get('retry-after')) > 0);
  assert.equal(await rust.ask('try route:slow', ''), 'busy');
  assert.equal(await (await fetch(`${other}/quick`)).text(), 'true');
  finish();
  assert.equal(await (await slow).text(), 'true');
  assert.equal(await rust.ask('try route:slow', ''), 'granted');
});

const quickstart = fileURLToPath(new URL('../examples/quickstart.mjs', import.meta.url));

async function quickstartBeside(world, file, args, env) {
  const rust = await world.rust();
  const granted = await rust.ask('acquire invoice:42', 'granted');
  const program = world.program(file, args, env);
  await queueOf(world.db(), 'invoice:42', 1);
  await rust.ask('release invoice:42', 'Released');
  const acquired = await program.line((line) => line.startsWith('acquired invoice:42 '));
  assert.ok(BigInt(acquired.split(' ')[2]) > BigInt(granted.split(' ')[2]));
  await program.line((line) => line === 'worked');
  await program.line((line) => line === 'released');
  // It ends by itself: no timer and no connection is left.
  assert.equal(await program.end(), 0);
  assert.equal(await rust.ask('try invoice:42', ''), 'granted');
}

test('Node: the quickstart waits for a Rust process, works, and ends', async (t) => {
  await quickstartBeside(World.of(t), process.execPath, [quickstart]);
});
