// The examples do what they say, beside a Rust process at the same names.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import Koa from 'koa';
import { service } from '../examples/fastify.mjs';
import { oneAtATime } from '../examples/koa.mjs';
import { World, queueOf } from './help.mjs';

test('Fastify: a lock for each key, and a graceful close', async (t) => {
  const world = World.of(t);
  const rust = await world.rust();
  const [one, other] = [service(world.manager()), service(world.manager())];
  const ask = async (app, method, url) => {
    const { statusCode, headers, body } = await app.inject({ method, url });
    return { statusCode, retryAfter: headers['retry-after'], body: JSON.parse(body) };
  };
  const taken = await ask(one, 'POST', '/lock/a/1');
  assert.equal(taken.statusCode, 200);
  assert.deepEqual(await ask(one, 'POST', '/lock/a/1'), taken);
  assert.equal((await ask(one, 'POST', '/lock/a/2')).statusCode, 409);
  const refused = await ask(other, 'POST', '/lock/a/2');
  assert.equal(refused.statusCode, 409);
  assert.ok(Number(refused.retryAfter) > 0);
  assert.equal(await rust.ask('try lock:a', ''), 'busy');
  assert.equal((await ask(one, 'DELETE', '/lock/a/2')).statusCode, 404);
  assert.deepEqual((await ask(one, 'DELETE', '/lock/a/1')).body, { released: 'released' });
  const next = await ask(other, 'POST', '/lock/a/2');
  assert.ok(BigInt(next.body.token) > BigInt(taken.body.token));
  await other.close();
  await rust.ask('acquire lock:a', 'granted');
  await one.close();
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
