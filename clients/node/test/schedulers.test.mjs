// The examples for schedulers: node-cron's coordinator, and `@Cron` of Nest. Each fires in every process.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Injectable } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Cron, ScheduleModule } from '@nestjs/schedule';
import cron from 'node-cron';
import { coordinator } from '../examples/node-cron.mjs';
import { World } from './help.mjs';

const require = createRequire(import.meta.url);
const here = fileURLToPath(new URL('..', import.meta.url));
const EACH_SECOND = '* * * * * *';

test('node-cron: of three processes one runs each time of a task', async (t) => {
  const world = World.of(t);
  const [runs, skips] = [[], []];
  let enough;
  const all = new Promise((resolve) => (enough = resolve));
  const count = () => {
    if (runs.length >= 3 && skips.length >= 6) enough();
  };
  for (let number = 0; number < 3; number += 1) {
    const leases = world.manager();
    await leases.ready();
    const options = { name: 'backup', distributed: true, runCoordinator: coordinator(leases) };
    const run = ({ date }) => void runs.push(date.toISOString());
    const task = cron.schedule(EACH_SECOND, run, options);
    world.onEnd(() => task.destroy());
    task.on('execution:finished', count);
    task.on('execution:skipped', ({ date, reason }) => {
      skips.push([date.toISOString(), reason]);
      count();
    });
  }
  await all;
  // No time was run twice, and the others left it out because it was run elsewhere.
  assert.equal(new Set(runs).size, runs.length);
  assert.deepEqual([...new Set(skips.map(([, reason]) => reason))], ['not-elected']);
  const names = await world.db().collection('locks').distinct('name');
  assert.ok(
    names.length >= runs.length && names.every((name) => name.startsWith('cron:backup:')),
    `${names}`,
  );
});

test('node-cron: where the database is away, the time is left out', async (t) => {
  const { inMemory } = await import('../index.mjs');
  const store = inMemory();
  const { shouldRun, onComplete } = coordinator(store.manager());
  assert.equal(await shouldRun('a:1'), true);
  await onComplete('a:1');
  assert.equal(await shouldRun('a:1'), false);
  store.hang();
  const asked = assert.rejects(shouldRun('a:2'), { code: 'UNKNOWN' });
  await store.advance(20_000);
  await asked;
  await onComplete('a:2');
  t.after(() => store.goOn());
});

function nestExample() {
  const folder = fileURLToPath(new URL('../.test/nest-schedule', import.meta.url));
  const language = ['--target', 'es2022', '--lib', 'es2022,esnext.disposable', '--strict'];
  const modules = ['--module', 'node16', '--moduleResolution', 'node16', '--skipLibCheck'];
  const decorators = ['--experimentalDecorators', '--types', 'node'];
  const told = [
    'examples/nest.ts',
    '--rootDir',
    '.',
    '--outDir',
    folder,
    ...language,
    ...modules,
    ...decorators,
  ];
  execFileSync(process.execPath, [require.resolve('typescript/bin/tsc'), ...told], {
    cwd: here,
    stdio: 'inherit',
  });
  return require(`${folder}/examples/nest.js`);
}

test('Nest: of three pods whose schedules fire, one runs the job', async (t) => {
  const { LeaseModule, Leased, LeasedJobs } = nestExample();
  const world = World.of(t);
  let runs = 0;
  class Reports {
    async daily() {
      runs += 1;
    }
  }
  // The decorators as TypeScript calls them: the lower one first.
  const method = Object.getOwnPropertyDescriptor(Reports.prototype, 'daily');
  // Longer than the test.
  Leased('report:daily', { atLeast: 3_600_000 })(Reports.prototype, 'daily', method);
  Cron(EACH_SECOND)(Reports.prototype, 'daily', method);
  Object.defineProperty(Reports.prototype, 'daily', method);
  Injectable()(Reports);
  const fired = [0, 0, 0];
  let enough;
  const all = new Promise((resolve) => (enough = resolve));
  for (const pod of fired.keys()) {
    class App {}
    const imports = [
      ScheduleModule.forRoot(),
      LeaseModule.forRoot(world.db(), { ensureIndexes: true }),
    ];
    const app = await NestFactory.createApplicationContext(
      { module: App, imports, providers: [Reports] },
      { logger: false },
    );
    world.onEnd(() => app.close());
    const jobs = app.get(LeasedJobs);
    const run = jobs.run.bind(jobs);
    jobs.run = async (...told) => {
      await run(...told);
      fired[pod] += 1;
      if (fired.every((times) => times >= 2)) enough();
    };
  }
  await all;
  assert.equal(runs, 1);
});
