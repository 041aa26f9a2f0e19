// The packed package under each runtime that its README names: with `import`, with `require`, and the README's first
// program.

import assert from 'node:assert/strict';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { World, uri } from '../help.mjs';
import { install, programOf, run } from './help.mjs';

const SERVED = '200 bigint\n409 LeaseBusyError BUSY\nreleased 1\n';
const NODES = ['node20', 'node22'];
let folder;

before(async () => {
  folder = await install('mongodb7', 'service.mjs', 'both.cjs');
});

for (const node of NODES) {
  test(`${node}: a service runs, and import and require are one package`, async (t) => {
    const program = programOf(t, node, () => `${node}/bin/node`);
    if (!program) return;
    assert.ok((await run(folder, program, ['--version'])).startsWith(`v${node.slice(4)}.`));
    assert.equal(await run(folder, program, ['service.mjs']), SERVED);
    assert.equal(await run(folder, program, ['both.cjs']), 'true true\ntrue\n');
    assert.equal(
      await run(folder, program, ['service.mjs'], { MONGODB_URI: World.of(t).uri }),
      SERVED,
    );
  });
}

test('Deno: a service runs with the permissions that the README names', async (t) => {
  const deno = programOf(
    t,
    'deno',
    () => `@deno/${process.platform}-${process.arch}${libc()}/deno`,
  );
  if (!deno) return;
  const readme = readFileSync(join(folder, 'node_modules/mongo-lease/README.md'), 'utf8');
  const permissions = /^Deno needs `(.*)`\.$/m.exec(readme)[1].split(' ');
  const told = ['run', '--no-prompt', '--no-remote', '--cached-only', ...permissions];
  const env = { DENO_DIR: join(folder, '.deno'), DENO_NO_UPDATE_CHECK: '1' };
  assert.equal(await run(folder, deno, [...told, 'service.mjs'], env), SERVED);
  env.MONGODB_URI = World.of(t).uri;
  assert.equal(await run(folder, deno, [...told, 'service.mjs'], env), SERVED);
  cpSync(
    join(folder, 'node_modules/mongo-lease/examples/quickstart.mjs'),
    join(folder, 'quickstart.mjs'),
  );
  const printed = await run(folder, deno, [...told, 'quickstart.mjs'], env);
  assert.match(printed, /^acquired invoice:42 \d+\nworked\nreleased\n$/);
});

test('Bun: a service runs, and import and require are one package', async (t) => {
  const bun = programOf(t, 'bun', () => `@oven/bun-${process.platform}-${process.arch}/bin/bun`);
  if (!bun) return;
  assert.equal(await run(folder, bun, ['--no-install', 'service.mjs']), SERVED);
  assert.equal(await run(folder, bun, ['--no-install', 'both.cjs']), 'true true\ntrue\n');
  const env = { MONGODB_URI: World.of(t).uri };
  assert.equal(await run(folder, bun, ['--no-install', 'service.mjs'], env), SERVED);
});

test("the README's first program runs on a fresh database", async (t) => {
  const world = World.of(t);
  const readme = readFileSync(join(folder, 'node_modules/mongo-lease/README.md'), 'utf8');
  const program = /^```js\n(.*?)^```$/ms.exec(readme)[1];
  const told = program.replace(/'mongodb:\/\/.*'/, () => JSON.stringify(uri));
  assert.notEqual(told, program);
  writeFileSync(
    join(folder, 'first.mjs'),
    told.replaceAll("'billing'", JSON.stringify(world.name)),
  );
  assert.equal(await run(folder, process.execPath, ['first.mjs']), '');
  const indexes = await world.db().collection('locks').indexes();
  assert.deepEqual(indexes.map(({ name }) => name).sort(), ['_id_', 'expiresAt_1', 'name_1']);
});

/** The part for Linux in the name of Deno's package. */
function libc() {
  return process.platform === 'linux' ? '-glibc' : '';
}
