// Shared by the tests of the packed package: fresh folders that have nothing but what npm installs there, and other
// people's tools.

import { execFile } from 'node:child_process';
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const here = fileURLToPath(new URL('.', import.meta.url));
/** The packed package. `scripts/test.mjs` makes it, unless it is told of another one. */
export const tarball = process.env.MONGO_LEASE_TARBALL;
export const tools = join(here, 'tools');
export const fromTools = createRequire(join(tools, 'package.json'));

/** A folder outside of the repository, so that nothing is found in a `node_modules` above it. */
export function freshFolder() {
  const folder = mkdtempSync(join(tmpdir(), 'mongo-lease-'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A fresh folder with a project of `projects`, the packed package in it, and these programs of `programs`. */
export async function install(project, ...programs) {
  const folder = freshFolder();
  cpSync(join(here, 'projects', project), folder, { recursive: true });
  cpSync(tarball, join(folder, 'mongo-lease.tgz'));
  // The package that is tested is another one each time.
  const lockFile = join(folder, 'package-lock.json');
  const lock = JSON.parse(readFileSync(lockFile, 'utf8'));
  delete lock.packages['node_modules/mongo-lease'].integrity;
  writeFileSync(lockFile, JSON.stringify(lock));
  const quietly = [
    '--ignore-scripts',
    '--no-audit',
    '--no-fund',
    '--prefer-offline',
    '--loglevel=error',
  ];
  await run(folder, 'npm', ['ci', ...quietly]);
  for (const program of programs) cpSync(join(here, 'programs', program), join(folder, program));
  return folder;
}

/** Runs a program, and returns what it prints. If it fails, the error has all that it has printed. */
export async function run(folder, program, args, env = {}) {
  const options = { cwd: folder, env: { ...process.env, ...env }, maxBuffer: 1e8 };
  try {
    return (await promisify(execFile)(program, args, options)).stdout;
  } catch (error) {
    throw new Error(`${error.message}\n${error.stdout}`, { cause: error });
  }
}

/** The path of a program of `tools`. Says so where this machine cannot have it, and skips the test. */
export function programOf(test, name, path) {
  const program = join(tools, 'node_modules', path());
  if (existsSync(program)) return program;
  const why = `for want of ${name} for ${process.platform}-${process.arch}`;
  // `scripts/test.mjs` prints it at the end.
  appendFileSync(process.env.MONGO_LEASE_NOT_RUN, `NOT RUN, ${why}: ${test.name}\n`);
  test.skip(why);
  return undefined;
}
