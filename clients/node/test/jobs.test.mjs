// Jobs: every process starts them, and one runs them. In the store's own time.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inspect } from 'node:util';
import { inMemory } from '../index.mjs';

const MINUTE = 60_000;

/** The code and the text of the error of a call. */
async function refusal(call) {
  try {
    await call();
    return undefined;
  } catch (error) {
    return `${error.code} ${error.message}`;
  }
}

/** A promise, and what settles it. */
function gate() {
  let open;
  const opened = new Promise((resolve) => (open = resolve));
  return { opened, open };
}

/** The tick of now. */
const tickOf = (store, every) => Math.floor(store.now().getTime() / every);

test('a name is kept for the least time, also after an earlier release', async () => {
  const store = inMemory();
  const [leases, others] = [store.manager(), store.manager()];
  for (const end of ['release', 'close']) {
    const manager = end === 'close' ? store.manager() : leases;
    const lease = await manager.acquire(end, { holdAtLeast: MINUTE });
    await store.advance(10_000);
    if (end === 'close')
      assert.deepEqual(await manager.close(), { released: 1, leftToExpire: [], commandsLeft: 0 });
    else assert.equal(await lease.release(), 'released');
    await store.advance(49_999);
    assert.equal(await others.tryAcquire(end), undefined);
    await store.advance(1);
    const next = await others.tryAcquire(end);
    assert.ok(next.token > lease.grantedToken);
  }
  // Behind the least time a release frees the name.
  const long = await leases.acquire('long', { holdAtLeast: MINUTE });
  await store.advance(MINUTE);
  await long.release();
  assert.ok(await others.tryAcquire('long'));
});

test('a waiter is told when the least time is over', async () => {
  const store = inMemory();
  const [leases, others] = [store.manager(), store.manager()];
  const lease = await leases.acquire('x', { holdAtLeast: MINUTE });
  let granted;
  void others.acquire('x', { wait: Infinity }).then((next) => (granted = next));
  await store.advance(0);
  await lease.release();
  await store.advance(MINUTE - 1);
  assert.equal(granted, undefined);
  await store.advance(1000);
  assert.ok(granted.isValid());
});

test('a lost reply to a release that keeps the name is repeated', async () => {
  const store = inMemory();
  const [leases, others] = [store.manager(), store.manager()];
  const lease = await leases.acquire('x', { holdAtLeast: MINUTE });
  store.loseNextReply();
  const releasing = lease.release();
  await store.advance(1000);
  assert.equal(await releasing, 'unknown');
  assert.equal(await others.tryAcquire('x'), undefined);
  await store.advance(MINUTE);
  assert.ok(await others.tryAcquire('x'));
});

test('the least time is for exclusive leases, and no longer than 366 days', async () => {
  const leases = inMemory().manager();
  const year = 366 * 24 * 60 * MINUTE;
  assert.match(
    await refusal(() => leases.acquire('x', { holdAtLeast: year + 1 })),
    /^INVALID_OPTION holdAtLeast: must be at most/,
  );
  assert.match(
    await refusal(() => leases.semaphore('x', 2).acquire({ holdAtLeast: 1 })),
    /^INVALID_OPTION holdAtLeast: is for exclusive leases only: a permit is free when it is released/,
  );
  await leases.acquire('x', { holdAtLeast: year });
});

test('of ten processes one runs the job, and the others are told who', async () => {
  const store = inMemory();
  const finish = gate();
  const pods = Array.from({ length: 10 }, (_, number) => store.manager({ owner: `pod-${number}` }));
  let runs = 0;
  const starts = pods.map((leases) =>
    leases.job('job:report').run(async (lease) => {
      runs += 1;
      await finish.opened;
      return lease.token;
    }),
  );
  await store.advance(0);
  finish.open();
  const ended = await Promise.all(starts);
  const done = ended.filter(({ outcome }) => outcome === 'done');
  const skipped = ended.filter(({ outcome }) => outcome === 'skipped');
  assert.deepEqual([runs, done.length, skipped.length, typeof done[0].result], [1, 1, 9, 'bigint']);
  const owners = new Set(skipped.map(({ held }) => held.owner));
  assert.equal(owners.size, 1);
  assert.match([...owners][0], /^pod-\d@/);
  // At once, because nothing keeps the name.
  assert.equal(await pods[0].get('job:report'), undefined);
});

test('within the least time a job runs once, and behind it again', async () => {
  const store = inMemory();
  const options = { atLeast: MINUTE, atMost: 2 * MINUTE };
  const [here, there] = [store.manager(), store.manager()].map((leases) =>
    leases.job('job', options),
  );
  let runs = 0;
  const start = async (job) => (await job.run(() => (runs += 1))).outcome;
  assert.deepEqual(
    [await start(here), await start(there), await start(here)],
    ['done', 'skipped', 'skipped'],
  );
  await store.advance(MINUTE);
  assert.deepEqual([await start(there), await start(here), runs], ['done', 'skipped', 2]);
});

test('a job that throws keeps the name, and what it throws is thrown', async () => {
  const store = inMemory();
  const leases = store.manager();
  const job = leases.job('job', { atLeast: MINUTE });
  const thrown = new Error('no paper');
  await assert.rejects(
    job.run(() => Promise.reject(thrown)),
    (error) => error === thrown,
  );
  assert.equal((await job.run(() => 1)).outcome, 'skipped');
  await store.advance(MINUTE);
  // Work may itself find another lease taken.
  await leases.acquire('other');
  await assert.rejects(
    job.run(() => leases.acquire('other', { wait: 0 })),
    { code: 'BUSY' },
  );
});

test('a job that takes longer than its most time is lost', async () => {
  const store = inMemory();
  const job = store.manager().job('job', { atMost: 5000 });
  let signal;
  const run = job.run((lease) => {
    ({ signal } = lease);
    return new Promise(() => undefined);
  });
  const lost = assert.rejects(run, { code: 'LOST', reason: 'endedAsAsked' });
  await store.advance(5000);
  await lost;
  assert.ok(signal.aborted);
});

test('what contradicts itself is refused before anything runs', async () => {
  const leases = inMemory().manager();
  for (const [options, told] of [
    [
      { atLeast: 2 * MINUTE, atMost: MINUTE },
      'INVALID_OPTION atLeast: 2m is longer than `atMost`, which is 1m',
    ],
    [
      { every: MINUTE, atLeast: MINUTE },
      'INVALID_OPTION atLeast: 1m is not shorter than `every`, which is 1m',
    ],
    [{ every: 0 }, 'INVALID_OPTION every: must be greater than zero'],
    [{ every: '5' }, 'INVALID_OPTION every: must be a number of milliseconds'],
    [
      { value: 'a' },
      'INVALID_OPTION options: there is no option "value"; there are every, atLeast, atMost, ttl, owner, metadata',
    ],
    [
      { wait: 1 },
      'INVALID_OPTION options: there is no option "wait"; there are every, atLeast, atMost, ttl, owner, metadata',
    ],
    [
      5,
      'INVALID_OPTION options: must be an object, with any of every, atLeast, atMost, ttl, owner, metadata',
    ],
  ]) {
    assert.equal(await refusal(() => leases.job('job', options)), told);
  }
  assert.match(
    await refusal(() => leases.job('job', { atMost: 1 })),
    /^INVALID_OPTION atMost: must be at least/,
  );
  assert.match(await refusal(() => leases.job('job', { ttl: 1 })), /^INVALID_OPTION ttl: /);
  assert.match(await refusal(() => leases.job('')), /^INVALID_NAME /);
  const job = leases.job('job');
  const work = 'INVALID_OPTION work: must be a function';
  assert.deepEqual(
    [await refusal(() => job.run()), await refusal(() => job.start())],
    [work, work],
  );
  const every = 'INVALID_OPTION every: must be set for a job that is started';
  assert.equal(await refusal(() => job.start(() => 1)), every);
  const ticking = leases.job('job', { every: MINUTE });
  const signal = 'INVALID_OPTION signal: must be an AbortSignal';
  assert.equal(await refusal(() => ticking.start(() => 1, { signal: {} })), signal);
  assert.equal(await leases.get('job'), undefined);
});

test('each tick is run once over all processes, by the clock of the server', async () => {
  const store = inMemory();
  const runs = [];
  const pods = Array.from({ length: 5 }, () => store.manager());
  const first = tickOf(store, MINUTE);
  const work = (lease, tick) => void runs.push([tick, tickOf(store, MINUTE), lease.token]);
  const all = pods.map((leases) => leases.job('job', { every: MINUTE }).start(work));
  // One comes late.
  await store.advance(10_000);
  const late = store.manager();
  all.push(late.job('job', { every: MINUTE }).start(work));
  await store.advance(10 * MINUTE);
  assert.deepEqual(
    runs.map(([tick]) => tick),
    Array.from({ length: 10 }, (_, place) => first + 1 + place),
  );
  assert.ok(runs.every(([tick, now]) => tick === now));
  assert.ok(runs.every(([, , token], place) => place === 0 || token > runs[place - 1][2]));
  await Promise.all([...pods, late].map((leases) => leases.close()));
  await Promise.all(all);
});

test('processes that come to a tick late, up to its end, do not run it again', async () => {
  const store = inMemory();
  const runs = [];
  const first = tickOf(store, MINUTE);
  const pods = [0, 13, 26, 39, 52].map((seconds) => {
    const leases = store.manager();
    const acquire = leases.acquire.bind(leases);
    leases.acquire = async (...told) => {
      const { clock } = store;
      await new Promise((resolve) => clock.timer(clock.now() + seconds * 1e6, resolve));
      return acquire(...told);
    };
    return leases;
  });
  const work = (_lease, tick) => void runs.push(tick - first);
  const all = pods.map((leases) => leases.job('job', { every: MINUTE }).start(work));
  await store.advance(8 * MINUTE);
  assert.deepEqual(runs, [1, 2, 3, 4, 5, 6, 7, 8]);
  // The control: without a least time each of them runs the job.
  const { length } = runs;
  const controls = pods.map((leases) => leases.job('control').run(work));
  await store.advance(MINUTE);
  await Promise.all(controls);
  assert.equal(runs.length - length, 5 + 1);
  await Promise.all(pods.map((leases) => leases.close()));
  await store.advance(MINUTE);
  await Promise.all(all);
});

test('a process whose timer is late by most of a tick does not run it again', async () => {
  const store = inMemory();
  const runs = [];
  const [one, other] = [store.manager(), store.manager()];
  const work = (_lease, tick) => void runs.push(tick);
  const ticking = one.job('job', { every: MINUTE }).start(work);
  await store.advance(2 * MINUTE);
  const now = runs.length;
  // The same job at any moment of the tick, as a late process would come: also right before its end.
  for (const step of [0, 30_000, 20_000, 8000, 999]) {
    await store.advance(step);
    const { outcome } = await other.job('job').run(() => runs.push('twice'));
    assert.equal(outcome, 'skipped');
  }
  assert.equal(runs.length, now);
  await one.close();
  await ticking;
});

test('a run that lasts leaves ticks out, and no two runs are at once', async () => {
  const store = inMemory();
  const runs = [];
  const finish = gate();
  const pods = [store.manager(), store.manager()];
  const first = tickOf(store, MINUTE);
  const all = pods.map((leases) =>
    leases.job('job', { every: MINUTE }).start(async (_lease, tick) => {
      runs.push(tick - first);
      if (runs.length === 1) await finish.opened;
    }),
  );
  await store.advance(3 * MINUTE);
  assert.deepEqual(runs, [1]);
  finish.open();
  await store.advance(2 * MINUTE);
  assert.deepEqual(runs, [1, 4, 5]);
  await Promise.all(pods.map((leases) => leases.close()));
  await Promise.all(all);
});

test('an error of a run ends the ticks, or is told and they go on', async () => {
  const store = inMemory();
  const leases = store.manager();
  const thrown = new Error('no paper');
  const work = () => Promise.reject(thrown);
  const ended = assert.rejects(
    leases.job('a', { every: MINUTE }).start(work),
    (error) => error === thrown,
  );
  await store.advance(MINUTE);
  await ended;
  const told = [];
  const first = tickOf(store, MINUTE);
  const onError = (error, tick) => told.push([error.message, tick - first]);
  const { signal, stop } = stopping();
  const ticking = leases.job('b', { every: MINUTE }).start(work, { onError, signal });
  await store.advance(2 * MINUTE);
  assert.deepEqual(told, [
    ['no paper', 1],
    ['no paper', 2],
  ]);
  stop();
  await ticking;
});

function stopping() {
  const controller = new AbortController();
  return { signal: controller.signal, stop: () => controller.abort() };
}

test('an error of the last run is told too', async () => {
  const store = inMemory();
  const leases = store.manager();
  const thrown = new Error('no paper');
  for (const told of [undefined, []]) {
    const { signal, stop } = stopping();
    const onError = told && ((error) => told.push(error));
    const ticking = leases.job('a', { every: MINUTE }).start(
      async () => {
        stop();
        throw thrown;
      },
      { signal, ...(onError && { onError }) },
    );
    const ended = ticking.catch((error) => error);
    await store.advance(MINUTE);
    assert.equal(await ended, told ? undefined : thrown);
    assert.deepEqual(told ?? [thrown], [thrown]);
  }
});

test('the ticks go on after an outage, and end with their signal at once', async () => {
  const store = inMemory();
  const leases = store.manager();
  const runs = [];
  const told = [];
  const { signal, stop } = stopping();
  const first = tickOf(store, MINUTE);
  const onError = ({ code }) => told.push(code);
  const ticking = leases
    .job('job', { every: MINUTE })
    .start((_lease, tick) => void runs.push(tick - first), { signal, onError });
  await store.advance(MINUTE);
  store.hang();
  await store.advance(2 * MINUTE);
  assert.deepEqual(runs, [1]);
  assert.ok(told.length > 0 && told.every((code) => code === 'UNKNOWN'), `${told}`);
  store.goOn();
  await store.advance(MINUTE);
  assert.deepEqual(runs, [1, 4]);
  // Also while the database hangs.
  store.hang();
  await store.advance(MINUTE);
  stop();
  await ticking;
  store.goOn();
});

test('a close ends the ticks, and the run is told', async () => {
  const store = inMemory();
  const leases = store.manager();
  let signal;
  const ticking = leases.job('job', { every: MINUTE }).start((lease) => {
    ({ signal } = lease);
    return new Promise(() => undefined);
  });
  await store.advance(MINUTE);
  await leases.close();
  await ticking;
  assert.equal(signal.reason.reason, 'released');
  assert.equal(
    await refusal(() => leases.job('job', { every: 1000 }).start(() => 1)),
    await refusal(() => leases.acquire('x')),
  );
});

test('a job shows its name and its period, and not its engine', () => {
  const job = inMemory().manager().job('report', { every: MINUTE });
  assert.equal(inspect(job), "Job { name: 'report', every: 60000 }");
  assert.equal(JSON.stringify(job), '{"name":"report","every":60000}');
});
