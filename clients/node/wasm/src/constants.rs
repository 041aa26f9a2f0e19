//! The times and bounds of the protocol that TypeScript carries out. Times are milliseconds.

use mongo_lease_core::rules::{
    ATTEMPT_TIMEOUT_DEFAULT, Delays as Pauses, FORMAT_TIMEOUT, HEARTBEATS_MAX,
    LOST_RELEASE_TIMEOUT, PING_AFTER, PING_TIMEOUT, POLL, RENEWALS_MAX, RETRY, STREAM_AWAIT,
    STREAM_OPENING, STREAM_SILENCE, heartbeat_again, heartbeat_every, heartbeat_slack, piece_time,
    server_time,
};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::convert::{duration, millis};

/// Growing delays with a bound. The caller adds the jitter.
#[wasm_bindgen]
#[derive(Clone, Copy)]
pub struct Delays {
    /// The first delay.
    pub first: f64,
    /// The bound.
    pub longest: f64,
}

impl From<Pauses> for Delays {
    fn from(of: Pauses) -> Delays {
        Delays { first: millis(of.first), longest: millis(of.longest) }
    }
}

/// What the core says of times and bounds; there they have their reasons.
#[wasm_bindgen]
pub struct Constants;

#[wasm_bindgen]
impl Constants {
    /// Between two attempts at a command that failed.
    pub fn retry() -> Delays {
        RETRY.into()
    }

    /// Between two attempts of the first waiter in the queue, without a change stream.
    pub fn poll() -> Delays {
        POLL.into()
    }

    /// How long an attempt may take whose caller has gone.
    #[wasm_bindgen(js_name = attemptTimeout)]
    pub fn attempt_timeout() -> f64 {
        millis(ATTEMPT_TIMEOUT_DEFAULT)
    }

    /// How long the server may take for a command whose caller waits for `left`.
    #[wasm_bindgen(js_name = serverTime)]
    pub fn server_time(left: f64) -> f64 {
        millis(server_time(duration(left)))
    }

    /// How long the release of a lease that was lost before may take.
    #[wasm_bindgen(js_name = lostReleaseTimeout)]
    pub fn lost_release_timeout() -> f64 {
        millis(LOST_RELEASE_TIMEOUT)
    }

    /// How long the search for documents of another format may take.
    #[wasm_bindgen(js_name = formatTimeout)]
    pub fn format_timeout() -> f64 {
        millis(FORMAT_TIMEOUT)
    }

    /// The most leases that one command renews.
    #[wasm_bindgen(js_name = renewalsMax)]
    pub fn renewals_max() -> usize {
        RENEWALS_MAX
    }

    /// The most waiters of which one command sends the heartbeats.
    #[wasm_bindgen(js_name = heartbeatsMax)]
    pub fn heartbeats_max() -> usize {
        HEARTBEATS_MAX
    }

    /// The time of each piece of a batch that had so much.
    #[wasm_bindgen(js_name = pieceTime)]
    pub fn piece_time(time: f64) -> f64 {
        millis(piece_time(duration(time)))
    }

    /// The time from one heartbeat to the next one.
    #[wasm_bindgen(js_name = heartbeatEvery)]
    pub fn heartbeat_every(waiter_ttl: f64) -> f64 {
        millis(heartbeat_every(duration(waiter_ttl)))
    }

    /// How long a command of heartbeats may take, and how much earlier than due one may go.
    #[wasm_bindgen(js_name = heartbeatSlack)]
    pub fn heartbeat_slack(waiter_ttl: f64) -> f64 {
        millis(heartbeat_slack(duration(waiter_ttl)))
    }

    /// When a heartbeat that has failed is sent again.
    #[wasm_bindgen(js_name = heartbeatAgain)]
    pub fn heartbeat_again(waiter_ttl: f64) -> f64 {
        millis(heartbeat_again(duration(waiter_ttl)))
    }

    /// How long the server waits for an event of a change stream.
    #[wasm_bindgen(js_name = streamAwait)]
    pub fn stream_await() -> f64 {
        millis(STREAM_AWAIT)
    }

    /// How long a change stream may be silent.
    #[wasm_bindgen(js_name = streamSilence)]
    pub fn stream_silence() -> f64 {
        millis(STREAM_SILENCE)
    }

    /// How long the server may take to open one.
    #[wasm_bindgen(js_name = streamOpening)]
    pub fn stream_opening() -> f64 {
        millis(STREAM_OPENING)
    }

    /// The delay of a ping beside a change stream.
    #[wasm_bindgen(js_name = pingAfter)]
    pub fn ping_after() -> f64 {
        millis(PING_AFTER)
    }

    /// The time limit of that ping.
    #[wasm_bindgen(js_name = pingTimeout)]
    pub fn ping_timeout() -> f64 {
        millis(PING_TIMEOUT)
    }
}
