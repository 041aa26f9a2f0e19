// The cron example on three processes, beside a Rust process at the same name.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { runTick } from '../examples/cron.mjs';
import { fencedUpdate } from '../index.mjs';
import { World } from './help.mjs';

const here = fileURLToPath(new URL('..', import.meta.url));
const EVERY = '200';
// Longer than a process of a loaded machine is kept from its renewals.
const TTL = '4000';
const HOUR = 3_600_000;

/** The processes of one job, and all that they say: `{ from, word, tick, … }`. */
class Crew {
  said = [];
  #heard = new EventEmitter();
  #caught;

  constructor(world) {
    this.world = world;
  }

  /** Starts one whose clock differs by so much. */
  start(shift) {
    const clock = `const now = Date.now; Date.now = () => now() + ${shift};`;
    const preload = ['--import', `data:text/javascript,${encodeURIComponent(clock)}`];
    const program = ['examples/cron.mjs', 'report', EVERY, 'test/cron-job.mjs', TTL];
    const env = { ...process.env, MONGODB_URI: this.world.uri };
    const stdio = ['pipe', 'pipe', 'inherit'];
    const child = spawn(process.execPath, [...preload, ...program], { cwd: here, env, stdio });
    this.world.onEnd(() => child.kill('SIGKILL'));
    // It may have ended before it reads the word.
    child.stdin.on('error', () => undefined);
    createInterface(child.stdout).on('line', (line) => this.#hear(child, line.split(' ')));
    return child;
  }

  #hear(from, [word, tick, more]) {
    const said = { from, word, tick: Number(tick), more };
    this.said.push(said);
    if (word === 'run') {
      if (this.#caught) this.#caught(said);
      else from.stdin.write('finish\n');
      this.#caught = undefined;
    }
    this.#heard.emit('line');
  }

  /** The next run, which goes on until its process is told `finish`. */
  catchRun() {
    return new Promise((resolve) => (this.#caught = resolve));
  }

  /** Waits until so many lines from this place on fit. */
  async until(fits, count = 1, place = 0) {
    for (;;) {
      const found = this.said.slice(place).filter(fits);
      if (found.length >= count) return found[count - 1];
      await once(this.#heard, 'line');
    }
  }

  /** What the lines with this word tell. */
  all(word) {
    return this.said.filter((said) => said.word === word);
  }
}

test('cron: three processes begin no tick twice, with one killed and one stopped', async (t) => {
  const world = World.of(t);
  const rust = await world.rust();
  const crew = new Crew(world);
  const is = (word, tick) => (said) => said.word === word && (tick ?? said.tick) === said.tick;
  const all = [0, HOUR, -HOUR].map((shift) => crew.start(shift));
  await crew.until(is('done'), 3);

  // A process that is killed in a run.
  const killed = await crew.catchRun();
  killed.from.kill('SIGKILL');
  const notKilled = await crew.until(is('unfinished', killed.tick));
  assert.notEqual(notKilled.from, killed.from);

  // One that is stopped in a run, until another has the lease.
  const stopped = await crew.catchRun();
  stopped.from.kill('SIGSTOP');
  const notStopped = await crew.until(is('unfinished', stopped.tick));
  assert.notEqual(notStopped.from, stopped.from);
  stopped.from.kill('SIGCONT');
  const lost = await crew.until(is('lost', stopped.tick));
  assert.equal(lost.from, stopped.from);

  // A Rust process that has the name for some ticks.
  await rust.ask('acquire cron:report', 'granted');
  const held = crew.said.length;
  const alive = all.filter((child) => child !== killed.from);
  for (const child of alive) {
    await crew.until((said) => said.from === child && said.word === 'busy', 2, held);
  }
  assert.deepEqual(crew.said.slice(held).filter(is('run')), []);
  await rust.ask('release cron:report', 'Released');
  await crew.until(is('done'), 3, held);

  // Both end as told, and leave the name free.
  for (const child of alive) {
    const ended = once(child, 'close');
    child.kill('SIGTERM');
    assert.deepEqual(await ended, [0, null]);
  }
  assert.equal(await rust.ask('try cron:report', ''), 'granted');

  // Each tick has been begun once, or was told as skipped once.
  const ticks = crew.all('begun').map(({ tick }) => tick);
  for (const { tick, more } of crew.all('skipped')) {
    for (let skipped = tick; skipped <= Number(more); skipped += 1) ticks.push(skipped);
  }
  ticks.sort((a, b) => a - b);
  assert.deepEqual(ticks, ticks.map((_, place) => ticks[0] + place));
  // Nothing has run twice, and later ticks have newer tokens.
  const runs = crew.all('run').sort((a, b) => a.tick - b.tick);
  assert.equal(new Set(runs.map(({ tick }) => tick)).size, runs.length);
  const tokens = runs.map(({ more }) => BigInt(more));
  assert.ok(tokens.every((token, place) => place === 0 || token > tokens[place - 1]), `${tokens}`);
  // What was told as unfinished is not told as done.
  const done = new Set(crew.all('done').map(({ tick }) => tick));
  assert.deepEqual(crew.all('unfinished').filter(({ tick }) => done.has(tick)), []);
  assert.equal(crew.all('unfinished').filter(is('unfinished', killed.tick)).length, 1);
});

test('cron: a tick that failed or was finished is not begun again', async (t) => {
  const world = World.of(t);
  const said = [];
  const runs = [];
  let result = Promise.reject(new Error('no paper'));
  result.catch(() => undefined);
  const job = async ({ tick }) => {
    runs.push(tick);
    await result;
  };
  const stop = new AbortController().signal;
  const tell = (...words) => said.push(words.join(' '));
  const start = (every) => {
    const db = world.db();
    const leases = world.manager();
    return () => runTick({ leases, db, name: 'report', every, job, stop, tell });
  };
  // Within the first tick of a period of a century, and then within another one.
  const century = 100 * 365 * 24 * HOUR;
  const pods = [start(century), start(century), start(century)];
  await Promise.all(pods.map((pod) => pod()));
  for (const pod of pods) await pod();
  assert.deepEqual(runs, [0]);
  const failed = said.filter((line) => line !== 'busy');
  assert.deepEqual(failed, ['begun 0', 'failed 0 no paper']);
  result = Promise.resolve();
  const year = start(century / 100);
  await year();
  await year();
  const tick = runs[1];
  assert.deepEqual(runs, [0, tick]);
  const later = said.filter((line) => line !== 'busy').slice(2);
  const missed = ['unfinished 0', `skipped 1 ${tick - 1}`];
  assert.deepEqual(later, [...missed, `begun ${tick}`, `done ${tick}`]);
});

test('cron: a claim is refused after a late write of an earlier holder', async (t) => {
  const world = World.of(t);
  const db = world.db();
  const states = db.collection('cron');
  // It arrives between the read and the claim.
  const findOne = states.findOne.bind(states);
  states.findOne = async (filter) => {
    states.findOne = findOne;
    const found = await findOne(filter);
    const begin = { $set: { begun: 7 } };
    const late = await fencedUpdate(states, filter, begin, 1n, { upsert: true });
    assert.deepEqual([found, late.outcome], [null, 'applied']);
    return found;
  };
  const beside = { command: (command) => db.command(command), collection: () => states };
  const said = [];
  const runs = [];
  await runTick({
    leases: world.manager(),
    db: beside,
    name: 'report',
    every: 1000,
    job: async ({ tick }) => runs.push(tick),
    stop: new AbortController().signal,
    tell: (...words) => said.push(words),
  });
  assert.deepEqual([runs, said], [[], []]);
  assert.equal((await db.collection('cron').findOne({ _id: 'report' })).begun, 7);
});
