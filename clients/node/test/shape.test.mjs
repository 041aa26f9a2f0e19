// A document that is a copy of a specimen is the very one that the core builds.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { BSON } from 'mongodb';

const require = createRequire(import.meta.url);
const { Manager, Request, Holding, Scope, Target } = require('../dist/core.js');
const { Documents } = require('../dist/shape.js');
const { bytesOf } = require('../dist/runner.js');
const { callSettingsOf, checkManagerOptions, settingsOf } = require('../dist/options.js');

const hex = (bytes) => randomBytes(bytes).toString('hex');
const NAMES = ['job', '$name', 'a "quoted" Straße', 'grant'];
const MANAGERS = [{ owner: 'another', ttl: 5000 }, { maxClockSkew: 20 }, { maxWaiting: 7 }];
const OPTIONS = [
  {},
  { ttl: 10_000 },
  { ttl: 10_000.5 },
  { owner: 'me' },
  { owner: '30000000000 me' },
  { value: 'my own value' },
  { value: '$value' },
  { limit: 3 },
  { limit: 3, permits: 2 },
  { shared: true },
  { metadata: { a: 1 } },
];

function* requests() {
  for (const of of MANAGERS) {
    const manager = new Manager(settingsOf(checkManagerOptions(of)), hex(12), '@host:1');
    for (const options of OPTIONS) {
      for (const name of NAMES) {
        for (const [hasOplog, waits] of [
          [true, true],
          [true, false],
          [false, true],
        ]) {
          if (!hasOplog && (options.limit || options.shared)) continue;
          yield new Request(manager, name, callSettingsOf(options), hex(16), hasOplog, waits);
        }
      }
    }
  }
}

/** The attempts of a call, and the ends of the grant that the first one got. */
function* commands(request, documents) {
  for (const number of [1, 13]) {
    yield request.fast(number);
    yield request.slow(number, undefined);
    yield request.slow(number, `another-${number}`);
  }
  yield* ends(Target.byValue(request.name(), request.value()));
  const holding = request.isExclusive() && grantedBy(request, documents);
  if (holding) yield* ends(holding.toRelease(2e6));
}

function* ends(target) {
  yield target.delete();
  for (const scope of [Scope.Anywhere, Scope.BesideOthers, Scope.HeldOrQueued]) {
    yield target.end(scope, hex(16));
  }
}

/** What the holder of a grant has, once its attempt was answered as a server does. */
function grantedBy(request, documents) {
  const command = request.fast(1);
  const document = documents.of(command, 'locks', 1e6);
  const told = document.update[0].$replaceWith.$mergeObjects[1].$cond[1];
  const now = new Date();
  const { value, id, owner } = told.grant;
  const grant = { ...told.grant, value: value.$literal, id: id.$literal, owner: owner.$literal };
  const found = {
    name: request.name(),
    value: value.$literal,
    expiresAt: new Date(now.getTime() + 30_000),
    grant: { ...grant, acquiredAt: now, metadata: {}, writes: BSON.Long.fromNumber(1) },
    now,
  };
  const reply = { value: found, ok: 1, operationTime: new BSON.Timestamp(1n << 32n) };
  return Holding.granted(request, command.decode(bytesOf(reply), 1e6), 1.5e6);
}

/** How many documents differ from those of the core, of how many, and of how many shapes. */
function compared(documents, enough = Infinity) {
  const shapes = new Set();
  const right = new Documents();
  let [all, wrong] = [0, 0];
  for (const request of requests()) {
    for (const command of commands(request, right)) {
      shapes.add(command.shape());
      const [collection, sent] = [`locks${all % 3}`, 1_000_000 + all];
      const document = documents.of(command, collection, sent);
      all += 1;
      const isSame = Buffer.from(command.build(collection, sent)).equals(BSON.serialize(document));
      if (!isSame) wrong += 1;
      if (wrong > enough) return { wrong };
      // The driver, and its caller, add fields at the top.
      document.maxTimeMS = all;
    }
  }
  return { all, wrong, shapes: shapes.size };
}

test('each is the very one that the core builds, whatever the options are', () => {
  const { all, wrong, shapes } = compared(new Documents());
  assert.equal(wrong, 0);
  assert.ok(all > 2500 && shapes > 40, `${all} documents of ${shapes} shapes`);
});

test('a shape that leaves something out is found', () => {
  class Coarse extends Documents {
    of(command, collection, sent) {
      const coarse = (shape) => shape?.replaceAll(/\d+/g, 'N');
      const shaped = { shape: () => coarse(command.shape()) };
      for (const name of ['build', 'texts', 'specimen']) {
        shaped[name] = (...told) => command[name](...told);
      }
      return super.of(shaped, collection, sent);
    }
  }
  assert.ok(compared(new Coarse(), 100).wrong > 100);
});

test('what all documents of a shape share cannot be changed', () => {
  const [request] = requests();
  const documents = new Documents();
  const first = documents.of(request.fast(1), 'locks', 1e6);
  assert.throws(() => (first.collation.locale = 'de'), TypeError);
  first.query.name = 'another';
  first.extra = 1;
  const next = documents.of(request.fast(1), 'locks', 1e6);
  assert.deepEqual([next.query.name, next.extra], [request.name(), undefined]);
});

test('it forgets shapes beyond a hundred', () => {
  const manager = new Manager(settingsOf({}), hex(12), '@host:1');
  const documents = new Documents();
  for (let number = 0; number < 250; number += 1) {
    const settings = callSettingsOf({ owner: `owner ${number}` });
    documents.of(new Request(manager, 'a', settings, hex(16), true, true).fast(1), 'locks', 1e6);
    assert.ok(documents.shapes.size <= 100);
  }
});
