//! When a change stream that has failed is opened again.

use mongo_lease_core::rules::{Reopening as Rules, StreamFailure};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::convert::{duration, millis};

/// The delays between the tries, in milliseconds. The caller adds the jitter.
#[wasm_bindgen]
#[derive(Default)]
pub struct Reopening(Rules);

#[wasm_bindgen]
impl Reopening {
    /// No try has failed yet.
    #[wasm_bindgen(constructor)]
    pub fn new() -> Reopening {
        Reopening::default()
    }

    /// The delay after a stream has failed that had worked for so long, if it had.
    pub fn after(&mut self, lasts: bool, worked: Option<f64>) -> f64 {
        let failure = if lasts { StreamFailure::Lasting } else { StreamFailure::Passing };
        millis(self.0.after(failure, worked.map(duration)))
    }

    /// The delay where no command gets through at all.
    pub fn later(&mut self) -> f64 {
        millis(self.0.later())
    }
}
