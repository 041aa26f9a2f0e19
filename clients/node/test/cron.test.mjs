// The cron example on three processes, beside a Rust process at the same name.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
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

test('cron: three processes run no tick twice, with one killed and one stopped', async (t) => {
  const world = World.of(t);
  const rust = await world.rust();
  const crew = new Crew(world);
  const is = (word, tick) => (said) => said.word === word && (tick ?? said.tick) === said.tick;
  const isAfter =
    ({ tick }) =>
    (said) =>
      said.word === 'run' && said.tick > tick;
  const all = [0, HOUR, -HOUR].map((shift) => crew.start(shift));
  await crew.until(is('done'), 3);

  // A process that is killed in a run.
  const killed = await crew.catchRun();
  killed.from.kill('SIGKILL');
  const afterKilled = await crew.until(isAfter(killed));
  assert.notEqual(afterKilled.from, killed.from);

  // One that is stopped in a run, until another has the lease.
  const stopped = await crew.catchRun();
  stopped.from.kill('SIGSTOP');
  const afterStopped = await crew.until(isAfter(stopped));
  assert.notEqual(afterStopped.from, stopped.from);
  stopped.from.kill('SIGCONT');
  const lost = await crew.until(is('lost', stopped.tick));
  assert.equal(lost.from, stopped.from);

  // A Rust process that has the name for some ticks.
  const db = world.db();
  const tickOfNow = async () =>
    Math.floor((await db.command({ hello: 1 })).localTime.getTime() / Number(EVERY));
  await rust.ask('acquire cron:report', 'granted');
  const first = await tickOfNow();
  let last = first;
  while (last < first + 5) last = await tickOfNow();
  await rust.ask('release cron:report', 'Released');
  await crew.until(isAfter({ tick: last }), 2);
  const meanwhile = crew
    .all('run')
    .map(({ tick }) => tick)
    .filter((tick) => tick > first && tick < last);
  assert.deepEqual(meanwhile, []);

  // Both end as told.
  for (const child of all.filter((child) => child !== killed.from)) {
    const ended = once(child, 'close');
    child.kill('SIGTERM');
    assert.deepEqual(await ended, [0, null]);
  }
  // The name is free when the tick is over.
  await rust.ask('acquire cron:report', 'granted');

  // Nothing has run twice, and later ticks have newer tokens.
  const runs = crew.all('run').sort((a, b) => a.tick - b.tick);
  assert.equal(new Set(runs.map(({ tick }) => tick)).size, runs.length);
  const tokens = runs.map(({ more }) => BigInt(more));
  assert.ok(
    tokens.every((token, place) => place === 0 || token > tokens[place - 1]),
    `${tokens}`,
  );
  // A run that was cut short is not told as done.
  const done = new Set(crew.all('done').map(({ tick }) => tick));
  assert.deepEqual([done.has(killed.tick), done.has(stopped.tick)], [false, false]);
});
