// Builds the package: the core, which is kept (`core.mjs`), and TypeScript.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildCore } from './core.mjs';

const here = resolve(dirname(fileURLToPath(import.meta.url)), '..');
const root = resolve(here, '../..');
const dist = join(here, 'dist');

export async function build() {
  buildCore();
  rmSync(dist, { recursive: true, force: true });
  // Comments are in the declarations and in the sources, which source maps name.
  const declarations = tsc('--emitDeclarationOnly', '--declarationMap');
  await Promise.all([
    declarations,
    tsc('--noCheck', '--declaration', 'false', '--sourceMap', '--removeComments'),
  ]);
  keepPublicDeclarations();
  mkdirSync(join(dist, 'core'));
  for (const file of ['core.js', 'module.js'])
    cpSync(join(here, 'src/core', file), join(dist, 'core', file));
  for (const licence of ['LICENSE-MIT', 'LICENSE-APACHE'])
    cpSync(join(root, licence), join(here, licence));
}

async function tsc(...options) {
  const program = createRequire(import.meta.url).resolve('typescript/bin/tsc');
  const compiler = spawn(process.execPath, [program, '-p', here, ...options], { stdio: 'inherit' });
  const [code] = await once(compiler, 'exit');
  if (code !== 0) process.exit(code ?? 1);
}

/** Removes the declarations that no public one refers to. */
function keepPublicDeclarations() {
  const pending = ['index.d.ts'];
  const kept = new Set();
  for (const file of pending) {
    if (kept.has(file)) continue;
    kept.add(file);
    const declarations = readFileSync(join(dist, file), 'utf8');
    for (const [, name] of declarations.matchAll(/(?:from |import\()'\.\/(.+?)'/g))
      pending.push(`${name}.d.ts`);
  }
  for (const file of readdirSync(dist)) {
    const isDeclaration = /\.d\.ts(\.map)?$/.test(file);
    if (isDeclaration && !kept.has(file.replace(/\.map$/, ''))) rmSync(join(dist, file));
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await build();
