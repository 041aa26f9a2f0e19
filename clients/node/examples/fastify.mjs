// A service that keeps a lock for each key: `POST /lock/:key/:id` takes it for this id, or answers 409. Each token is
// greater than those before, also where the id has the lock already.
//
// `DELETE /lock/:key/:id` gives it back at any instance, and nobody gives back the lock of another id. A graceful close
// releases everything.

import Fastify from 'fastify';
import { InvalidOptionError, LeaseBusyError } from 'mongo-lease';

/** The service, for leases of this manager. */
export function service(leases) {
  const app = Fastify();
  /** The leases that this instance renews, by key and id. */
  const held = new Map();

  app.setErrorHandler((error, request, reply) => {
    const status = error instanceof InvalidOptionError ? 400 : (error.statusCode ?? 500);
    return reply.code(status).send({ error: error.message });
  });

  app.post('/lock/:key/:id', async (request, reply) => {
    const { key, id } = request.params;
    try {
      const lease = await leases.acquire(`lock:${key}`, { wait: 0, value: id });
      const token = String(lease.token);
      await keep(`${key}/${id}`, lease);
      return { token };
    } catch (error) {
      if (!(error instanceof LeaseBusyError)) throw error;
      const seconds = Math.ceil((error.retryAfter ?? 1000) / 1000);
      return reply.code(409).header('retry-after', seconds).send({ error: 'locked' });
    }
  });

  /** Keeps the lease. The id may have it already, under an older token: each instance renews it once. */
  async function keep(place, lease) {
    const before = held.get(place);
    held.set(place, lease);
    lease.signal.addEventListener('abort', () => {
      if (held.get(place) === lease) held.delete(place);
    });
    // It may be lost.
    await before?.detach().catch(() => undefined);
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
