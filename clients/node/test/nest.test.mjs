// The Nest example: two application contexts, as two pods have, beside a Rust process at the same names.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { NestFactory } from '@nestjs/core';
import { World } from './help.mjs';

const require = createRequire(import.meta.url);
const here = fileURLToPath(new URL('..', import.meta.url));
let example;

before(() => {
  const folder = fileURLToPath(new URL('../.test/nest', import.meta.url));
  const tsc = require.resolve('typescript/bin/tsc');
  const language = ['--target', 'es2022', '--lib', 'es2022,esnext.disposable', '--strict'];
  const modules = ['--module', 'node16', '--moduleResolution', 'node16', '--skipLibCheck'];
  const decorators = ['--experimentalDecorators', '--types', 'node'];
  const told = [tsc, 'examples/nest.ts', '--rootDir', '.', '--outDir', folder];
  const all = [...told, ...language, ...modules, ...decorators];
  execFileSync(process.execPath, all, { cwd: here, stdio: 'inherit' });
  example = require(`${folder}/examples/nest.js`);
});

/** A pod, whose printer keeps each of its runs until the test ends it. */
async function pod(world, options = {}) {
  const { LeaseModule, Printer, Reports } = example;
  const printed = [];
  let heard;
  /** The next run: its job, `finish` and `fail`. */
  const next = () => new Promise((resolve) => (heard = resolve));
  const print = (report, job) => {
    printed.push(report);
    return new Promise((finish, fail) => heard({ ...job, finish, fail }));
  };
  class App {}
  const imports = [LeaseModule.forRoot(world.db(), { ensureIndexes: true, ...options })];
  const providers = [Reports, { provide: Printer, useValue: { print } }];
  const root = { module: App, imports, providers };
  const app = await NestFactory.createApplicationContext(root, { logger: false });
  let closed;
  const close = () => (closed ??= app.close());
  world.onEnd(close);
  return { daily: () => app.get(Reports).daily(), printed, next, close };
}

test('Nest: a job runs in one pod at a time, and not while a Rust process has it', async (t) => {
  const world = World.of(t);
  const [one, other] = [await pod(world), await pod(world)];
  const rust = await world.rust();
  const begun = one.next();
  const daily = one.daily();
  const { lease, signal, finish } = await begun;
  // The others skip it: also another call in the same pod.
  await other.daily();
  await one.daily();
  assert.deepEqual([one.printed, other.printed], [['daily'], []]);
  assert.equal(await rust.ask('try report:daily', ''), 'busy');
  const { token } = lease;
  assert.equal(signal.aborted, false);
  finish();
  await daily;

  await rust.ask('acquire report:daily', 'granted');
  await Promise.all([one.daily(), other.daily()]);
  assert.deepEqual([one.printed, other.printed], [['daily'], []]);
  await rust.ask('release report:daily', 'Released');

  // Of two pods whose schedulers call at once, one runs it.
  const calls = [one, other].map((pod) => ({ begun: pod.next(), daily: pod.daily() }));
  const run = await Promise.race(calls.map(({ begun }) => begun));
  await Promise.race(calls.map(({ daily }) => daily));
  assert.equal(one.printed.length + other.printed.length, 2);
  assert.ok(run.lease.token > token);
  run.finish();
  await Promise.all(calls.map(({ daily }) => daily));
  assert.equal(one.printed.length + other.printed.length, 2);
});

test('Nest: a job hears of a loss by its signal, and is not told as done', async (t) => {
  const world = World.of(t);
  // A renewal finds the loss, after a third of the ttl.
  const one = await pod(world, { ttl: 6000 });
  const begun = one.next();
  const daily = one.daily();
  const { signal, finish } = await begun;
  const heard = once(signal, 'abort');
  // Another program takes the lease over.
  const { matchedCount } = await world
    .db()
    .collection('locks')
    .updateOne(
      { name: 'report:daily' },
      { $set: { value: 'foreign', expiresAt: new Date(Date.now() + 60_000) } },
    );
  assert.equal(matchedCount, 1);
  await heard;
  assert.equal(signal.reason.code, 'LOST');
  finish();
  await assert.rejects(daily, { name: 'LeaseLostError' });
});

test('Nest: on shutdown a job is told, and the lease is released when it has ended', async (t) => {
  const world = World.of(t);
  const one = await pod(world);
  const rust = await world.rust();
  const begun = one.next();
  const daily = one.daily();
  const { lease, signal, fail } = await begun;
  await rust.ask('wait report:daily', 'queued');
  const heard = once(signal, 'abort');
  const closing = one.close();
  await heard;
  assert.equal(lease.isValid(), true);
  assert.equal(await rust.ask('try report:daily', ''), 'busy');
  fail(new Error('half of it is printed'));
  await assert.rejects(daily, /half of it is printed/);
  await closing;
  await rust.line((line) => line.startsWith('granted report:daily'));
  // A pod that shuts down begins nothing.
  await one.daily();
  assert.deepEqual(one.printed, ['daily']);
});
