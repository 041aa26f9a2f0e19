//! How much of a manager's events is kept for a listener.

/// How many events a listener may be behind before it misses some.
pub const EVENTS_BACKLOG: usize = 1024;
