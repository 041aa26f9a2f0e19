// What a newcomer does first, with the packed package alone: its examples in a project of their own, under the tests of
// this repository, and three tasks that no example has. `runtimes`, `types` and `bundlers` have the other tasks.

import assert from 'node:assert/strict';
import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { World } from '../help.mjs';
import { install, run } from './help.mjs';

const tests = fileURLToPath(new URL('..', import.meta.url));
let folder;

before(async () => {
  folder = await install('tasks', 'invoice.mjs', 'semaphore.mjs', 'faked.mjs');
  const examples = join(folder, 'node_modules', 'mongo-lease', 'examples');
  cpSync(examples, join(folder, 'examples'), { recursive: true });
  mkdirSync(join(folder, 'test'));
  // The tests of the examples get the package from here.
  writeFileSync(join(folder, 'index.mjs'), "export * from 'mongo-lease';\n");
  cpSync(join(tests, 'help.mjs'), join(folder, 'test', 'help.mjs'));
});

/** Runs a test file of this repository in the project. Prints all that it says, if it fails. */
async function passes(file, ...beside) {
  for (const each of [file, ...beside]) cpSync(join(tests, each), join(folder, 'test', each));
  const told = ['--test', '--test-timeout=600000', join('test', file)];
  // Without this the runner takes the inner one for a file of its own.
  const printed = await run(folder, process.execPath, told, { NODE_TEST_CONTEXT: undefined });
  assert.match(printed, /^(#|ℹ) fail 0$/m);
  assert.doesNotMatch(printed, /^(#|ℹ) pass 0$/m);
}

test('a lock by Mongoose and by Redis, Koa, Fastify with DELETE, a queue, and a listing', async () => {
  await passes('examples.test.mjs');
});

test('a job on three processes whose clocks differ', async () => {
  await passes('cron.test.mjs', 'cron-job.mjs');
});

test("jobs of other people's schedulers", async () => {
  await passes('schedulers.test.mjs');
});

test('a Mongoose lock with a transaction', async (t) => {
  const env = { MONGODB_URI: World.of(t).uri };
  assert.equal(await run(folder, process.execPath, ['invoice.mjs'], env), '1 1 sent\n');
});

test('a semaphore over three processes', async (t) => {
  const env = { MONGODB_URI: World.of(t).uri };
  assert.equal(await run(folder, process.execPath, ['semaphore.mjs'], env), 'true 9\n');
});

test('a test in memory under fake timers', async () => {
  assert.equal(await run(folder, process.execPath, ['faked.mjs']), 'true\nfalse takenOver\n');
});
