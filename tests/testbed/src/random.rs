use std::hash::{BuildHasher, Hasher, RandomState};

/// A random number from the seed which the standard library takes for its hash maps.
pub(crate) fn number() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A name which no other process, and no other call in this one, comes up with.
pub(crate) fn name(prefix: &str) -> String {
    format!("{prefix}{}-{:016x}", std::process::id(), number())
}
