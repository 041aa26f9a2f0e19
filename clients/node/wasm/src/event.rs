//! The change stream: its pipeline, and its events.

use mongo_lease_core::commands::{Promotion as Promoted, StreamEvent, watch};
use mongo_lease_core::rules::CallId;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::convert::{date, document, list, micros, token};
use crate::manager::Manager;

/// The calls that an event is for.
pub(crate) struct Told {
    promotions: Vec<Promoted>,
    recheck: Option<CallId>,
}

impl From<StreamEvent> for Told {
    fn from(event: StreamEvent) -> Told {
        match event {
            StreamEvent::Promoted(promotion) => Told { promotions: vec![promotion], recheck: None },
            StreamEvent::Admitted { admissions, recheck } => {
                Told { promotions: admissions, recheck }
            }
            StreamEvent::Recheck { call_id } => {
                Told { promotions: Vec::new(), recheck: Some(call_id) }
            }
        }
    }
}

/// An event of the stream.
#[wasm_bindgen]
pub struct Event(pub(crate) Option<Told>);

/// A waiter's promotion, or its admission.
#[wasm_bindgen]
#[derive(Clone)]
pub struct Promotion(pub(crate) Promoted);

#[wasm_bindgen]
impl Event {
    /// The stages of the stream's pipeline, as a list.
    pub fn pipeline(manager: &Manager) -> Vec<u8> {
        list(watch::pipeline(manager.id()))
    }

    /// Decodes an event of a server.
    pub fn decode(event: &[u8]) -> Event {
        Event(document(event).ok().and_then(|it| watch::decode(&it)).map(Told::from))
    }

    /// The waiters that were promoted or admitted.
    pub fn promotions(&self) -> Vec<Promotion> {
        let all = self.0.iter().flat_map(|told| &told.promotions);
        all.map(|it| Promotion(it.clone())).collect()
    }

    /// The call that should send an attempt.
    pub fn recheck(&self) -> Option<String> {
        Some(self.0.as_ref()?.recheck.as_ref()?.to_string())
    }
}

#[wasm_bindgen]
impl Promotion {
    /// The call that was promoted.
    #[wasm_bindgen(js_name = callId)]
    pub fn call_id(&self) -> String {
        self.0.call_id().to_string()
    }

    /// The echo that it counts from.
    pub fn sent(&self) -> f64 {
        micros(self.0.sent)
    }

    /// The token of the grant.
    pub fn token(&self) -> u64 {
        token(self.0.token)
    }

    /// When it expires by the server's clock.
    #[wasm_bindgen(js_name = expiresAt)]
    pub fn expires_at(&self) -> Option<f64> {
        self.0.expires_at.map(|at| date(at.timestamp_millis()))
    }
}
