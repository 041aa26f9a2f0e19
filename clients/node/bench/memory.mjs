// The memory of held locks, measured in a process of its own that was started with `--expose-gc`.

import { randomUUID } from 'node:crypto';

/** Takes so many locks of new names, forty at a time. */
export async function hold(take, count) {
  const held = [];
  const one = async () => {
    while (held.length < count) {
      const place = held.push(undefined) - 1;
      held[place] = await take(randomUUID());
    }
  };
  await Promise.all(Array.from({ length: 40 }, one));
  return held;
}

function resident() {
  globalThis.gc();
  return process.memoryUsage().rss;
}

/** By how many bytes the process grows for each of 10,000 locks that it holds. */
export async function grownBy(take, release) {
  for (const held of await hold(take, 1000)) await release(held);
  const before = resident();
  await hold(take, 10_000);
  return Math.round((resident() - before) / 10_000);
}
