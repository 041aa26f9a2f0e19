//! A store in memory, for users' tests.

use mongo_lease_core::commands::Promotion;
use mongo_lease_core::rules::{GrantId, Instant};
use mongo_lease_core::texts::{Admission, Promoted};
use mongo_lease_memory::{Collection, Leases, News};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::convert::date_ms;
use crate::event::{Event, Told};
use mongo_lease_core::commands::StreamEvent;

/// The documents of a store in memory.
#[wasm_bindgen]
pub struct Store(pub(crate) Leases);

impl Store {
    fn in_each_collection(
        &mut self,
        name: &str,
        now_ms: f64,
        change: impl Fn(&mut Collection<'_>) -> bool,
    ) -> bool {
        let mut is_changed = false;
        for collection in self.0.collections_with(name) {
            is_changed |= change(&mut self.0.collection(&collection, date_ms(now_ms)));
        }
        is_changed
    }
}

#[wasm_bindgen]
impl Store {
    /// A store without leases, at this date of its clock.
    #[wasm_bindgen(constructor)]
    pub fn new(now_ms: f64) -> Store {
        Store(Leases::new(date_ms(now_ms)))
    }

    /// Ends the time of a lease, in every collection. Returns whether it was held.
    pub fn expire(&mut self, name: &str, now_ms: f64) -> bool {
        self.in_each_collection(name, now_ms, |leases| leases.expire(name))
    }

    /// Releases a lease in place of its holder, in every collection. Returns whether it was held.
    pub fn release(&mut self, name: &str, now_ms: f64) -> bool {
        self.in_each_collection(name, now_ms, |leases| leases.release(name))
    }

    /// The number of the next event.
    #[wasm_bindgen(js_name = nextEvent)]
    pub fn next_event(&self) -> u32 {
        u32::try_from(self.0.next_event()).unwrap_or(u32::MAX)
    }

    /// The event with this number, if it is of this collection; `undefined` where there is none yet.
    pub fn event(&self, number: u32, collection: &str) -> Option<Event> {
        let (_, event) = self.0.event(u64::from(number))?;
        if event.collection != collection {
            return Some(Event(None));
        }
        let promotion = |grant_id: GrantId, sent: i64, until_ms: Option<i64>| Promotion {
            grant_id,
            sent: Instant::from_micros(u64::try_from(sent).unwrap_or(0)),
            token: event.token,
            expires_at: until_ms.and_then(chrono::DateTime::from_timestamp_millis),
        };
        let told = match event.told.clone() {
            News::Promoted(Promoted::Recheck { id }) => StreamEvent::Recheck { call_id: id.call() },
            News::Promoted(Promoted::Entry { id, sent }) => {
                StreamEvent::Promoted(promotion(id, sent, event.expires_at_ms))
            }
            News::Admitted(admitted) => {
                let each = |it: Admission| promotion(it.id, it.sent, Some(it.until));
                let admissions = admitted.into_iter().map(each).collect();
                StreamEvent::Admitted { admissions, recheck: None }
            }
        };
        Some(Event(Some(Told::from(told))))
    }
}
