//! A word of the library's clock that its errors name: randomness is JavaScript's here.

/// The error when the operating system gives no randomness.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoRandomness;
