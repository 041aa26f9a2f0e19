// Hostile names and options are refused with the texts of the Rust library: the same table goes through both.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inMemory } from '../index.mjs';
import { rustAnswers } from './help.mjs';

const YEAR = 366 * 24 * 3600 * 1000;
const NAMES = [
  '',
  'a',
  '\0',
  'a\0b',
  'x'.repeat(512),
  'x'.repeat(513),
  'ä'.repeat(256),
  'ä'.repeat(257),
  '$where',
  '$$NOW',
  '__proto__',
  'constructor',
  '{"$gt":""}',
  '../..',
  '\u202e',
  '\u001b[2J',
  ' ',
  '\ufeff',
  '💥'.repeat(128),
  '💥'.repeat(129),
  'a"b\'c`d',
  'null',
  '\n',
];
const TABLE = [
  ...NAMES.map((name) => ({ name })),
  ...NAMES.map((value) => ({ call: { value } })),
  ...['released:x', 'mongo-lease/shared', 'released', ''].map((value) => ({ call: { value } })),
  ...NAMES.map((owner) => ({ call: { owner } })),
  ...NAMES.map((owner) => ({ manager: { owner } })),
  ...[...NAMES, 'system.locks', 'a$b', 'locks'].map((collection) => ({ manager: { collection } })),
  ...[0, 1, 99, 99.999, 100, 30_000, YEAR, YEAR + 1].flatMap((ttl) => [
    { call: { ttl } },
    { manager: { ttl } },
  ]),
  ...[0, 3_600_000, 3_600_001].map((maxClockSkew) => ({ manager: { maxClockSkew } })),
  ...[0, 9, 10, 15_000, 15_001].map((attemptTimeout) => ({ manager: { attemptTimeout } })),
  ...[0, 499, 500, 600_000, 600_001].map((waiterTtl) => ({ manager: { waiterTtl } })),
  ...[0, 1, 86_400_000, 86_400_001].map((recheckEvery) => ({ manager: { recheckEvery } })),
  ...[0, 1, 1024, 1025].map((maxWaiting) => ({ manager: { maxWaiting } })),
  ...[0, 99, 100, YEAR * 2].map((maxHold) => ({ call: { maxHold } })),
  ...[0, 1, 2, 1000, 1001].map((limit) => ({ call: { limit } })),
  ...[0, 1, 2, 3].map((permits) => ({ call: { permits, limit: 2 } })),
  ...[0, YEAR, YEAR + 1].map((holdAtLeast) => ({ call: { holdAtLeast } })),
  { call: { holdAtLeast: 1000, shared: true } },
  ...NAMES.map((name) => ({ names: ['b', name] })),
  ...[[], ['a'], ['b', 'a', 'b'], ['x'.repeat(513), 'a', 'a']].map((names) => ({ names })),
  { names: Array.from({ length: 1001 }, (_, number) => String(number)) },
  ...NAMES.map((name) => ({ name, job: {} })),
  ...[
    [1, 100],
    [60_000, 60_000],
    [60_001, 60_000],
    [3_600_000, 100],
    [1, 99],
    [YEAR + 1, YEAR * 2],
  ].map(([atLeast, atMost]) => ({ job: { atLeast, atMost } })),
  { call: { permits: 2 } },
  { call: { shared: true } },
  { call: { shared: true, limit: 2 } },
  { call: { shared: true, permits: 1 } },
  ...[4079, 4080, 200].map((metadataBytes) => ({ call: { metadataBytes } })),
  ...[200, 250].map((metadataBytes) => ({ call: { shared: true, metadataBytes } })),
];

async function ours({ name = 'a', manager = {}, call = {}, names, job }) {
  const { metadataBytes, ...options } = call;
  if (metadataBytes !== undefined) options.metadata = { text: 'x'.repeat(metadataBytes) };
  try {
    const leases = inMemory().manager(manager);
    if (names) await leases.acquireAll(names, { wait: 0 });
    else if (job) await leases.job(name, job).run(() => undefined);
    else await leases.tryAcquire(name, options);
    return null;
  } catch (error) {
    return error.message;
  }
}

/**
 * The library's text with the names of options as TypeScript has them. The library names two options of a job as those
 * of its lease.
 */
function inTypeScript(text, isOfJob) {
  const name = (of) => of.replace(/_(.)/g, (_, letter) => letter.toUpperCase());
  if (text === null) return null;
  const named = isOfJob
    ? text.replace(/^max_hold/, 'at_most').replace(/^hold_at_least/, 'at_least')
    : text;
  return named.replace(/^[a-z_]+(?=: )|`[a-z_]+`/g, name);
}

test('names and options are refused with the same texts', async () => {
  const theirs = await rustAnswers(
    ['texts'],
    TABLE.map((row) => JSON.stringify(row)),
  );
  assert.equal(theirs.length, TABLE.length);
  let refused = 0;
  for (const [place, row] of TABLE.entries()) {
    const expected = inTypeScript(JSON.parse(theirs[place]), 'job' in row);
    assert.equal(await ours(row), expected, JSON.stringify(row));
    refused += Number(expected !== null);
  }
  // The control: the table has both kinds.
  assert.ok(refused > 40 && refused < TABLE.length - 40, `${refused} of ${TABLE.length}`);
});

test('what only JavaScript can say is refused before anything is sent', async () => {
  const leases = inMemory().manager();
  for (const [options, message] of [
    [{ ttl: '30' }, 'ttl: must be a number of milliseconds'],
    [{ ttl: NaN }, 'ttl: must be a number of milliseconds'],
    [{ ttl: -1 }, 'ttl: must be a number of milliseconds'],
    [{ limit: 1.5 }, 'limit: must be a whole number'],
    [{ renew: 'no' }, 'renew: must be true or false'],
    [{ value: 7 }, 'value: must be a string'],
    [{ vlaue: 'a' }, /^options: there is no option "vlaue"; there are ttl, /],
    [{ value: '\ud800' }, 'value: it is no well-formed Unicode'],
  ]) {
    await assert.rejects(leases.tryAcquire('a', options), { code: 'INVALID_OPTION', message });
  }
  await assert.rejects(leases.acquire('a', { wait: '5' }), { code: 'INVALID_OPTION' });
  for (const name of ['\ud800', 7, null, undefined]) {
    await assert.rejects(leases.tryAcquire(name), { code: 'INVALID_NAME' });
  }
  assert.throws(() => inMemory().manager({ tll: 1 }), {
    message: /^options: there is no option "tll"; there are collection, /,
  });
});
