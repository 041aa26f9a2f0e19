// What the tests share: clients with a database of their own, and Rust processes.

import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { EventEmitter, once } from 'node:events';
import { MongoClient } from 'mongodb';
import { LeaseManager } from '../index.mjs';

export const uri = process.env.MONGO_LEASE_URI;
/** The major version of the driver: the same tests run with both. */
export const driver = process.env.MONGO_LEASE_DRIVER ?? '7';
/** Mongoose with a driver of its own of this version, and with the other: Mongoose 8 has 6, and Mongoose 9 has 7. */
export const [mongooseOfDriver, otherMongoose] =
  driver === '6' ? ['mongoose8', 'mongoose'] : ['mongoose', 'mongoose8'];
const beside = process.env.MONGO_LEASE_BESIDE;
let number = 0;

/** A test's own database, and what has to be closed at its end. */
export class World {
  name = `node_${process.pid}_${(number += 1)}`;
  #ends = [];

  /** Closes everything at the end of this test. */
  static of(test) {
    const world = new World();
    test.after(() => world.end());
    return world;
  }

  onEnd(end) {
    this.#ends.push(end);
  }

  client(at = uri, options = {}) {
    const client = new MongoClient(at, options);
    this.onEnd(() => client.close());
    return client;
  }

  /** A manager with a client of its own, as another process would have. */
  manager(options = {}, client = this.client()) {
    const leases = new LeaseManager(client.db(this.name), { ensureIndexes: true, ...options });
    this.onEnd(() => leases.close());
    return leases;
  }

  db(client = this.client()) {
    return client.db(this.name);
  }

  /** The server's URI, with this database. */
  get uri() {
    return uri.replace(/^(mongodb:\/\/[^/?]+)[^?]*/, `$1/${this.name}`);
  }

  async rust() {
    const rust = this.program(beside, ['process', uri, this.name]);
    await rust.line((line) => line === 'ready');
    return rust;
  }

  /** Starts a program that finds this database in `MONGODB_URI`. */
  program(file, args, env = {}) {
    const program = new Program(file, args, { MONGODB_URI: this.uri, ...env });
    this.onEnd(() => program.end());
    return program;
  }

  async end() {
    for (const end of this.#ends.reverse()) await end();
    const client = new MongoClient(uri);
    await client.db(this.name).dropDatabase();
    await client.close();
  }
}

/** A process beside this one: one order a line, one answer a line. */
class Program {
  #lines = [];
  #heard = new EventEmitter();

  constructor(file, args, env) {
    const options = { env: { ...process.env, ...env }, stdio: ['pipe', 'pipe', 'inherit'] };
    this.process = spawn(file, args, options);
    createInterface(this.process.stdout).on('line', (line) => {
      this.#lines.push(line);
      this.#heard.emit('line');
    });
  }

  order(line) {
    this.process.stdin.write(`${line}\n`);
  }

  /** The next line that fits. Others stay. */
  async line(fits) {
    for (;;) {
      const place = this.#lines.findIndex(fits);
      if (place >= 0) return this.#lines.splice(place, 1)[0];
      await once(this.#heard, 'line');
    }
  }

  async ask(order, answer) {
    this.order(order);
    return this.line((line) => line.startsWith(answer));
  }

  /** Ends its input, and returns the exit code. */
  async end() {
    const { exitCode, signalCode } = this.process;
    if (exitCode !== null || signalCode !== null) return exitCode;
    const ended = once(this.process, 'exit');
    this.process.stdin.end();
    const [code] = await ended;
    return code;
  }
}

/** Starts a server of this test's own, and returns its URI: a replica set, or `standalone` without an oplog. */
export async function ownServer(world, role = 'server') {
  const server = spawn(beside, [role], { stdio: ['pipe', 'pipe', 'inherit'] });
  world.onEnd(async () => {
    const ended = once(server, 'exit');
    server.stdin.end();
    await ended;
  });
  const [line] = await once(createInterface(server.stdout), 'line');
  return line;
}

/** Sends lines to a role of the Rust program, and returns the lines that it answers. */
export async function rustAnswers(role, lines) {
  const program = spawn(beside, role, { stdio: ['pipe', 'pipe', 'inherit'] });
  program.stdin.end(lines.map((line) => `${line}\n`).join(''));
  const answers = [];
  for await (const line of createInterface(program.stdout)) answers.push(line);
  return answers;
}

/** The reason of the loss of a lease, which may be lost already. */
export const lossOf = ({ signal }) =>
  new Promise((resolve) => {
    if (signal.aborted) resolve(signal.reason);
    else signal.addEventListener('abort', () => resolve(signal.reason));
  });

/** Longer than anything takes on a busy machine. What it rules out takes longer. */
export const PATIENCE = 20_000;

/** The promise's value, or `undefined` if it comes later than this: for what must not happen. */
export async function within(milliseconds, promise) {
  let timer;
  const late = new Promise((resolve) => (timer = setTimeout(resolve, milliseconds)));
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Lets another program take the lease over, as it may once the lease has expired by its clock. */
export function takeOver(world, name) {
  const changes = { value: 'foreign', expiresAt: new Date(Date.now() + 60_000) };
  return world.db().collection('locks').updateOne({ name }, { $set: changes });
}

/** Waits until the queue of this lease has so many entries. */
export async function queueOf(db, name, length) {
  const locks = db.collection('locks');
  const has = async () => ((await locks.findOne({ name }))?.queue ?? []).length === length;
  // Nothing tells a reader that somebody has joined: it looks again at each change of the document.
  const changes = locks.watch([], { maxAwaitTimeMS: 1000 });
  try {
    await changes.tryNext();
    while (!(await has())) await changes.tryNext();
  } finally {
    await changes.close();
  }
}

/** A moment for the event loop. */
export const turn = () => new Promise((resolve) => setImmediate(resolve));
