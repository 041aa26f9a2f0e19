//! Numbers and documents between JavaScript and Rust.

use std::time::Duration;

use mongo_lease_core::bson::{Bson, Document, RawDocument, Timestamp};
use mongo_lease_core::rules::Instant;

use crate::error::Error;
use crate::token::Token;

/// More microseconds than a clock ever shows, and exact as a float.
const MICROS_MAX: f64 = 9_007_199_254_740_991.0;

/// A moment, from microseconds.
pub(crate) fn instant(micros: f64) -> Instant {
    if micros >= MICROS_MAX { Instant::FAR_FUTURE } else { Instant::from_micros(whole(micros)) }
}

/// Microseconds of a moment. Infinity stands for a moment that never comes.
pub(crate) fn micros(at: Instant) -> f64 {
    if at == Instant::FAR_FUTURE { f64::INFINITY } else { float(at.as_micros()) }
}

/// A duration, from milliseconds.
pub(crate) fn duration(millis: f64) -> Duration {
    let micros = millis * 1_000.0;
    if micros >= MICROS_MAX { Duration::MAX } else { Duration::from_micros(whole(micros)) }
}

/// Milliseconds of a duration.
pub(crate) fn millis(duration: Duration) -> f64 {
    if duration == Duration::MAX { f64::INFINITY } else { duration.as_secs_f64() * 1_000.0 }
}

/// The whole number up to this one; zero for a negative one.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a float saturates")]
pub(crate) fn whole(number: f64) -> u64 {
    number as u64
}

#[allow(clippy::cast_precision_loss, reason = "microseconds of a clock, and dates, are exact")]
fn float(number: u64) -> f64 {
    number as f64
}

/// Milliseconds of a date.
#[allow(clippy::cast_precision_loss, reason = "dates are exact for 285,000 years")]
pub(crate) fn date(millis: i64) -> f64 {
    millis as f64
}

/// The date of so many milliseconds.
#[allow(clippy::cast_possible_truncation, reason = "a float saturates")]
pub(crate) fn date_ms(millis: f64) -> i64 {
    millis as i64
}

/// A token as a number.
pub(crate) fn token(at: Timestamp) -> u64 {
    Token::from(at).as_u64()
}

/// A document of the Node driver's bytes.
pub(crate) fn document(bytes: &[u8]) -> Result<Document, String> {
    let raw = RawDocument::from_bytes(bytes).map_err(|error| error.to_string())?;
    Document::try_from(raw).map_err(|error| error.to_string())
}

/// The bytes of a document.
pub(crate) fn bytes(document: &Document) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Into memory, nothing can fail but a document that is larger than any that this crate makes.
    let _ = document.to_writer(&mut bytes);
    bytes
}

/// The bytes of a document with this list.
pub(crate) fn list(items: impl IntoIterator<Item = Document>) -> Vec<u8> {
    let items: Vec<Bson> = items.into_iter().map(Bson::from).collect();
    bytes(&Document::from_iter([("list".to_owned(), Bson::Array(items))]))
}

/// The document of an option, or why it is refused.
pub(crate) fn option_document(option: &'static str, bytes: &[u8]) -> Result<Document, Error> {
    document(bytes).map_err(|reason| Error::invalid_option(option, reason))
}
