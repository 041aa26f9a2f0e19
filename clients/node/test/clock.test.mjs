// The clock: it counts what Node's own clock does not, and what is sent counts from no later than its sending.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createRequire } from 'node:module';

const { SystemClock } = createRequire(import.meta.url)('../dist/clock.js');

const nodesOwn = () => {
  const [seconds, nanos] = process.hrtime();
  return seconds * 1e6 + nanos / 1e3;
};

/** A clock whose other clocks the test sets, in microseconds ahead of Node's own. */
function clockAhead(own = nodesOwn) {
  const clock = new SystemClock();
  let [ahead, wallAhead, looks] = [0, 0, 0];
  clock.monotonic = own;
  clock.second = () => {
    looks += 1;
    return own() + ahead;
  };
  clock.wall = () => Math.floor((own() + wallAhead) / 1e3) * 1e3;
  const setWall = (micros) => (wallAhead += micros);
  const suspend = (micros) => {
    ahead += micros;
    setWall(micros);
  };
  return { clock, suspend, setWall, looks: () => looks };
}

test('it never goes back, and what is sent is not after now', () => {
  const clock = new SystemClock();
  let last = 0;
  for (let round = 0; round < 10_000; round += 1) {
    const [sent, now] = [clock.sent(), clock.now()];
    assert.ok(sent <= now && now >= last && Number.isInteger(sent));
    last = now;
  }
});

test('a suspension counts, and a second clock that goes back does not', () => {
  const { clock, suspend } = clockAhead();
  const before = clock.now();
  suspend(5e6);
  const after = clock.now();
  assert.ok(after - before >= 5e6 && after - before < 6e6);
  suspend(-60e6);
  assert.ok(clock.now() >= after);
});

test('it looks at the second clock ten times a second, or where the wall clock has jumped', () => {
  let time = 1e6;
  const { clock, suspend, setWall, looks } = clockAhead(() => time);
  for (let millis = 0; millis < 1000; millis += 1, time += 1000) assert.equal(clock.now(), time);
  assert.equal(looks(), 10);
  // Somebody sets the wall clock, and no time has passed by that.
  setWall(60e6);
  assert.deepEqual([clock.now(), looks()], [time, 11]);
  assert.deepEqual([clock.now(), looks()], [time, 11]);
  suspend(5e6);
  assert.deepEqual([clock.now(), looks()], [time + 5e6, 12]);
  // The machine sleeps, and somebody sets the wall clock back by just as much: the next look finds it.
  suspend(5e6);
  setWall(-5e6);
  time += 99_999;
  assert.equal(clock.now(), time + 5e6);
  time += 1;
  assert.equal(clock.now(), time + 10e6);
});

test('what it sends counts from no later moment, also where it misses all that it may miss', () => {
  const time = 1e6;
  const { clock } = clockAhead(() => time);
  let slept = 0;
  clock.second = () => Math.floor((time + slept) / 1e4) * 1e4;
  clock.wall = () => Math.floor((time + slept + 10) / 1e3) * 1e3;
  // Exact at the sending. Then nearly a hundredth of a second is lost, and nearly three milliseconds of the wall clock.
  const sent = clock.sent();
  slept = 1e6 + 9_990;
  assert.equal(clock.now(), 2e6);
  slept += 2_980;
  assert.equal(clock.now(), 2e6);
  assert.ok(clock.now() - sent >= slept);
});

test('without a look it is behind after a suspension, and right after the next look', () => {
  const { clock, suspend } = clockAhead();
  clock.now();
  suspend(5e6);
  const rough = clock.rough();
  const now = clock.now();
  assert.ok(now - rough >= 4.9e6);
  assert.ok(clock.rough() >= now);
});

test('a timer fires at its moment, soon after a suspension too, and not when it is cancelled', async () => {
  const { clock, suspend } = clockAhead();
  const at = clock.now() + 50_000;
  await new Promise((resolve) => clock.timer(at, resolve));
  assert.ok(clock.now() >= at);
  // An hour passes while the machine sleeps: the timer notices within a second.
  const asleep = performance.now();
  const woken = new Promise((resolve) => clock.timer(clock.now() + 3_600e6, resolve));
  clock.timer(clock.now() + 10_000, () => assert.fail('it was cancelled'))();
  suspend(3_601e6);
  await woken;
  assert.ok(performance.now() - asleep < 5000);
});

test('a background timer keeps no process alive, and fires all the same', async () => {
  const timers = () => process.getActiveResourcesInfo().filter((of) => of === 'Timeout').length;
  const clock = new SystemClock();
  const before = timers();
  const cancel = clock.background.timer(clock.now() + 3_600e6, () => undefined);
  assert.equal(timers(), before);
  cancel();
  const fired = new Promise((resolve) => clock.background.timer(clock.now() + 5000, resolve));
  // The control: one that somebody waits for.
  const forget = clock.timer(clock.now() + 3_600e6, () => undefined);
  assert.equal(timers(), before + 1);
  await fired;
  forget();
  assert.equal(timers(), before);
});

test('a timer that is far has none of its own before it is near, and fires at its moment', async () => {
  const timers = () => process.getActiveResourcesInfo().filter((of) => of === 'Timeout').length;
  const clock = new SystemClock();
  const before = timers();
  const many = Array.from({ length: 100 }, () => clock.timer(clock.now() + 60e6, assert.fail));
  // By this clock: it gains on Node's by what the machine's uptime hides, which is coarse.
  const at = clock.now() + 2.5e6;
  const fired = new Promise((resolve) => clock.timer(at, resolve));
  // The look that is for all of them.
  const during = timers();
  await fired;
  const firedAt = clock.now();
  many.forEach((cancel) => cancel());
  assert.equal(during, before + 1);
  assert.ok(firedAt >= at, `${firedAt} is before ${at}`);
  assert.equal(timers(), before);
});
