// The requests of a worker, as the Rust workers make them: names, and their permits.

const READERS_MAX = 1000;
const KINDS = [1, 3, 5, 'document', 'any'];

export function exclusive(random, names) {
  return { name: `lease:${random.within(0, names)}`, permits: { count: 1, limit: 1 } };
}

export function shared(random) {
  const kind = random.any(KINDS);
  const name = typeof kind === 'number' ? `limit:${kind}` : kind;
  return { name, permits: permitsOf(random, kind) };
}

function permitsOf(random, kind) {
  if (kind === 'any') return permitsOf(random, random.any(KINDS.slice(0, -1)));
  if (kind === 'document') return { count: 1, limit: random.happens(0.3) ? 1 : READERS_MAX };
  return { count: random.happens(0.7) ? 1 : random.within(1, kind + 1), limit: kind };
}

/** The options of a call with these permits. */
export function optionsOf({ count, limit }) {
  if (limit === READERS_MAX) return { shared: true };
  return limit === 1 ? {} : { limit, permits: count };
}
