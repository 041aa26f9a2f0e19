// Builds the package: the core for WebAssembly by cargo, the JavaScript around it, and TypeScript.

import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = resolve(dirname(fileURLToPath(import.meta.url)), '..');
const root = resolve(here, '../..');
const TARGET = 'wasm32-unknown-unknown';

export function run(program, args, options = {}) {
  return execFileSync(program, args, { cwd: here, stdio: ['ignore', 'inherit', 'inherit'], ...options });
}

export function cargo(args, options) {
  return run('cargo', args, { cwd: root, ...options });
}

/** The folder in which cargo builds, wherever it was told to. */
export function targetFolder() {
  const stdio = ['ignore', 'pipe', 'inherit'];
  const args = ['metadata', '--format-version', '1', '--no-deps', '--locked'];
  return JSON.parse(cargo(args, { stdio, maxBuffer: 1e8 }).toString()).target_directory;
}

function hasTarget() {
  try {
    const stdio = ['ignore', 'pipe', 'inherit'];
    return run('rustup', ['target', 'list', '--installed'], { stdio }).toString().includes(TARGET);
  } catch {
    // Without rustup the target is there, or cargo says that it is not.
    return true;
  }
}

export function build() {
  if (!hasTarget()) run('rustup', ['target', 'add', TARGET]);
  cargo(['build', '--quiet', '--locked', '-p', 'mongo-lease-node', '--profile', 'wasm', '--target', TARGET]);
  const generated = join(here, 'src', 'core');
  rmSync(generated, { recursive: true, force: true });
  mkdirSync(generated);
  const module = join(targetFolder(), TARGET, 'wasm', 'mongo_lease_node.wasm');
  cargo(['run', '--quiet', '--locked', '-p', 'mongo-lease-node-build', '--', module, generated]);
  rmSync(join(generated, 'core_bg.wasm.d.ts'));
  rmSync(join(here, 'dist'), { recursive: true, force: true });
  const tsc = createRequire(import.meta.url).resolve('typescript/bin/tsc');
  run(process.execPath, [tsc, '-p', here]);
  cpSync(generated, join(here, 'dist', 'core'), { recursive: true });
  for (const licence of ['LICENSE-MIT', 'LICENSE-APACHE']) cpSync(join(root, licence), join(here, licence));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) build();
