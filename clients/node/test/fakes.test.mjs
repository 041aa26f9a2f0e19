// Fake timers of users' tests reach neither the clock nor the store in memory, whenever they are installed.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { inMemory } from '../index.mjs';

for (const [fakes, when] of [
  ['all', 'before'],
  ['all', 'after'],
  ['some', 'before'],
  ['some', 'after'],
  // Those of Node's own runner tell nobody the true ones.
  ['node', 'after'],
]) {
  test(`fake timers, ${fakes}, that are installed ${when} the package is loaded`, () => {
    const file = fileURLToPath(new URL('faked.mjs', import.meta.url));
    const told = execFileSync(process.execPath, [file, fakes, when], { timeout: 60_000 });
    assert.equal(told.toString(), 'works\n');
  });
}

test("the README's test of a lost lease", async () => {
  const readme = readFileSync(new URL('../README.md', import.meta.url), 'utf8');
  const [, lines] = /```js\n(test\('[^`]*)```/.exec(readme);
  const writeReport = (leases) =>
    leases.withLease(
      'report',
      ({ signal }) =>
        new Promise((_, stop) => {
          signal.addEventListener('abort', () => stop(new Error('the work was told first')));
        }),
    );
  const ran = [];
  new Function('test', 'inMemory', 'writeReport', 'assert', lines)(
    (name, body) => ran.push(body()),
    inMemory,
    writeReport,
    assert,
  );
  await Promise.all(ran);
  assert.equal(ran.length, 2);
});
