// The job of the test of `examples/cron.mjs`: it runs until the test's word, or until its signal is aborted.

import { once } from 'node:events';
import { createInterface } from 'node:readline';

const words = createInterface(process.stdin);
// The program ends though its input is open.
process.stdin.unref();

export default async function job({ tick, token, signal }) {
  signal.throwIfAborted();
  const finish = once(words, 'line', { signal });
  console.log('run', tick, String(token));
  await finish;
}
