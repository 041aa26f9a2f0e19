// Runs the tests beside a server of the testbed, which finds or fetches mongod, and Rust processes.
//
// Arguments are parts of the names of the files to run. `--quick` stands for those that need neither a server nor luck.
// Those in `tarball` test the packed package: as `npm pack` makes it here, or the file that MONGO_LEASE_TARBALL names.

import { spawn, spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
} from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { cargo, targetFolder } from './core.mjs';

// In memory and in its own time, or without any: no fault, no load, and no wait.
const QUICK = [
  'arguments',
  'bounds',
  'campaign',
  'clock',
  'detach',
  'errors',
  'events',
  'fakes',
  'jobs',
  'memory',
  'own-value',
  'several',
  'shape',
  'texts',
  'turns',
];

const here = resolve(dirname(fileURLToPath(import.meta.url)), '..');
const tests = join(here, 'test');
const isQuick = process.argv.includes('--quick');
const only = process.argv.slice(2).filter((part) => !part.startsWith('--'));
const testsIn = (folder) => readdirSync(folder).filter((file) => file.endsWith('.test.mjs'));
const all = [
  ...testsIn(tests),
  ...testsIn(join(tests, 'tarball')).map((file) => `tarball/${file}`),
];
const isQuickOne = (file) => QUICK.includes(file.replace('.test.mjs', ''));
const isNamed = (file) => only.length === 0 || only.some((part) => file.includes(part));
const files = all.filter((file) => isNamed(file) && (!isQuick || isQuickOne(file)));

// The gates build it together with other packages, which share its driver.
const beside = process.env.MONGO_LEASE_BESIDE ?? build();

function build() {
  cargo(['build', '--quiet', '--locked', '-p', 'mongo-lease-node-beside']);
  return join(targetFolder(), 'debug', 'mongo-lease-node-beside');
}

const env = { ...process.env, MONGO_LEASE_BESIDE: beside };

/** Runs the tests in this folder. Each file is a process of its own, and one that hangs fails. */
function runIn(folder, files, driver) {
  // The limit is for all tests of a file together: it finds a hang, and is no measure of a busy machine.
  const told = ['--test', '--test-timeout=600000', '--test-concurrency=2'];
  const paths = files.map((file) => join(folder, file));
  const options = { env: { ...env, MONGO_LEASE_DRIVER: driver }, stdio: 'inherit' };
  return spawnSync(process.execPath, [...told, ...paths], options).status ?? 1;
}

/** The package and its tests once more, where `mongodb` is version 6. */
function withDriver6() {
  const folder = join(here, '.test', 'driver6');
  rmSync(folder, { recursive: true, force: true });
  for (const part of ['package.json', 'README.md', 'index.mjs', 'dist', 'test']) {
    const filter = (path) => !/beside|tarball/.test(relative(here, path));
    cpSync(join(here, part), join(folder, part), { recursive: true, filter });
  }
  mkdirSync(join(folder, 'node_modules'));
  symlinkSync(join(here, 'node_modules', 'mongodb6'), join(folder, 'node_modules', 'mongodb'));
  return join(folder, 'test');
}

/** Packs the package, and installs the programs of others with which it is tested. Returns the packed file. */
function pack() {
  const folder = join(here, '.test', 'packed');
  const npm = (at, ...args) => {
    const { status } = spawnSync('npm', args, { cwd: at, stdio: ['ignore', 'ignore', 'inherit'] });
    if (status !== 0) throw new Error(`npm ${args.join(' ')} has failed`);
  };
  const tools = join(tests, 'tarball', 'tools');
  const installed = join(tools, 'node_modules', '.package-lock.json');
  const isOlder = () =>
    statSync(installed).mtimeMs < statSync(join(tools, 'package-lock.json')).mtimeMs;
  if (!existsSync(installed) || isOlder())
    npm(tools, 'ci', '--ignore-scripts', '--no-audit', '--no-fund');
  if (process.env.MONGO_LEASE_TARBALL) return resolve(process.env.MONGO_LEASE_TARBALL);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  npm(here, 'pack', '--loglevel=error', '--pack-destination', folder);
  return join(folder, readdirSync(folder)[0]);
}

/** Starts a server, and returns its URI and what ends it with its mongod: so nothing is left running behind us. */
async function startServer() {
  const server = spawn(beside, ['server'], { stdio: ['pipe', 'pipe', 'inherit'] });
  const uri = await new Promise((found, failed) => {
    createInterface(server.stdout).once('line', found);
    server.once('exit', () => failed(new Error('the server has not started')));
  });
  const end = async () => {
    const ended = new Promise((resolve) => server.once('close', resolve));
    server.stdin.end();
    await ended;
  };
  return { uri, end };
}

if (isQuick) process.exit(runIn(tests, files, '7'));
mkdirSync(join(here, '.test'), { recursive: true });
env.MONGO_LEASE_NOT_RUN = join(here, '.test', 'not-run');
rmSync(env.MONGO_LEASE_NOT_RUN, { force: true });
if (files.some((file) => file.startsWith('tarball/'))) env.MONGO_LEASE_TARBALL = pack();
const server = await startServer();
env.MONGO_LEASE_URI = server.uri;
let status = runIn(tests, files, '7');
// What depends on the driver.
const ofDriver = files.filter((file) =>
  /^(promises|processes|lost-replies|guard|options|overload|transaction|unreachable|waiting)/.test(
    file,
  ),
);
if (status === 0 && ofDriver.length > 0) status = runIn(withDriver6(), ofDriver, '6');
await server.end();
if (existsSync(env.MONGO_LEASE_NOT_RUN)) console.log(readFileSync(env.MONGO_LEASE_NOT_RUN, 'utf8'));
process.exit(status);
