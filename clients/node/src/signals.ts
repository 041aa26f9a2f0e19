// Callers' signals: one listener for each, however many calls wait with it. Node warns of more than ten.

const waiting = new WeakMap<AbortSignal, Set<() => void>>();

/** Calls back when the signal is aborted. Returns what forgets that. */
export function onAbort(signal: AbortSignal | undefined, callback: () => void): () => void {
  if (!signal) return () => undefined;
  let all = waiting.get(signal);
  if (!all) {
    all = new Set();
    waiting.set(signal, all);
    signal.addEventListener('abort', tell);
  }
  const callbacks = all;
  callbacks.add(callback);
  return () => {
    callbacks.delete(callback);
    if (callbacks.size > 0 || waiting.get(signal) !== callbacks) return;
    waiting.delete(signal);
    signal.removeEventListener('abort', tell);
  };
}

function tell(this: AbortSignal): void {
  const callbacks = [...(waiting.get(this) ?? [])];
  waiting.delete(this);
  this.removeEventListener('abort', tell);
  callbacks.forEach((callback) => callback());
}

/** Throws the signal's reason if it is aborted. */
export function throwIfAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw signal.reason;
}

/** Whether this can be used as a signal, of whatever library it is. */
export function isSignal(signal: unknown): boolean {
  const { aborted, addEventListener, removeEventListener } = (signal ?? {}) as Partial<AbortSignal>;
  const can = [addEventListener, removeEventListener].every((it) => typeof it === 'function');
  return typeof aborted === 'boolean' && can;
}
