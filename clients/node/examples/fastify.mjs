// A service that keeps a lock for each key: `POST /lock/:key/:id` takes it for this id, or answers 409;
// `DELETE /lock/:key/:id` gives it back, and nobody gives back the lock of another id. A graceful close releases
// everything.

import Fastify from 'fastify';
import { LeaseBusyError } from 'mongo-lease';

/** The service, for leases of this manager. */
export function service(leases) {
  const app = Fastify();
  /** The leases that this process holds, by key, each with its id. */
  const held = new Map();

  app.post('/lock/:key/:id', async (request, reply) => {
    const { key, id } = request.params;
    const mine = held.get(key);
    if (mine?.id === id && mine.lease.isValid()) return { token: String(mine.lease.token) };
    try {
      const lease = await leases.acquire(`lock:${key}`, { wait: 0, metadata: { id } });
      held.set(key, { id, lease });
      lease.signal.addEventListener('abort', () => {
        if (held.get(key)?.lease === lease) held.delete(key);
      });
      return { token: String(lease.token) };
    } catch (error) {
      if (!(error instanceof LeaseBusyError)) throw error;
      const seconds = Math.ceil((error.retryAfter ?? 1000) / 1000);
      return reply.code(409).header('retry-after', seconds).send({ error: 'locked' });
    }
  });

  app.delete('/lock/:key/:id', async (request, reply) => {
    const { key, id } = request.params;
    const mine = held.get(key);
    if (mine?.id !== id) return reply.code(404).send({ error: 'not held' });
    held.delete(key);
    return { released: await mine.lease.release() };
  });

  // `app.close()` ends the requests first.
  app.addHook('onClose', () => leases.close());
  return app;
}
