// Each command that this client sends is one that the Rust library sends: the same fields in the same order, with the
// same types, beside identities, moments and time limits.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BSON } from 'mongodb';
import { World, rustAnswers } from './help.mjs';
import { Proxy } from './proxy.mjs';

// What drivers add to each command, and the time limit, which depends on how fast the server is.
const ADDED = ['lsid', '$db', '$clusterTime', '$readPreference', 'maxTimeMS'];
// What drivers send by themselves, and what each client has of its own.
const OTHERS = [
  'hello',
  'isMaster',
  'ismaster',
  'getMore',
  'killCursors',
  'endSessions',
  'ping',
  'saslStart',
];

/** The commands as texts that tell types and order, without what is new each time. */
function texts(proxy) {
  const all = proxy.sent.filter(({ name }) => !OTHERS.includes(name)).map(({ command }) => command);
  return new Map(all.map((command) => [textOf(command), command]));
}

function textOf(command) {
  const shown = Object.fromEntries(
    Object.entries(command).filter(([field]) => !ADDED.includes(field)),
  );
  // The library gives a majority a time limit of its own.
  if (shown.writeConcern) delete (shown.writeConcern = { ...shown.writeConcern }).wtimeout;
  // Where a stream begins, and what else a driver says of it.
  const told = shown.aggregate ? shown.pipeline.slice(1) : shown;
  return BSON.EJSON.stringify(told, { relaxed: false })
    .replaceAll(/released:[0-9a-f]{32}/g, 'released:RANDOM')
    .replaceAll(IDENTITIES, 'ID')
    .replaceAll(/o@[^"]*:\d+/g, 'OWNER')
    .replaceAll(/"\$numberLong":"(?!1000000000000")\d{8,}"/g, '"$numberLong":"MOMENT"');
}

const IDENTITIES = /[0-9a-f]{24}(-[0-9a-f]{32}|[-.])/g;

async function ours(world, proxy) {
  const leases = world.manager({ owner: 'o' }, world.client(proxy.uri));
  const lease = await leases.acquire('golden', { wait: 0 });
  await lease.renew();
  const other = world.manager({ owner: 'o' }, world.client(proxy.uri));
  // The wait is too short for that on a busy machine.
  await other.ready();
  await assert.rejects(other.acquire('golden', { wait: 300 }), { code: 'WAIT_TIMEOUT' });
  await other.close();
  await lease.release();
  const reader = await leases.acquire('golden', { shared: true, wait: 0 });
  await reader.renew();
  await reader.release();
  await leases.close();
}

test('every command is one of the library', async (t) => {
  const world = World.of(t);
  const [rust, node] = [await Proxy.start(world), await Proxy.start(world)];
  await rustAnswers(['commands', rust.uri, world.name], []);
  await ours(world, node);
  const [theirs, mine] = [texts(rust), texts(node)];
  for (const [text, command] of mine) {
    const [name] = Object.keys(command);
    // The Rust library looks for indexes before it makes them. The commands that make them are the same.
    assert.ok(theirs.has(text), `the library does not send this ${name}: ${text}`);
  }
  const kinds = new Map();
  for (const command of mine.values()) {
    const [name] = Object.keys(command);
    kinds.set(name, (kinds.get(name) ?? 0) + 1);
  }
  // A fast acquire, a slow one, a fast admit, the dry run; a renewal of each kind, and an end.
  assert.ok(kinds.get('findAndModify') >= 4, [...kinds].join());
  assert.ok(kinds.get('update') >= 3, [...kinds].join());
  for (const name of ['delete', 'find', 'listIndexes', 'createIndexes', 'aggregate']) {
    assert.ok(kinds.has(name), `${name} is not among ${[...kinds].join()}`);
  }
  // The control: a command of another type, or in another order, is none of theirs.
  const [one] = [...mine.values()].filter((command) => command.delete);
  const changed = { ...one, ordered: 0 };
  assert.equal(theirs.has(textOf(changed)), false);
  const { ordered, ...rest } = one;
  assert.equal(theirs.has(textOf({ ordered, ...rest })), false);
});
