// A service that has the packed package in it, by each bundler, runs in a folder that has nothing else.

import assert from 'node:assert/strict';
import { cpSync, existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { promisify } from 'node:util';
import { World } from '../help.mjs';
import { freshFolder, fromTools, install, run } from './help.mjs';

const SERVED = '200 bigint\n409 LeaseBusyError BUSY\nreleased 1\n';
let folder;
let entry;

before(async () => {
  folder = await install('mongodb7', 'service.mjs');
  entry = join(folder, 'service.mjs');
});

/** Runs the bundle with leases in memory, and in a database. */
async function serves(t, bundle, file) {
  const alone = freshFolder();
  cpSync(bundle, alone, { recursive: true });
  assert.ok(existsSync(join(alone, file)), `${file} is not among ${readdirSync(alone)}`);
  assert.equal(await run(alone, process.execPath, [file]), SERVED);
  assert.equal(
    await run(alone, process.execPath, [file], { MONGODB_URI: World.of(t).uri }),
    SERVED,
  );
}

for (const minify of [false, true]) {
  test(`esbuild: the bundled service runs${minify ? ', minified' : ''}`, async (t) => {
    const outdir = join(folder, `esbuild-${minify}`);
    const { build } = fromTools('esbuild');
    const { warnings } = await build({
      absWorkingDir: folder,
      entryPoints: [entry],
      bundle: true,
      minify,
      platform: 'node',
      outdir,
      outExtension: { '.js': '.cjs' },
      logLevel: 'silent',
    });
    assert.deepEqual(warnings, []);
    await serves(t, outdir, 'service.cjs');
  });

  test(`webpack: the bundled service runs${minify ? ', minified' : ''}`, async (t) => {
    const path = join(folder, `webpack-${minify}`);
    const webpack = fromTools('webpack');
    const compiler = webpack({
      context: folder,
      entry,
      mode: minify ? 'production' : 'none',
      target: 'node20',
      output: { path, filename: 'service.cjs' },
    });
    const stats = await promisify(compiler.run.bind(compiler))();
    await promisify(compiler.close.bind(compiler))();
    const { errors, warnings } = stats.toJson({ all: false, errors: true, warnings: true });
    assert.deepEqual(errors, []);
    // The driver's own optional packages are not there.
    const ofOurs = warnings.filter(({ moduleName }) => moduleName?.includes('/mongo-lease/'));
    assert.deepEqual(ofOurs, []);
    await serves(t, path, 'service.cjs');
  });

  test(`Vite: the bundled service runs${minify ? ', minified' : ''}`, async (t) => {
    const outDir = join(folder, `vite-${minify}`);
    const { build } = await import(fromTools.resolve('vite'));
    await build({
      root: folder,
      configFile: false,
      logLevel: 'error',
      build: { ssr: entry, outDir, minify, target: 'node20' },
      ssr: { noExternal: true },
    });
    await serves(t, outDir, 'service.mjs');
  });
}
