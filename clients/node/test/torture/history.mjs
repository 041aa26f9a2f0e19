// The history of a worker: a line of JSON for each event, which torture's checker reads.

import { openSync, writeSync } from 'node:fs';

export class History {
  #file;
  #by;
  #ahead;

  /** `ahead` is by how many nanoseconds the clock that all processes share is ahead of Node's monotonic one. */
  constructor(path, by, ahead) {
    this.#file = openSync(path, 'a');
    this.#by = by;
    this.#ahead = BigInt(ahead);
  }

  /** Now, by the clock that all processes share, in nanoseconds. */
  now() {
    return process.hrtime.bigint() + this.#ahead;
  }

  /** Notes an event. It is in the file when this returns, also if the process is killed then. */
  note(event, fields = {}) {
    const record = { at: this.now(), by: this.#by, event, ...fields };
    // `JSON.stringify` takes no 64-bit integers.
    const pair = ([name, value]) =>
      `"${name}":${typeof value === 'bigint' ? value : JSON.stringify(value)}`;
    writeSync(this.#file, `{${Object.entries(record).map(pair).join(',')}}\n`);
  }
}

/** Random numbers that the seed decides (mulberry32). */
export class Random {
  #state;

  constructor(seed) {
    this.#state = Number(BigInt.asUintN(32, BigInt(seed)));
  }

  /** At least zero, and below one. */
  next() {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** A whole number from `least` to below `most`. */
  within(least, most) {
    return least + Math.floor(this.next() * (most - least));
  }

  happens(chance) {
    return this.next() < chance;
  }

  any(choices) {
    return choices[this.within(0, choices.length)];
  }
}

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** A sleep that nobody may wait for in the end: it does not count as something that the process has left. */
export const aside = (ms) => new Promise((resolve) => setTimeout(resolve, ms).unref());
