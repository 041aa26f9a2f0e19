// The servers of a run: mongod of the testbed, and Redis as it comes and with each write on the disk.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { cargo, targetFolder } from '../../scripts/core.mjs';

/** A replica set of one. */
export async function mongod() {
  cargo(['build', '--quiet', '--locked', '-p', 'mongo-lease-node-beside']);
  const program = join(targetFolder(), 'debug', 'mongo-lease-node-beside');
  const child = spawn(program, ['server'], { stdio: ['pipe', 'pipe', 'inherit'] });
  const [uri] = await once(createInterface(child.stdout), 'line');
  return { uri, end: () => child.stdin.end() };
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Redis with an empty folder; `undefined` where there is none. */
export async function redis(isSynced) {
  const [port, folder] = [await freePort(), mkdtempSync(join(tmpdir(), 'redis-'))];
  const synced = isSynced ? ['--appendonly', 'yes', '--appendfsync', 'always'] : [];
  const told = ['--port', `${port}`, '--bind', '127.0.0.1', '--dir', folder, ...synced];
  const child = spawn('redis-server', told, { stdio: ['ignore', 'pipe', 'inherit'] });
  const isStarted = await new Promise((resolve) => {
    child.once('error', () => resolve(false));
    createInterface(child.stdout).on('line', (line) => {
      if (line.includes('Ready to accept connections')) resolve(true);
    });
  });
  if (!isStarted) return undefined;
  const end = async () => {
    const ended = once(child, 'exit');
    child.kill();
    await ended;
    rmSync(folder, { recursive: true });
  };
  return { port, end };
}
