// The core for WebAssembly: cargo builds it, and it is kept in `src/core` with the hash of its sources. It is built
// again where they differ, so a change to TypeScript alone needs no Rust.

import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, constants } from 'node:zlib';

const here = resolve(dirname(fileURLToPath(import.meta.url)), '..');
const root = resolve(here, '../..');
const kept = join(here, 'src', 'core');
const record = join(kept, 'sources.json');
const TARGET = 'wasm32-unknown-unknown';
// Cargo's list of source files leaves these out: manifests, the profile, locked versions, and what makes the
// JavaScript.
const BESIDE_SOURCES = [
  'Cargo.lock',
  'Cargo.toml',
  'core/Cargo.toml',
  'memory/Cargo.toml',
  'clients/node/scripts/core.mjs',
  'clients/node/wasm/Cargo.toml',
  'clients/node/wasm/driver/Cargo.toml',
  'clients/node/wasm/build/Cargo.toml',
  'clients/node/wasm/build/src/main.rs',
];
// How the JavaScript that wasm-bindgen writes for Node reads the module.
const READS_FILE = `const wasmPath = \`\${__dirname}/core_bg.wasm\`;
const wasmBytes = require('fs').readFileSync(wasmPath);
`;
const READS_MODULE = `const packed = Buffer.from(require('./module.js'), 'base64');
const wasmBytes = require('node:zlib').brotliDecompressSync(packed);
`;

const told = { stdio: ['ignore', 'pipe', 'inherit'], maxBuffer: 1e8 };

export function cargo(args, options) {
  const how = { cwd: root, stdio: ['ignore', 'inherit', 'inherit'], ...options };
  try {
    return execFileSync('cargo', args, how);
  } catch (error) {
    if (error.code !== 'ENOENT') throw error;
    throw new Error('cargo is missing, which rustup installs', { cause: error });
  }
}

/** The folder in which cargo builds, wherever it was told to. */
export function targetFolder() {
  const args = ['metadata', '--format-version', '1', '--no-deps', '--locked'];
  return JSON.parse(cargo(args, told).toString()).target_directory;
}

/** Builds the core, unless the kept one has these sources. */
export function buildCore() {
  const { sha256, sources = [] } = readRecord();
  if (sha256 === undefined || sha256 !== hashOf(sources)) buildAnew();
}

function buildAnew() {
  if (!hasTarget()) execFileSync('rustup', ['target', 'add', TARGET], { stdio: 'inherit' });
  cargo([
    'build',
    '--quiet',
    '--locked',
    '-p',
    'mongo-lease-node',
    '--profile',
    'wasm',
    '--target',
    TARGET,
  ]);
  rmSync(kept, { recursive: true, force: true });
  mkdirSync(kept);
  const built = join(targetFolder(), TARGET, 'wasm', 'mongo_lease_node');
  cargo([
    'run',
    '--quiet',
    '--locked',
    '-p',
    'mongo-lease-node-build',
    '--',
    `${built}.wasm`,
    kept,
  ]);
  inline();
  const sources = [...BESIDE_SOURCES, ...sourcesIn(`${built}.d`)].sort();
  // Written last: what was interrupted is built again.
  writeFileSync(record, JSON.stringify({ sha256: hashOf(sources), sources }, null, 1));
}

/** Puts the module into a JavaScript file, where bundlers find it. */
function inline() {
  const file = join(kept, 'core.js');
  const glue = readFileSync(file, 'utf8');
  if (glue.split(READS_FILE).length !== 2)
    throw new Error(`${file} reads its module in another way`);
  writeFileSync(
    file,
    glue.replace(READS_FILE, () => READS_MODULE),
  );
  const module = join(kept, 'core_bg.wasm');
  const bytes = readFileSync(module);
  const params = {
    [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY,
    [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length,
  };
  const text = brotliCompressSync(bytes, { params }).toString('base64');
  writeFileSync(join(kept, 'module.js'), `module.exports = '${text}';\n`);
  rmSync(module);
  rmSync(`${module}.d.ts`);
}

/** The source files of this repository that the module was compiled from, as cargo lists them. */
function sourcesIn(list) {
  const [, paths] = readFileSync(list, 'utf8').split('.wasm: ');
  const files = paths
    .trim()
    .split(/(?<!\\) /)
    .map((path) => path.replaceAll('\\ ', ' '));
  // Pages are documentation of the crates, and in no module.
  const code = files.filter((file) => !file.endsWith('.md'));
  return code.map((file) => relative(root, resolve(root, file)));
}

function readRecord() {
  return existsSync(record) ? JSON.parse(readFileSync(record, 'utf8')) : {};
}

/** The hash of these files of the repository; none where one is missing. */
function hashOf(files) {
  const hash = createHash('sha256');
  for (const file of files) {
    const path = join(root, file);
    if (!existsSync(path)) return undefined;
    hash.update(`${file}\0`).update(readFileSync(path)).update('\0');
  }
  return hash.digest('hex');
}

function hasTarget() {
  try {
    return execFileSync('rustup', ['target', 'list', '--installed'], told)
      .toString()
      .includes(TARGET);
  } catch {
    // Without rustup the target is there, or cargo says that it is not.
    return true;
  }
}
