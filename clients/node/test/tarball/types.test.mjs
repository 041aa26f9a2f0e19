// The types of the packed package, by the strict compiler, which checks the declarations of all packages too.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { World } from '../help.mjs';
import { install, run, tools } from './help.mjs';

const COMPILERS = ['typescript', 'typescript7'];
// The first that has all that the declarations use.
const OLDEST = 'typescript54';
const OPTIONS = {
  strict: true,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  skipLibCheck: false,
  target: 'es2022',
  module: 'nodenext',
  moduleResolution: 'nodenext',
  types: ['node'],
  rootDir: '.',
  outDir: 'out',
};

/** Compiles these programs with each compiler, and runs them with Node. Returns what they print. */
async function compileAndRun(t, folder, programs, compilers = COMPILERS) {
  const files = Object.keys(programs);
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions: OPTIONS, files }));
  for (const compiler of compilers) {
    const tsc = join(tools, 'node_modules', compiler, 'bin', 'tsc');
    await run(folder, process.execPath, [tsc, '-p', '.']);
    for (const [program, printed] of Object.entries(programs)) {
      const compiled = join('out', program.replace(/ts$/, 'js'));
      const env = { MONGODB_URI: World.of(t).uri };
      assert.equal(await run(folder, process.execPath, [compiled], env), printed);
    }
  }
}

const STRICT = 'held bigint\nfree\nfalse\n0\n';
const MONGOOSE = 'paid\nsent\napplied\nheld\n';

test('a strict program compiles beside driver 7, as a module and as CommonJS', async (t) => {
  const folder = await install('mongodb7', 'strict.mts', 'strict.cts');
  const programs = { 'strict.mts': STRICT, 'strict.cts': 'true\n' };
  await compileAndRun(t, folder, programs, [OLDEST, ...COMPILERS]);
});

test('a strict program compiles beside Mongoose 9, whose driver is another copy', async (t) => {
  const folder = await install('mongoose9', 'strict.mts', 'mongoose.mts');
  await compileAndRun(t, folder, { 'strict.mts': STRICT, 'mongoose.mts': MONGOOSE });
});

test('a strict program compiles beside Mongoose 8, whose driver is another copy', async (t) => {
  const folder = await install('mongoose8', 'mongoose.mts');
  await compileAndRun(t, folder, { 'mongoose.mts': MONGOOSE });
});

test('a strict program compiles beside copies of the driver of two major versions', async (t) => {
  const folder = await install('copies', 'mongoose.mts', 'copies.mts');
  await compileAndRun(t, folder, { 'mongoose.mts': MONGOOSE, 'copies.mts': 'bigint\n' });
});
