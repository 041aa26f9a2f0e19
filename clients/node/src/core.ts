// The protocol's commands and decisions: the Rust core as WebAssembly. `npm run build` makes it from `wasm/`.
//
// Moments are microseconds of this process's clock, durations are milliseconds, and Infinity means "never".

export {
  Answer,
  Attempts,
  CallSettings,
  Cleanup,
  Command,
  Entry,
  Event,
  Failure,
  Fault,
  FencedWrite,
  Heartbeats,
  HoldStep,
  Holding,
  Info,
  Looked,
  Manager,
  ManagerSettings,
  Next,
  Promotion,
  Renewal,
  Reply,
  Request,
  Scope,
  Store,
  Target,
  WaitStep,
  Waiter,
} from './core/core';
