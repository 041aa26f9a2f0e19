// A queue as one has it by ZooKeeper's lock recipe: processes join at the end, know how many are ahead, and each is woken
// when its turn comes. One that dies is left out.

/** Waits for its turn, and returns the lease. `told` hears how many others are ahead in the queue. */
export async function turn(leases, name, { signal, told = () => undefined } = {}) {
  const events = leases.events();
  const listening = (async () => {
    for await (const event of events) {
      if (event.event === 'queued' && event.name === name) told(event.ahead);
    }
  })();
  try {
    return await leases.acquire(name, { wait: Infinity, signal });
  } finally {
    await events.return();
    await listening;
  }
}
