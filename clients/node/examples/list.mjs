// A service that lists the locks of all processes: `GET /locks?pattern=job:*`, where `*` stands for any characters and `?`
// for one.

import { createServer } from 'node:http';
import { InvalidOptionError } from 'mongo-lease';

/** The service, for leases of this manager. */
export function listing(leases) {
  return createServer(async (request, response) => {
    const { pathname, searchParams } = new URL(request.url, 'http://localhost');
    const send = (status, body) => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    };
    if (request.method !== 'GET' || pathname !== '/locks') return send(404, { error: 'not found' });
    try {
      const locks = [];
      // The value is not shown: with it, anybody can release the lock.
      for await (const { name, owner, remaining } of leases.list({
        glob: searchParams.get('pattern') ?? '*',
      })) {
        locks.push({ name, owner, remaining });
      }
      send(200, locks);
    } catch (error) {
      send(error instanceof InvalidOptionError ? 400 : 503, { error: error.message });
    }
  });
}
