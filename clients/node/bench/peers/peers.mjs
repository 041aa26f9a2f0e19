// The same work with what Node's users take today: `npm ci && node peers.mjs` in this folder, after `npm run build` in
// `clients/node`. `node peers.mjs pair 'hand-off 1'` measures these alone. Redis is left out where there is no
// `redis-server`.
//
// The sides take turns, so that a busy moment slows all of them. Each figure is a median.

import { spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { grownBy, hold } from '../memory.mjs';
import { mongod, redis } from './servers.mjs';
import * as sides from './sides.mjs';
import { bare, mongoLease, mongodbLockSide, recipe, redlock, redlockUniversal } from './sides.mjs';

const PAIRS = Number(process.env.PAIRS ?? 1000);
/** How often a lock goes from hand to hand, at least. */
const HAND_OFFS = Number(process.env.HAND_OFFS ?? 24);

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
    for (let round = 0; round < Math.max(8, HAND_OFFS / waiting); round += 1) {
      const line = `line ${round}`;
      let released;
      const first = await sides[0].take(line);
      const all = sides.slice(1).map(async (side) => {
        const release = await side.wait(line);
        times.push(performance.now() - released);
        released = performance.now();
        await release();
      });
      // No library tells when another one waits. A release comes at any moment between two looks of a poller.
      await sleep(500 + 100 * Math.random());
      released = performance.now();
      await first();
      await Promise.all(all);
    }
    console.log(`hand-off, ${waiting} waiting | ${name} | ${median(times).toFixed(2)} ms`);
    for (const side of sides) await side.close();
  }
}

/** A thousand locks, each renewed once: by the library when they are due, or by a call for each. */
async function renewals(makers) {
  for (const [name, make] of makers) {
    const side = await make();
    const held = await hold(side.take, 1000);
    const before = await side.commands();
    const cpu = process.cpuUsage();
    // The first renewals are due after a third of the ttl at the latest.
    if (side.renewsItself) await sleep(sides.TTL_MS / 3 + 1500);
    else await Promise.all(held.map((each) => each.renew()));
    const { user, system } = process.cpuUsage(cpu);
    const commands = (await side.commands()) - before;
    const took = ((user + system) / 1e3).toFixed(0);
    console.log(`renewing 1,000 | ${name} | ${commands} commands | ${took} ms of a processor`);
    await Promise.all(held.map((release) => release()));
    await side.close();
  }
}

/** By how much a process grows with 10,000 held locks, in a process of its own. */
function memory(makers) {
  for (const [name, , side, server] of makers) {
    const told = ['--expose-gc', fileURLToPath(import.meta.url), '--memory', side, `${server}`];
    const child = spawnSync(process.execPath, told, { stdio: ['ignore', 'pipe', 'inherit'] });
    const { status, stdout } = child;
    if (status !== 0) throw new Error(`${name}: the measurement of its memory failed`);
    console.log(`a held lock | ${name} | ${stdout.toString().trim()} bytes`);
  }
}

if (process.argv[2] === '--memory') {
  const [, , , side, server] = process.argv;
  const { take } = await sides[side](server);
  console.log(await grownBy(take, (release) => release()));
  // Its locks end with its servers.
  process.exit();
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
        [`redlock, Redis ${where}`, () => redlock(server.port), 'redlock', server.port],
        [
          `redlock-universal, Redis ${where}`,
          () => redlockUniversal(server.port),
          'redlockUniversal',
          server.port,
        ],
      ];
const all = [...onMongo, ...on(asItComes, 'as it comes'), ...on(synced, 'synced')];
const floor = ['bare insert and delete', () => bare(mongo.uri)];
const counted = () => mongoLease(mongo.uri, true);
const renewing = [
  ['mongo-lease', counted, 'mongoLease', mongo.uri],
  ...on(asItComes, 'as it comes'),
];
const cases = {
  pair: () => pairs([floor, ...all]),
  'hand-off 1': () => handOffs(all, 1),
  'hand-off 10': () => handOffs(all, 10),
  'hand-off 50': () => handOffs(all, 50),
  renewing: () => renewals(renewing),
  memory: () => memory(renewing),
};
const wanted = process.argv.slice(2);
for (const [name, measure] of Object.entries(cases)) {
  if (wanted.length === 0 || wanted.includes(name)) await measure();
}
for (const server of servers) await server?.end();
