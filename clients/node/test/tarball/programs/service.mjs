// A small service: a request takes the lease of its path, or is answered 409. It asks itself, and ends. Its leases are
// in memory, or in the database of MONGODB_URI.

import { createServer } from 'node:http';
import { MongoClient } from 'mongodb';
import { LeaseBusyError, LeaseManager, inMemory } from 'mongo-lease';

function open() {
  const uri = process.env.MONGODB_URI;
  if (!uri) return { leases: inMemory().manager(), close: () => undefined };
  const client = new MongoClient(uri);
  return {
    leases: new LeaseManager(client.db(), { ensureIndexes: true }),
    close: () => client.close(),
  };
}

async function answer(leases, path) {
  try {
    const lease = await leases.acquire(path, { wait: 0 });
    return { status: 200, text: typeof lease.token };
  } catch (error) {
    if (!(error instanceof LeaseBusyError)) throw error;
    return { status: 409, text: `${error.name} ${error.code}` };
  }
}

async function main() {
  const { leases, close } = open();
  const server = createServer((request, response) => {
    void answer(leases, request.url).then(({ status, text }) =>
      response.writeHead(status).end(text),
    );
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  for (let turn = 0; turn < 2; turn += 1) {
    const headers = { connection: 'close' };
    const response = await fetch(`http://127.0.0.1:${server.address().port}/a`, { headers });
    console.log(response.status, await response.text());
  }
  await new Promise((resolve) => server.close(resolve));
  console.log('released', (await leases.close()).released);
  await close();
}

void main();
