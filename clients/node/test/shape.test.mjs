// A document that is a copy of a specimen is the very one that the core builds.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { BSON } from 'mongodb';

const require = createRequire(import.meta.url);
const { Holding, Manager, Request, Scope, Store, Target } = require('../dist/core.js');
const { Documents } = require('../dist/shape.js');
const { callSettingsOf, checkManagerOptions, settingsOf } = require('../dist/options.js');

const hex = (bytes) => randomBytes(bytes).toString('hex');
const NAMES = ['job', '$name', 'a "quoted" Straße', 'grant'];
const MANAGERS = [{ owner: 'another', ttl: 5000 }, { maxClockSkew: 20 }, { maxWaiting: 7 }];
const OPTIONS = [
  {},
  { ttl: 10_000 },
  { ttl: 10_000.5 },
  { owner: 'me' },
  // What a shape has before and after it.
  { owner: 'Some((10000, 7)) me' },
  { owner: '10000 7 me' },
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
function* commands(request) {
  for (const number of [1, 13]) {
    yield ['fast', request.fast(number)];
    yield ['slow', request.slow(number, undefined)];
    yield ['slow', request.slow(number, `another-${number}`)];
  }
  yield* ends(Target.byValue(request.name(), request.value()));
  yield* ends(grantedBy(request).toRelease(2e6));
}

function* ends(target) {
  yield ['delete', target.delete()];
  for (const scope of [Scope.Anywhere, Scope.BesideOthers, Scope.HeldOrQueued]) {
    yield [`end ${Scope[scope]}`, target.end(scope, hex(16))];
  }
}

/** The holder of a grant of this call, in a store of its own. */
function grantedBy(request) {
  const [nowMs, command] = [Date.UTC(2026, 0, 1), request.slow(1, undefined)];
  const reply = command.carryOut(new Store(nowMs), 'locks', 1e6, nowMs);
  return Holding.granted(request, reply, 1.5e6);
}

/** How many documents differ from those of the core, of how many, and how many shapes each kind of command has. */
function compared(documents, enough = Infinity) {
  const shapes = new Map();
  let [all, wrong] = [0, 0];
  for (const request of requests()) {
    for (const [kind, command] of commands(request)) {
      const [shape] = command.shapeAndTexts()?.split('\0') ?? [];
      if (shape !== undefined) shapes.set(kind, (shapes.get(kind) ?? new Set()).add(shape));
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
  return { all, wrong, shapes };
}

test('each is the very one that the core builds, whatever the options are', () => {
  const { all, wrong, shapes } = compared(new Documents());
  assert.equal(wrong, 0);
  const told = Object.fromEntries([...shapes].map(([kind, of]) => [kind, of.size]));
  // The end of a grant has one shape for an exclusive lease, and one for others.
  const ends = { delete: 2, 'end Anywhere': 2, 'end BesideOthers': 2, 'end HeldOrQueued': 2 };
  assert.deepEqual(told, { fast: 25, slow: 43, ...ends });
  assert.ok(all > 2500, `${all}`);
});

test('a shape that leaves something out is found', () => {
  class Coarse extends Documents {
    of(command, collection, sent) {
      const shaped = { shapeAndTexts: () => command.shapeAndTexts()?.replace(/^\d+/, 'any') };
      for (const name of ['build', 'specimen']) {
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
    const settings = callSettingsOf({ ttl: 5000 + number });
    documents.of(new Request(manager, 'a', settings, hex(16), true, true).fast(1), 'locks', 1e6);
    assert.ok(documents.copies.size <= 100);
  }
});
