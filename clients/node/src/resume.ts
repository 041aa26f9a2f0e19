// A lease that another process has detached is taken up here.

import { type Holding, type Manager, Resuming } from './core';
import type { Engine } from './engine';
import { invalidOption, toError, asLeaseError } from './errors';
import { Lease, type LeaseKey } from './lease';
import { check, checkName } from './options';
import { type AttemptTime, untilAnswered } from './retry';
import { type Attempt, randomHex } from './runner';

/** Checks a key. It may be forged. */
export function resumingOf(key: LeaseKey, manager: Manager): Resuming {
  if (typeof key !== 'object' || key === null) {
    throw invalidOption('key', 'must be a key that `detach` has returned');
  }
  const [grant, token] = [key.grant, key.token].map((text) => check('key', text, 'string'));
  const value = check('value', key.value, 'string');
  return new Resuming(manager, checkName(key.name), value, grant, token, randomHex());
}

/** Uses the key up. A close waits for it. */
export function resume(engine: Engine, resuming: Resuming): Promise<Lease> {
  return engine.runner.track(resumeNow(engine, resuming));
}

async function resumeNow(engine: Engine, resuming: Resuming): Promise<Lease> {
  const { clock, runner } = engine;
  const policy = engine.policy();
  const look = (time: AttemptTime): Attempt => runner.start(resuming.look(), time);
  const attempt = (time: AttemptTime): Attempt => runner.start(resuming.command(), time);
  let holding: Holding | undefined;
  let isAlone: boolean;
  try {
    await engine.ready(policy.deadline);
    const { reply } = await untilAnswered(clock, policy, attempt);
    holding = resuming.holding(reply, engine.manager);
    isAlone = resuming.isAlone(reply);
    if (!holding) throw resuming.refusal((await untilAnswered(clock, policy, look)).reply);
  } catch (error) {
    throw asLeaseError(error);
  }
  if (!holding.isValid(clock.now())) throw toError(resuming.expired());
  const likely = isAlone ? 'alone' : 'besideOthers';
  const lease = new Lease(engine, holding, resuming.token(), likely, undefined);
  if (engine.isClosing) {
    // A release that is not confirmed leaves it to its ttl.
    await lease.release().catch(() => undefined);
    engine.checkOpen();
  }
  engine.renewer.add(lease);
  return lease;
}
