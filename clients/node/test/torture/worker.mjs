// A worker of torture in Node: it acquires leases, holds them, writes to the resource, and ends them in every way. It is
// what `tests/torture/src/worker` is in Rust, with the same history; its orders come as JSON.

import { createInterface } from 'node:readline';
import { readFileSync } from 'node:fs';
import { MongoClient } from 'mongodb';
import { LeaseManager } from '../../index.mjs';
import { History, Random, sleep } from './history.mjs';
import { anyPlan, hold } from './hold.mjs';
import { LEDGER } from './ledger.mjs';
import { Resource } from './resource.mjs';
import { exclusive, optionsOf, shared } from './wish.mjs';

const TTLS_MS = [2000, 3000, 4000];
// How long what was closed may take to go.
const FAREWELL_MS = 5000;
// What a process has that waits for nothing but orders.
const OF_NODE = ['PipeWrap', 'TTYWrap', 'TickObject', 'Immediate'];

class Worker {
  #calls = 0;
  isEnding = false;

  constructor(orders) {
    this.orders = orders;
    this.history = new History(orders.history, orders.id, orders.clock_ahead);
    this.resource = new Resource(orders.resource);
  }

  /** One caller, which makes call after call. */
  async goOn(leases, task, isShared) {
    const { orders } = this;
    const random = new Random(BigInt(orders.seed) * (isShared ? 37n : 31n) + BigInt(task));
    while (!this.isEnding) {
      const wish = isShared ? shared(random) : exclusive(random, orders.names);
      const ttl = random.any(TTLS_MS);
      const style = anyStyle(random);
      const plan = anyPlan(random, ttl);
      const renews = plan.renews && orders.control !== 'validity-from-reply';
      const granted = await this.acquire(leases, wish, ttl, style, renews);
      if (granted) await hold(this, random, granted.call, granted.lease, wish.permits, plan);
      await sleep(random.within(0, 60));
    }
  }

  async acquire(leases, { name, permits }, ttl, { wait, patience }, renew) {
    const call = `${this.orders.id}/${this.#calls++}`;
    const wait_ms = wait === 0 ? null : wait;
    this.history.note('invoked', { call, name, ttl_ms: ttl, wait_ms, permits });
    const aborter = new AbortController();
    const timer = patience === undefined ? undefined : setTimeout(() => aborter.abort(), patience);
    try {
      const lease = await leases.acquire(name, {
        ...optionsOf(permits),
        ttl,
        renew,
        wait,
        signal: aborter.signal,
        // It identifies the grant in the oplog.
        metadata: { call },
      });
      return { call, lease };
    } catch (error) {
      this.history.note('ended', {
        call,
        how: endingOf(error, aborter.signal),
        text: error.message,
      });
      return undefined;
    } finally {
      clearTimeout(timer);
    }
  }

  /** Blocks the event loop: no timer fires, and nothing is read or sent. */
  block(ms) {
    this.history.note('stopped');
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
    this.history.note('resumed');
  }

  /** Notes what the process still has after everything was closed. */
  async noteLeft() {
    const status = readFileSync('/proc/self/status', 'utf8');
    const memory = (field) => Number(new RegExp(`${field}:\\s+(\\d+)`).exec(status)?.[1] ?? 0);
    const until = performance.now() + FAREWELL_MS;
    let left;
    do {
      await sleep(50);
      left = process.getActiveResourcesInfo().filter((kind) => !OF_NODE.includes(kind));
    } while (left.length > 0 && performance.now() < until);
    const sockets = left.filter((kind) => kind.startsWith('TCP')).length;
    this.history.note('left', {
      tasks: left.length - sockets,
      sockets,
      memory_kb: memory('VmRSS'),
      memory_peak_kb: memory('VmHWM'),
    });
  }
}

function anyStyle(random) {
  const wait = random.within(300, 7000);
  const chance = random.within(0, 10);
  if (chance === 0) return { wait: 0 };
  // Its caller ends the wait.
  return chance === 1 ? { wait, patience: Math.floor(wait / 4) } : { wait };
}

function endingOf(error, signal) {
  if (signal.aborted && error === signal.reason) return 'dropped';
  if (error.code === 'WAIT_TIMEOUT') return error.cause ? 'timed_out_unknown' : 'timed_out';
  if (error.code === 'BUSY') return 'busy';
  return error.code === 'UNKNOWN' ? 'unknown' : 'failed';
}

/** Builds the manager, however long the database takes. */
async function build(worker) {
  const { orders } = worker;
  // The settings of the Rust workers, for a quick recovery after a failure.
  const client = new MongoClient(orders.uri, {
    appName: orders.app_name,
    connectTimeoutMS: 1000,
    heartbeatFrequencyMS: 500,
    serverSelectionTimeoutMS: 5000,
  });
  const database = client.db(orders.database);
  Object.assign(worker, { client, ledger: database.collection(LEDGER) });
  const leases = new LeaseManager(database, {
    owner: orders.id,
    ttl: 3000,
    maxClockSkew: 0,
    waiterTtl: orders.waiter_ttl_ms,
  });
  while (!worker.isEnding) {
    try {
      await leases.ready();
      break;
    } catch {
      await sleep(200);
    }
  }
  return { client, leases };
}

const worker = new Worker(JSON.parse(process.argv[2]));
worker.history.note('started', { pid: process.pid });
const input = createInterface({ input: process.stdin });
const isTold = new Promise((resolve) => {
  input.on('line', (line) => {
    const [order, ms] = line.split(' ');
    if (order === 'block') worker.block(Number(ms));
    else resolve();
  });
});
// The end of the input means that the suite has gone: nobody reads the history.
input.on('close', () => process.exit(3));
isTold.then(() => (worker.isEnding = true));
const { client, leases } = await build(worker);
const { tasks, shared_tasks: sharedTasks } = worker.orders;
const all = Array.from({ length: tasks + sharedTasks }, (_, task) => task);
const working = all.map((task) =>
  worker.goOn(leases, task < tasks ? task : task - tasks, task >= tasks),
);
await Promise.all([isTold, ...working]);
const report = await leases.close();
worker.history.note('shut_down', {
  released: report.released,
  left_to_expire: report.leftToExpire.length,
  tasks_left: report.commandsLeft,
});
worker.resource.close();
await client.close();
await worker.noteLeft();
process.exit(0);
