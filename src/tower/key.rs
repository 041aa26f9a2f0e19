//! Extracts the key of a request, and so decides which requests are guarded.
//!
//! A closure computes the key from the request's head; `None` lets the request through without a lease:
//!
//! ```no_run
//! # fn example(leases: mongo_lease::LeaseManager) {
//! use mongo_lease::tower::LeaseLayer;
//! use mongo_lease::tower::http::{Method, request::Parts};
//!
//! let layer = LeaseLayer::new(&leases, |request: &Parts| {
//!     (request.method == Method::POST).then(|| request.uri.path().to_owned())
//! });
//! # let _ = layer;
//! # }
//! ```
//!
//! Or use one of the extractors of this module. They see the path as it arrives at the layer: a router that nests
//! services may have removed the first part. Paths are percent-decoded, as a router does before it selects the handler:
//! `/invoices/%34%32` is `/invoices/42`, and does not bypass that lease.

use http::header::HeaderName;
use http::request::Parts;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

use super::rules::InvalidKey;
use crate::error::{Error, Result};

/// Extracts the key of a request. Implemented by closures from `&Parts` to `Option<String>`.
pub trait KeyExtractor: Send + Sync + 'static {
    /// The request's key; `None` if the request is not guarded.
    ///
    /// # Errors
    ///
    /// [`InvalidKey`] if the request must be guarded and has no usable key: then it is refused.
    fn key(&self, request: &Parts) -> Result<Option<String>, InvalidKey>;
}

impl<F> KeyExtractor for F
where
    F: Fn(&Parts) -> Option<String> + Send + Sync + 'static,
{
    fn key(&self, request: &Parts) -> Result<Option<String>, InvalidKey> {
        Ok(self(request))
    }
}

/// See [`fixed`].
#[derive(Clone, Debug)]
pub struct Fixed(String);

/// See [`header`].
#[derive(Clone, Debug)]
pub struct Header(HeaderName);

/// See [`path`].
#[derive(Clone, Copy, Debug)]
pub struct WholePath(());

/// See [`path_segment`].
#[derive(Clone, Copy, Debug)]
pub struct PathSegment(usize);

/// See [`path_parameter`].
#[derive(Clone, Debug)]
pub struct PathParameter {
    /// The segments of the route; `None` for a parameter.
    template: Vec<Option<String>>,
    /// The index of the key's segment.
    index: usize,
}

/// See [`required`].
#[derive(Clone, Copy, Debug)]
pub struct Required<K>(K);

/// The same key for every request: one request at a time on the whole route.
///
/// The route is everything that the layer wraps.
pub fn fixed(key: impl Into<String>) -> Fixed {
    Fixed(key.into())
}

/// The value of a header. A request without the header is not guarded (see [`required`]). A request that has the header
/// twice, or with a value that is not UTF-8, is refused.
pub fn header(name: HeaderName) -> Header {
    Header(name)
}

/// The whole path, without the query. Requests to the same path exclude each other, whatever their method.
pub fn path() -> WholePath {
    WholePath(())
}

/// One segment of the path, counted from 0. In `/invoices/42`, segment 1 is `42`. A request whose path has no such
/// segment is not guarded (see [`required`]).
pub fn path_segment(index: usize) -> PathSegment {
    PathSegment(index)
}

/// One parameter of a route, as in `path_parameter("/invoices/{id}/payment", "id")`. A request whose path does not
/// match is not guarded (see [`required`]).
///
/// # Errors
///
/// [`Error::InvalidOption`] if the route does not begin with a slash, has a wildcard, or does not have the parameter
/// exactly once.
pub fn path_parameter(route: &str, parameter: &str) -> Result<PathParameter> {
    let invalid = |reason: String| Error::invalid_option("route", reason);
    let Some(segments) = route.strip_prefix('/') else {
        return Err(invalid(format!("{route:?} does not begin with a slash")));
    };
    let mut template = Vec::new();
    let mut found = Vec::new();
    for (index, segment) in segments.split('/').enumerate() {
        let name = segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        if name.is_some_and(|name| name.starts_with('*')) {
            return Err(invalid(format!("{route:?} has a wildcard, which is not supported")));
        }
        if name.is_none() && segment.contains(['{', '}']) {
            return Err(invalid(format!("{segment:?} mixes a parameter with other text")));
        }
        if name == Some(parameter) {
            found.push(index);
        }
        template.push(name.is_none().then(|| segment.to_owned()));
    }
    match found[..] {
        [index] => Ok(PathParameter { template, index }),
        _ => Err(invalid(format!(
            "{route:?} must have {parameter:?} once, and has it {} times",
            found.len()
        ))),
    }
}

/// The same key, but a request without one is refused with 400.
///
/// Without this, it is let through.
pub fn required<K: KeyExtractor>(key: K) -> Required<K> {
    Required(key)
}

impl KeyExtractor for Fixed {
    fn key(&self, _request: &Parts) -> Result<Option<String>, InvalidKey> {
        Ok(Some(self.0.clone()))
    }
}

impl KeyExtractor for Header {
    fn key(&self, request: &Parts) -> Result<Option<String>, InvalidKey> {
        let mut values = request.headers.get_all(&self.0).iter();
        let Some(value) = values.next() else {
            return Ok(None);
        };
        if values.next().is_some() {
            return Err(InvalidKey::Repeated);
        }
        let text = std::str::from_utf8(value.as_bytes()).map_err(|_| InvalidKey::NotText)?;
        Ok(Some(text.to_owned()))
    }
}

impl KeyExtractor for WholePath {
    fn key(&self, request: &Parts) -> Result<Option<String>, InvalidKey> {
        /// A slash that was sent percent-encoded does not separate segments, so it stays encoded.
        const IN_SEGMENT: &AsciiSet = &CONTROLS.add(b'/').add(b'%');
        let mut key = String::new();
        if segments(request).next().is_none() {
            key.push('/');
        }
        for segment in segments(request) {
            key.push('/');
            let segment = decoded(segment)?;
            // Control characters stay as they are: the rules refuse them.
            for character in segment.chars() {
                match character {
                    '/' | '%' => {
                        let mut bytes = [0; 4];
                        let text: &str = character.encode_utf8(&mut bytes);
                        key.extend(utf8_percent_encode(text, IN_SEGMENT));
                    }
                    other => key.push(other),
                }
            }
        }
        Ok(Some(key))
    }
}

impl KeyExtractor for PathSegment {
    fn key(&self, request: &Parts) -> Result<Option<String>, InvalidKey> {
        segments(request).nth(self.0).map(decoded).transpose()
    }
}

impl KeyExtractor for PathParameter {
    fn key(&self, request: &Parts) -> Result<Option<String>, InvalidKey> {
        let found: Vec<&str> = segments(request).collect();
        if found.len() != self.template.len() {
            return Ok(None);
        }
        for (segment, wanted) in found.iter().zip(&self.template) {
            if let Some(wanted) = wanted
                && decoded(segment)? != *wanted
            {
                return Ok(None);
            }
        }
        decoded(found[self.index]).map(Some)
    }
}

impl<K: KeyExtractor> KeyExtractor for Required<K> {
    fn key(&self, request: &Parts) -> Result<Option<String>, InvalidKey> {
        self.0.key(request)?.map(Some).ok_or(InvalidKey::Missing)
    }
}

fn segments(request: &Parts) -> impl Iterator<Item = &str> {
    let path = request.uri.path();
    let rest = path.strip_prefix('/').unwrap_or(path);
    // The root path has no segments. Elsewhere an empty segment counts, and is refused as a key.
    let has_any = !rest.is_empty();
    rest.split('/').filter(move |_| has_any)
}

fn decoded(segment: &str) -> Result<String, InvalidKey> {
    let text = percent_decode_str(segment).decode_utf8().map_err(|_| InvalidKey::NotText)?;
    Ok(text.into_owned())
}
