// The state that all handles of one manager share.

import { hostname } from 'node:os';
import type { Clock } from './clock';
import { Command, Constants, Failure, Fault, type Info, Manager, Next, type Reply } from './core';
import { AttemptError, toError, asLeaseError } from './errors';
import { Events } from './events';
import type { Guesses } from './guesses';
import { Heart } from './heartbeat';
import { LocalQueues } from './local-queue';
import { type ManagerOptions, checkManagerOptions, settingsOf } from './options';
import type { CloseReport } from './outcomes';
import { Releaser } from './release';
import { Renewer } from './renewer';
import { type AttemptTime, type Policy, Stop, Stopped, oneAttempt, untilAnswered } from './retry';
import { type Attempt, type Backend, Runner, attemptError, before, randomHex } from './runner';
import { onAbort, throwIfAborted } from './signals';
import { Turns } from './turns';
import { Waiters } from './waiters';
import { Watcher } from './watcher';

// The library has ten, of which each carries up to 250 calls. Here a command carries one.
const SLOTS_DEFAULT = 40;
const ADVICE = 'the option `ensureIndexes: true` makes what is missing';
const UNCHANGED = 'the next call makes what is missing, and changes no index that exists';
// The server's codes of errors that another form of `listIndexes` would not avoid: unauthorized, no collection, a view.
const LIST_CODES = [13, 26, 166];

export class Engine {
  readonly manager: Manager;
  readonly collection: string;
  readonly runner: Runner;
  readonly clock: Clock;
  readonly guesses: Guesses;
  readonly renewer: Renewer;
  readonly releaser: Releaser;
  readonly localQueues = new LocalQueues();
  readonly events = new Events();
  /** Of calls that begin, of those whose time is over, and of releases. */
  readonly beginnings: Turns;
  readonly timeouts: Turns;
  readonly releases: Turns;
  readonly waiters: Waiters;
  readonly maxClockSkew: number;
  hasOplog = true;
  isClosing = false;
  private isChecked = false;
  private watcher: Watcher | undefined;
  private starting: Promise<void> | undefined;
  /** Why an index could not be made, as the database said it. */
  private whyNotMade: string | undefined;
  private closing: Promise<CloseReport> | undefined;
  private readonly times = new Map<string, number>();
  private readonly closingCallbacks = new Set<() => void>();
  private readonly options: ManagerOptions;

  constructor(backend: Backend, told: ManagerOptions) {
    const options = checkManagerOptions(told);
    this.options = options;
    const process_ = `@${hostname()}:${process.pid}`;
    const id = randomHex().slice(0, 24);
    this.manager = refusedAsError(() => new Manager(settingsOf(options), id, process_));
    this.collection = this.manager.collection();
    this.maxClockSkew = this.time('max_clock_skew');
    this.runner = new Runner(backend, this.manager, slotsOf(options, backend, this.manager));
    this.clock = backend.clock;
    this.guesses = this.runner.guesses;
    this.beginnings = new Turns(this.clock);
    this.timeouts = new Turns(this.clock);
    this.releases = new Turns(this.clock);
    this.releaser = new Releaser(this.runner);
    this.renewer = new Renewer(this);
    const heart = new Heart(this);
    const waiterTtl = this.time('waiter_ttl');
    this.waiters = new Waiters(this.clock, waiterTtl, (due) => heart.beat(due));
  }

  /** Whether `ready` has nothing to do. */
  get isReady(): boolean {
    return this.isChecked && !this.isClosing;
  }

  /**
   * Checks the server and the indexes, once. After a failure the next call checks again. No caller waits for longer than
   * until its own deadline; the check goes on.
   */
  async ready(deadline: number, signal?: AbortSignal): Promise<void> {
    this.checkOpen();
    if (this.isChecked) return;
    const starting = this.check();
    let forget: (() => void)[] = [];
    const gone = new Promise<void>((resolve) => {
      forget = [onAbort(signal, resolve), this.onClosing(resolve)];
    });
    try {
      await before(this.clock, deadline, Promise.race([starting, gone]));
    } finally {
      forget.forEach((each) => each());
    }
    throwIfAborted(signal);
    this.checkOpen();
    if (this.isChecked) return;
    const error = this.runner.backend.whySilent();
    throw error === undefined ? new AttemptError(Failure.unanswered()) : attemptError(error);
  }

  private check(): Promise<void> {
    if (!this.starting) {
      // A close does not wait for it.
      const starting = this.start();
      starting.catch(() => (this.starting = undefined));
      this.starting = starting;
    }
    return this.starting;
  }

  private async start(): Promise<void> {
    const buildMs = this.time('build_timeout');
    const policy = this.policy(buildMs);
    try {
      const isLost = (failure: Failure): boolean => failure.isOutOfReach();
      this.hasOplog = (await this.look(() => Command.hello(), policy, isLost)).hasOplog();
      if (this.options.ensureIndexes) await this.createIndexes(policy);
      if (!this.manager.is('assume_indexes')) await this.verify(policy);
      await this.checkFormat();
      await this.dryRun(policy);
    } catch (error) {
      if (error instanceof Stopped) throw toError(Fault.shutDown());
      throw error;
    }
    if (this.isClosing) return;
    this.isChecked = true;
    if (this.manager.is('change_stream') && this.hasOplog) this.watcher ??= new Watcher(this);
    else this.waiters.disableStream();
  }

  private async dryRun(policy: Policy): Promise<void> {
    try {
      await this.look(() => Command.dryRun(), policy);
    } catch (error) {
      const { failure } = error as AttemptError;
      const code = failure?.serverCode();
      if (code === undefined || code === 13 || failure.next() !== Next.Stop) throw error;
      const why = `the server refuses the commands that leases need: ${failure.fault().message()}`;
      throw toError(Fault.unsupported(why), error);
    }
  }

  /** Creates both indexes where they are missing. An existing one is not changed. */
  private async createIndexes(policy: Policy): Promise<void> {
    this.whyNotMade = undefined;
    for (const number of [0, 1]) {
      // Whether that matters is told by the check that follows.
      await this.look(() => Command.createIndex(number), policy).catch((error: unknown) => {
        if (error instanceof Stopped) throw error;
        this.whyNotMade = attemptError(error).failure.fault().message();
      });
    }
  }

  /** Fails unless both indexes exist and match their specifications. */
  private async verify(policy: Policy): Promise<void> {
    const { collection } = this;
    let problem: string | undefined;
    try {
      problem = (await this.listIndexes(policy)).indexProblem();
    } catch (error) {
      const code = (error as AttemptError).failure?.serverCode();
      if (code === 26) problem = `the collection \`${collection}\` does not exist`;
      else if (code === 166) problem = `\`${collection}\` is a view, not a collection`;
      else throw error;
    }
    if (problem !== undefined) throw this.notMigrated(`${problem}; ${this.advice()}`);
  }

  private advice(): string {
    if (!this.options.ensureIndexes) return ADVICE;
    const { whyNotMade } = this;
    return whyNotMade === undefined ? UNCHANGED : `to make it has failed: ${whyNotMade}`;
  }

  private async listIndexes(policy: Policy): Promise<Reply> {
    try {
      return await this.look(() => Command.listIndexes(true), policy);
    } catch (error) {
      const code = (error as AttemptError).failure?.serverCode();
      if (code === undefined || LIST_CODES.includes(code)) throw error;
      return this.look(() => Command.listIndexes(false), policy);
    }
  }

  /** Fails if the collection has documents of another format, unless the search takes too long. */
  private async checkFormat(): Promise<void> {
    const policy = oneAttempt(this.clock, Constants.formatTimeout());
    const looking = this.look(
      () => Command.findOtherFormat(),
      policy,
      () => true,
    );
    const found = await looking.catch((error: unknown) => {
      if (error instanceof Stopped) throw error;
    });
    const field = found?.otherFormat();
    if (field === undefined) return;
    throw this.notMigrated(
      `the collection \`${this.collection}\` has documents in an unsupported format (field ` +
        `\`${field}\`): stop the programs that write it, and delete these documents; they are ` +
        'leases only, and nothing else is lost',
    );
  }

  /** Each caller makes an error of its own of it, with its own line in the stack. */
  private notMigrated(problem: string): Fault {
    return Fault.notMigrated(problem, this.runner.backend.name, this.collection);
  }

  /** Checks the indexes again, after a failure has put them in doubt. */
  async verifyIndexes(): Promise<void> {
    if (this.manager.is('assume_indexes')) return;
    try {
      await this.verify(this.policy());
    } catch (error) {
      if (error instanceof Fault && error.code() === 'NOT_MIGRATED') {
        this.starting = undefined;
        this.isChecked = false;
      }
      throw error;
    }
  }

  /** Looks at something until that is answered, or until a close, which waits for no answer. */
  async look(
    command: () => Command,
    policy: Policy = this.policy(),
    ends?: (failure: Failure) => boolean,
    signal?: AbortSignal,
  ): Promise<Reply> {
    const attempt = (time: AttemptTime): Attempt =>
      this.runner.start(command(), time, { isLookOnly: true });
    const stop = new Stop();
    const goes = (): void => stop.stop();
    const forget = [onAbort(signal, goes), this.onClosing(goes)];
    try {
      if (this.isClosing) throw new Stopped();
      return (await untilAnswered(this.clock, policy, attempt, ends, stop)).reply;
    } finally {
      forget.forEach((each) => each());
    }
  }

  /** The clock of the primary, in milliseconds since 1970. */
  async serverNow(signal?: AbortSignal): Promise<number> {
    const hello = (): Command => Command.hello();
    try {
      await this.ready(this.policy().deadline, signal);
      const now = (await this.look(hello, this.policy(), undefined, signal)).now();
      if (now === undefined) throw toError(Fault.unsupported('the server does not tell its time'));
      return now;
    } catch (error) {
      throw error instanceof Stopped ? toError(Fault.shutDown()) : asLeaseError(error);
    }
  }

  /** How long an option of the manager lasts, in milliseconds. */
  time(option: string): number {
    const known = this.times.get(option) ?? this.manager.time(option);
    this.times.set(option, known);
    return known;
  }

  /** The limits of a command, by default two attempts. */
  policy(milliseconds?: number): Policy {
    const attemptTimeout = this.time('attempt_timeout');
    const wait = milliseconds ?? attemptTimeout * 2;
    return { attemptTimeout, deadline: this.clock.rough() + wait * 1e3 };
  }

  /** How long a holder waits for its release: not for long if it has been told already that the lease is lost. */
  releasePolicy(isLost: boolean): Policy {
    const releaseMs = this.time('release_timeout');
    return this.policy(isLost ? Math.min(releaseMs, Constants.lostReleaseTimeout()) : releaseMs);
  }

  checkOpen(): void {
    if (this.isClosing) throw toError(Fault.shutDown());
  }

  /** Calls back when the manager closes. Returns what forgets that. */
  onClosing(callback: () => void): () => void {
    this.closingCallbacks.add(callback);
    return () => void this.closingCallbacks.delete(callback);
  }

  attemptError(error: unknown): AttemptError {
    return attemptError(error);
  }

  infoOf(reply: Reply): Info | undefined {
    return reply.info(this.manager);
  }

  /** Ends everything within the time limit. A second call waits for the first. */
  close(): Promise<CloseReport> {
    this.closing ??= this.closeNow();
    return this.closing;
  }

  private async closeNow(): Promise<CloseReport> {
    const { clock, runner } = this;
    const deadline = clock.now() + this.time('shutdown_timeout') * 1e3;
    this.isClosing = true;
    runner.closeAcquires();
    this.waiters.abandonAll();
    this.closingCallbacks.forEach((callback) => callback());
    const leases = this.renewer.leases();
    for (const lease of leases) if (lease.end()) lease.tellReleased();
    const left = new Set(leases);
    let released = 0;
    const ending = leases.map((lease) =>
      lease.release().then(
        (outcome) => {
          left.delete(lease);
          // Somebody else may have ended it meanwhile.
          if (outcome === 'released') released += 1;
        },
        () => {},
      ),
    );
    await before(clock, deadline, Promise.all(ending));
    await before(clock, deadline, this.watcher?.stop() ?? Promise.resolve());
    // Calls from before get their answers now, and their grants are given back.
    await runner.idle(deadline);
    this.renewer.stop();
    this.waiters.stop();
    runner.close();
    this.events.close();
    return {
      released,
      leftToExpire: [...left].map((lease) => lease.name),
      commandsLeft: runner.underWay,
    };
  }
}

/** How many commands may be under way: as many as asked for, or as there are connections beside the stream's. */
function slotsOf(options: ManagerOptions, backend: Backend, manager: Manager): number {
  if (options.maxInFlight !== undefined) return manager.maxInFlight();
  return Math.max(1, Math.min(SLOTS_DEFAULT, backend.connections - 1));
}

/** The result of a call of the core; what it refuses is thrown as an error. */
export function refusedAsError<T>(call: () => T): T {
  try {
    return call();
  } catch (error) {
    throw asLeaseError(error);
  }
}
