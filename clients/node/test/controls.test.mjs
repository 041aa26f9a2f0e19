// Controls: deliberate mistakes in the TypeScript part, each of which a test must find.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { join, relative } from 'node:path';
import { describe, test } from 'node:test';

const here = fileURLToPath(new URL('..', import.meta.url));

// The mistake, the file, the text and what it becomes, and the test that finds it.
const MISTAKES = [
  [
    'validity counts from the reply and not from the sending',
    'server',
    'return command.decode((0, runner_1.bytesOf)(await sending.catch(unconfirmed)), sent);',
    'const reply = await sending.catch(unconfirmed);' +
      'return command.decode((0, runner_1.bytesOf)(reply), this.clock.now() + 2e6);',
    'promises',
    'a holder is told of its loss before another one',
  ],
  [
    'isValid believes the timer and does not read the clock',
    'lease',
    'return this.holding.isValid(this.engine.clock.now());',
    'return !this.holding.endedBy();',
    'promises',
    'a blocked event loop',
  ],
  [
    'what an abandoned call is granted is kept',
    'call',
    'if (cleanup === core_1.Cleanup.Nothing)',
    'if (true)',
    'lost-replies',
    'what an aborted call is granted late',
  ],
  [
    'each lease is renewed by a command of its own',
    'renewer',
    'const BATCH_MAX = core_1.Constants.renewalsMax();',
    'const BATCH_MAX = 1;',
    'waiting',
    'a hundred leases',
  ],
  [
    'a batch with a blocked document is sent again as it is',
    'renewer',
    'this.split(batch, renewal)',
    '(this.start(batch), true)',
    'waiting',
    'a transaction of another program',
  ],
  [
    'a call that gives up leaves its entry to nobody',
    'queued',
    'call.attempts.hasOnlyAnEntry()',
    'false',
    'waiting',
    'an aborted wait leaves the queue',
  ],
  [
    'promotions are not told',
    'watcher',
    'waiters.promoted(promotion)',
    'undefined',
    'waiting',
    'a hand-off comes by the change stream',
  ],
  [
    'only the first read of a stream is tested',
    'watcher',
    'tested === this.reads && ',
    '',
    'overload',
    'a read of the change stream',
  ],
  [
    'no heartbeats are sent',
    'heartbeat',
    'beat(due) {',
    'beat(due) { due = [];',
    'waiting',
    'a waiter keeps its place',
  ],
  [
    'a close leaves the stream open',
    'engine',
    'this.watcher?.stop() ?? Promise.resolve()',
    'Promise.resolve()',
    'waiting',
    'after the close nothing keeps',
  ],
  [
    'a slot is not given back',
    'runner',
    'slots.giveBack(lane);',
    '',
    'overload',
    'one slot is enough',
  ],
  [
    'a command is sent without a slot',
    'runner',
    'if (slots.take(this.lane))',
    'if (true)',
    'overload',
    'of a thousand calls',
  ],
  [
    'acquires may take every slot',
    'runner',
    'this.lane = command.lane(this.isBlocked);',
    'this.lane = 0;',
    'overload',
    'renewals and releases',
  ],
  [
    'a call whose wait is over is sent all the same',
    'runner',
    'this.hasLeft = true;',
    '',
    'overload',
    'while nothing is answered',
  ],
  [
    'a guard writes outside of the transaction',
    'server',
    'this.db.command((0, runner_1.exact)(command), { ...PRIMARY, session })',
    'this.db.command((0, runner_1.exact)(command))',
    'guard',
    'a conflict is thrown',
  ],
  [
    'a guard is accepted outside of a transaction',
    'lease',
    'if (!isInTransaction(session))',
    'if (false)',
    'transaction',
    'outside of a transaction it is refused',
  ],
  [
    'a transaction is committed without a guard',
    'transaction',
    '(await this.guardLast(own.session))',
    '0',
    'transaction',
    'a loss before the commit',
  ],
  [
    'the try after a conflict guards last again',
    'transaction',
    'all.guardsFirst = true;',
    '',
    'transaction',
    'after a conflict the next try',
  ],
  [
    'a transaction has no first operation of its own',
    'transaction',
    'await engine.runner.backend.sendIn(own.session, find)',
    'await Promise.resolve(find)',
    'transaction',
    'an operation that an error overtakes',
  ],
  [
    'an operation after a transaction is sent outside of it',
    'session',
    'inTransaction: () => true,',
    '',
    'transaction',
    'an operation that the callback did not wait for',
  ],
  [
    'the callback may commit',
    'session',
    'commitTransaction: refuse,',
    '',
    'transaction',
    'the callback cannot end',
  ],
  [
    'a transaction inherits the read preference of its client',
    'session',
    "readPreference: 'primary',",
    '',
    'transaction',
    'with the read preference nearest',
  ],
  [
    'a loss aborts no transaction',
    'transaction',
    'void engine.runner.track(this.kill(own));',
    '',
    'transaction',
    'a callback that does not end',
  ],
  [
    'a loss after the commit was sent is told',
    'transaction',
    'this.isCommitSent = true;',
    '',
    'transaction',
    'a loss of the lease is no error',
  ],
  [
    'a transaction does not hold renewals back',
    'transaction',
    'lease.holding.onTransactionBegun(clock.now());',
    '',
    'transaction',
    'renewals are held back',
  ],
  [
    'a transaction does not wait for a renewal',
    'transaction',
    'await this.all.noRenewalUnderWay();',
    '',
    'transaction',
    'it waits for a renewal',
  ],
  [
    'an answer to a renewal is not the answer to it',
    'lease',
    'clock.now(), clock.sent()',
    'clock.now(), clock.now()',
    'waiting',
    'a lease that is renewed is not renewed again',
  ],
  [
    'a fenced write inherits how results are read',
    'fence',
    '...PLAIN, ...within',
    '...within',
    'options',
    'promoteValues false',
  ],
  [
    'the news of a loss waits for the release',
    'manager',
    'if (isHeld)',
    'if (true)',
    'bounds',
    '`withLease` tells a loss at once',
  ],
  [
    'the timers of a manager keep its process alive',
    'clock',
    'this.of.set(at, callback, true)',
    'this.of.set(at, callback, false)',
    'clock',
    'a background timer keeps no process alive',
  ],
  [
    'fake timers are taken for the true ones',
    'clock',
    '(clock?.[`_${name}`] ?? of[name])',
    'of[name]',
    'fakes',
    'before the package is loaded',
  ],
  [
    'a loss is told by the error of a timer',
    'manager',
    'resolve();\n                });',
    'resolve(Promise.reject(signal.reason));\n                });',
    'errors',
    'the stack of each error',
  ],
  [
    'the first call waits for the check of the server',
    'engine',
    'await (0, runner_1.before)(this.clock, deadline, Promise.race([starting, gone]));',
    'await starting;',
    'bounds',
    'the first call ends by its wait',
  ],
  [
    'a client that could not connect stays closed',
    'server',
    'await this.db.client.connect();',
    'return;',
    'unreachable',
    'when the driver gives up',
  ],
];

function withMistake(number, [, file, text, mistaken]) {
  const folder = join(here, '.test', `control-${number}`);
  rmSync(folder, { recursive: true, force: true });
  for (const part of ['package.json', 'index.mjs', 'dist', 'test']) {
    const filter = (path) => !/beside|tarball/.test(relative(here, path));
    cpSync(join(here, part), join(folder, part), { recursive: true, filter });
  }
  mkdirSync(join(folder, 'node_modules'));
  symlinkSync(join(here, 'node_modules', 'mongodb'), join(folder, 'node_modules', 'mongodb'));
  const path = join(folder, 'dist', `${file}.js`);
  const code = readFileSync(path, 'utf8');
  assert.ok(code.includes(text), `${file}.js has no longer: ${text}`);
  writeFileSync(path, code.replace(text, mistaken));
  return folder;
}

/** Runs one test of the mistaken package. The code of a run that is ended by force is `null`. */
function testOf(folder, file, name) {
  const told = ['--test', '--test-timeout=20000', `--test-name-pattern=${name}`];
  const args = [...told, join(folder, 'test', `${file}.test.mjs`)];
  const options = { env: { ...process.env, NODE_TEST_CONTEXT: undefined }, timeout: 60_000 };
  return new Promise((ended) => {
    execFile(process.execPath, args, options, (error, stdout) => {
      ended({ code: error === null ? 0 : error.code, stdout });
    });
  });
}

// Several wait for what does not come.
describe('found', { concurrency: 4 }, () => {
  for (const [number, mistake] of MISTAKES.entries()) {
    const [what, , , , file, name] = mistake;
    test(what, async () => {
      const folder = withMistake(number, mistake);
      const { code, stdout } = await testOf(folder, file, name);
      assert.notEqual(code, 0, `no test has found it:\n${stdout}`);
      // It is the test that fails, and not the program.
      assert.match(stdout, /^ *not ok \d+ - /m);
      rmSync(folder, { recursive: true });
    });
  }
});
