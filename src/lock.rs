//! A mutex that stays usable after a panic.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Guards data that is consistent after each change: a panic under the lock leaves it usable.
#[derive(Debug, Default)]
pub(crate) struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    pub(crate) fn new(data: T) -> Lock<T> {
        Lock(Mutex::new(data))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
