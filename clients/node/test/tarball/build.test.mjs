// The build: the core is kept with the hash of its sources, so that a change to TypeScript alone needs no Rust.

import assert from 'node:assert/strict';
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { freshFolder, run } from './help.mjs';

const root = fileURLToPath(new URL('../../../..', import.meta.url));
const node = join(root, 'clients', 'node');
const { sources } = JSON.parse(readFileSync(join(node, 'src/core/sources.json'), 'utf8'));

/** A checkout that has been built, on a machine without cargo. */
function checkout() {
  const copy = freshFolder();
  const files = ['package.json', 'tsconfig.json', 'scripts', 'src'].map(
    (file) => `clients/node/${file}`,
  );
  for (const file of [...sources, ...files, 'LICENSE-MIT', 'LICENSE-APACHE']) {
    mkdirSync(dirname(join(copy, file)), { recursive: true });
    cpSync(join(root, file), join(copy, file), { recursive: true });
  }
  symlinkSync(join(node, 'node_modules'), join(copy, 'clients/node/node_modules'));
  return copy;
}

const build = (copy) => {
  const script = join(copy, 'clients/node/scripts/build.mjs');
  return run(copy, process.execPath, [script], { PATH: '/nonexistent' });
};

test('a change to TypeScript is built without cargo', async () => {
  const copy = checkout();
  appendFileSync(join(copy, 'clients/node/src/fifo.ts'), 'export const changed = 1;\n');
  await build(copy);
  const dist = join(copy, 'clients/node/dist');
  assert.match(readFileSync(join(dist, 'fifo.js'), 'utf8'), /changed = 1/);
  const program =
    "require('./index.js').inMemory().manager().acquire('a').then(({ name }) => console.log(name))";
  symlinkSync(join(node, 'node_modules'), join(copy, 'node_modules'));
  assert.equal(await run(dist, process.execPath, ['-e', program]), 'a\n');
});

const CHANGED = [
  'Cargo.lock',
  'Cargo.toml',
  'clients/node/wasm/build/src/main.rs',
  'clients/node/wasm/src/lib.rs',
  'core/src/rules/holder.rs',
  'memory/src/leases.rs',
  'src/failure/mod.rs',
];

for (const source of CHANGED) {
  test(`a change to ${source} builds the core anew`, async () => {
    const copy = checkout();
    assert.ok(existsSync(join(copy, source)));
    appendFileSync(join(copy, source), '\n');
    await assert.rejects(build(copy), /cargo is missing/);
  });
}

test('without a kept core it is built', async () => {
  const copy = checkout();
  rmSync(join(copy, 'clients/node/src/core'), { recursive: true });
  await assert.rejects(build(copy), /cargo is missing/);
});
