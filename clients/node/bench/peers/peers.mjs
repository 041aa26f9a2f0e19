// The same work with what Node's users take today: `npm ci && node peers.mjs` in this folder, after `npm run build` in
// `clients/node`. Redis is left out where there is no `redis-server`.
//
// The sides take turns, so that a busy moment slows all of them. Each figure is a median.

import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { mongod, redis } from './servers.mjs';
import { bare, mongoLease, mongodbLockSide, recipe, redlock, redlockUniversal } from './sides.mjs';

const PAIRS = Number(process.env.PAIRS ?? 1000);
const ROUNDS = Number(process.env.ROUNDS ?? 8);

const median = (times) => times.sort((one, other) => one - other)[times.length >> 1];

async function pairs(makers) {
  const sides = [];
  for (const [name, make] of makers) sides.push({ name, side: await make(), times: [] });
  for (let round = 0; round < PAIRS; round += 1) {
    for (const { side, times } of sides) {
      const name = randomUUID();
      const begun = performance.now();
      const release = await side.take(name);
      await release();
      times.push(performance.now() - begun);
    }
  }
  const floor = median(sides[0].times.slice(PAIRS / 5));
  for (const { name, side, times } of sides) {
    const time = median(times.slice(PAIRS / 5));
    console.log(`pair | ${name} | ${time.toFixed(2)} ms | ${(time / floor).toFixed(2)}`);
    await side.close();
  }
}

/** From the call of a release until the next one has the lock. */
async function handOffs(makers, waiting) {
  for (const [name, make] of makers) {
    const sides = [];
    for (let each = 0; each <= waiting; each += 1) sides.push(await make());
    const times = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      const line = `line ${round}`;
      let released;
      const first = await sides[0].take(line);
      const all = sides.slice(1).map(async (side) => {
        const release = await side.wait(line);
        times.push(performance.now() - released);
        released = performance.now();
        await release();
      });
      // No library tells when another one waits.
      await sleep(500);
      released = performance.now();
      await first();
      await Promise.all(all);
    }
    console.log(`hand-off, ${waiting} waiting | ${name} | ${median(times).toFixed(2)} ms`);
    for (const side of sides) await side.close();
  }
}

const servers = [await mongod(), await redis(false), await redis(true)];
const [mongo, asItComes, synced] = servers;
const onMongo = [
  ['mongo-lease', () => mongoLease(mongo.uri)],
  ['the Mongoose recipe', () => recipe(mongo.uri)],
  ['mongodb-lock', () => mongodbLockSide(mongo.uri)],
];
const on = (server, where) =>
  server === undefined
    ? []
    : [
        [`redlock, Redis ${where}`, () => redlock(server.port)],
        [`redlock-universal, Redis ${where}`, () => redlockUniversal(server.port)],
      ];
const all = [...onMongo, ...on(asItComes, 'as it comes'), ...on(synced, 'synced')];
await pairs([['bare insert and delete', () => bare(mongo.uri)], ...all]);
for (const waiting of [1, 10, 50]) await handOffs(all, waiting);
for (const server of servers) await server?.end();
