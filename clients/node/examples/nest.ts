// A job on one of many pods: `@Leased('report:daily')` runs the method while this pod has the lease. The call returns
// at once where another process has it. On shutdown the pod tells its jobs, waits for them, and releases their leases.
//
// With `@nestjs/schedule` it goes below `@Cron`. There the name has to stay taken for longer than the clocks of the pods
// differ, or a late pod runs a short job again:
//
//     @Cron('0 3 * * *')
//     @Leased('report:daily', { atLeast: 60_000 })
//     async daily(): Promise<void> { … }

import 'reflect-metadata';
import { AsyncLocalStorage } from 'node:async_hooks';
import { Inject, Injectable, Module } from '@nestjs/common';
import type { DynamicModule, OnApplicationShutdown } from '@nestjs/common';
import type { Db } from 'mongodb';
import { type JobOptions, type Lease, LeaseManager, type ManagerOptions } from 'mongo-lease';

/** What a running job has. */
export interface Job {
  lease: Lease;
  /** Aborted when the lease is lost, and when the pod shuts down. */
  signal: AbortSignal;
}

const running = new AsyncLocalStorage<Job>();

/** The job in which this code runs. */
export function currentJob(): Job {
  const job = running.getStore();
  if (!job) throw new Error('no method with @Leased is running');
  return job;
}

/** The jobs of this pod. */
@Injectable()
export class LeasedJobs implements OnApplicationShutdown {
  private readonly shutdown = new AbortController();
  private readonly jobs = new Set<Promise<void>>();

  constructor(@Inject(LeaseManager) private readonly leases: LeaseManager) {}

  /** Does the work if this pod gets the lease. Throws a `LeaseLostError` if the lease was lost before the end. */
  async run(name: string, options: JobOptions, work: () => Promise<void>): Promise<void> {
    if (this.shutdown.signal.aborted) return;
    const job = this.runLeased(name, options, work);
    this.jobs.add(job);
    try {
      await job;
    } finally {
      this.jobs.delete(job);
    }
  }

  private async runLeased(
    name: string,
    options: JobOptions,
    work: () => Promise<void>,
  ): Promise<void> {
    await this.leases.job(name, options).run(async (lease) => {
      if (this.shutdown.signal.aborted) return;
      const signal = AbortSignal.any([lease.signal, this.shutdown.signal]);
      await running.run({ lease, signal }, work);
    });
  }

  async onApplicationShutdown(): Promise<void> {
    this.shutdown.abort();
    await Promise.allSettled(this.jobs);
    await this.leases.close();
  }
}

const JOBS = Symbol('the jobs of this pod');

type Method<A extends unknown[]> = (...args: A) => Promise<void>;

/** Runs the method in one process at a time. It needs `LeaseModule` among the application's imports. */
export function Leased(name: string, options: JobOptions = {}) {
  return <A extends unknown[]>(
    target: object,
    _key: string | symbol,
    descriptor: TypedPropertyDescriptor<Method<A>>,
  ): void => {
    const work = descriptor.value!;
    Inject(LeasedJobs)(target, JOBS);
    descriptor.value = function (this: { [JOBS]: LeasedJobs }, ...args: A): Promise<void> {
      return this[JOBS].run(name, options, () => work.apply(this, args));
    } as Method<A>;
  };
}

/** Gives all modules of an application one manager. */
@Module({})
export class LeaseModule {
  static forRoot(db: Db, options: ManagerOptions = {}): DynamicModule {
    const manager = { provide: LeaseManager, useFactory: () => new LeaseManager(db, options) };
    const providers = [manager, LeasedJobs];
    return { module: LeaseModule, global: true, providers, exports: providers };
  }
}

/** What prints a report; an application has its own. */
export abstract class Printer {
  abstract print(report: string, job: Job): Promise<void>;
}

/** A job as an application has it: called by its scheduler, in each pod. */
@Injectable()
export class Reports {
  constructor(@Inject(Printer) private readonly printer: Printer) {}

  @Leased('report:daily')
  async daily(): Promise<void> {
    await this.printer.print('daily', currentJob());
  }
}
