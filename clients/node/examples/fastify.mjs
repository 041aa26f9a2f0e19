// A service that keeps a lock for each key: `POST /lock/:key/:id` takes it for this id, or answers 409;
// `DELETE /lock/:key/:id` gives it back at any instance, and nobody gives back the lock of another id. A graceful close
// releases everything.

import Fastify from 'fastify';
import { InvalidOptionError, LeaseBusyError, LeaseLostError } from 'mongo-lease';

/** The service, for leases of this manager. */
export function service(leases) {
  const app = Fastify();
  /** The leases that this process holds, by key and id. */
  const held = new Map();

  app.setErrorHandler((error, request, reply) => {
    const status = error instanceof InvalidOptionError ? 400 : (error.statusCode ?? 500);
    return reply.code(status).send({ error: error.message });
  });

  app.post('/lock/:key/:id', async (request, reply) => {
    const { key, id } = request.params;
    try {
      const lease = await stillHeld(held.get(`${key}/${id}`));
      return { token: lease ? String(lease.token) : await take(key, id) };
    } catch (error) {
      if (!(error instanceof LeaseBusyError)) throw error;
      const seconds = Math.ceil((error.retryAfter ?? 1000) / 1000);
      return reply.code(409).header('retry-after', seconds).send({ error: 'locked' });
    }
  });

  /** Takes the lock for this id, and returns the token. */
  async function take(key, id) {
    const lease = await leases.acquire(`lock:${key}`, { wait: 0, value: id });
    // The id has the lock already: the instance that took it keeps it.
    if (lease.isGrantedAgain) return (await lease.detach()).token;
    const place = `${key}/${id}`;
    held.set(place, lease);
    lease.signal.addEventListener('abort', () => {
      if (held.get(place) === lease) held.delete(place);
    });
    return String(lease.token);
  }

  app.delete('/lock/:key/:id', async (request, reply) => {
    const { key, id } = request.params;
    const released = await leases.release(`lock:${key}`, id);
    if (released === 'notHeld') return reply.code(404).send({ error: 'not held' });
    return { released };
  });

  // `app.close()` ends the requests first.
  app.addHook('onClose', () => leases.close());
  return app;
}

/** The lease, unless another instance has given it back. */
async function stillHeld(lease) {
  try {
    await lease?.renew();
    return lease;
  } catch (error) {
    if (!(error instanceof LeaseLostError)) throw error;
    return undefined;
  }
}
