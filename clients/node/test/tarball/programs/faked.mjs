// A user's test in memory, with fake timers: a lease that renews itself is lost to another process.

import FakeTimers from '@sinonjs/fake-timers';
import { inMemory } from 'mongo-lease';

const clock = FakeTimers.install();
const store = inMemory();
const [leases, other] = [store.manager(), store.manager()];
const lease = await leases.acquire('report');
await store.advance(60_000);
console.log(lease.isValid());
store.expire('report');
await other.acquire('report');
await store.advance(10_000);
console.log(lease.isValid(), lease.signal.reason.reason);
clock.uninstall();
await leases.close();
await other.close();
