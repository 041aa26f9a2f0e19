//! Extracts the key of a request, and so decides which requests are guarded.
//!
//! A closure computes the key from the request's head. A request for which it returns `None` is refused:
//!
//! ```no_run
//! # fn example(leases: mongo_lease::LeaseManager) {
//! use mongo_lease_tower::LeaseLayer;
//! use mongo_lease_tower::http::request::Parts;
//!
//! let layer = LeaseLayer::new(&leases, |request: &Parts| request.uri.query().map(str::to_owned));
//! # let _ = layer;
//! # }
//! ```
//!
//! //! Or use one of the extractors of this module. They see the path as it arrives at the layer: a router that nests
//! services (`nest` of axum) removes the first part, so a route is the path within the nested router. Paths are
//! percent-decoded, as a router does before it selects the handler: `/invoices/%34%32` is `/invoices/42`, and does not
//! bypass that lease.

use http::header::HeaderName;
use http::request::Parts;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

use mongo_lease::{Error, Result};

use crate::rules::InvalidKey;

/// Extracts the key of a request. Implemented by closures from `&Parts` to `Option<String>`.
pub trait KeyExtractor: Send + Sync + 'static {
    /// The request's key.
    ///
    /// # Errors
    /// [`InvalidKey`] if the request has no usable key: then it is refused.
    fn key(&self, request: &Parts) -> Result<String, InvalidKey>;
}

impl<F> KeyExtractor for F
where
    F: Fn(&Parts) -> Option<String> + Send + Sync + 'static,
{
    fn key(&self, request: &Parts) -> Result<String, InvalidKey> {
        self(request).ok_or_else(|| InvalidKey::Missing("the key".to_owned()))
    }
}

struct Fixed(String);

struct Header(HeaderName);

struct WholePath;

struct PathSegment(usize);

struct PathParameter {
    /// The route as it was given.
    route: String,
    /// The segments of the route; `None` for a parameter.
    template: Vec<Option<String>>,
    /// The index of the key's segment.
    index: usize,
}

/// The same key for every request: one request at a time on the whole route.
///
/// The route is everything that the layer wraps.
pub fn fixed(key: impl Into<String>) -> impl KeyExtractor {
    Fixed(key.into())
}

/// The value of a header. A request without the header is refused with 400, and so is one that has the header twice, or
/// with a value that is not UTF-8.
pub fn header(name: HeaderName) -> impl KeyExtractor {
    Header(name)
}

/// The whole path, without the query. Requests to the same path exclude each other, whatever their method.
pub fn path() -> impl KeyExtractor {
    WholePath
}

/// One segment of the path, counted from 0. In `/invoices/42`, segment 1 is `42`. A request whose path has no such
/// segment is refused with 400: below a wildcard, clients choose how long the path is.
pub fn path_segment(index: usize) -> impl KeyExtractor {
    PathSegment(index)
}

/// One parameter of a route, as in `path_parameter("/invoices/{id}/payment", "id")`.
///
/// A request whose path does not fit is refused with 500, and an error in the log (at most one a minute) has the route
/// and the path. Behind a router that nests (`nest` of axum) the route is the path within the nested router, without
/// the prefix. In axum, add the layer with `route_layer`: with `layer`, it also gets the paths that no route has, and
/// answers 500 in place of 404.
///
/// # Errors
/// [`Error::InvalidOption`] if the route does not begin with a slash, has a wildcard, or does not have the parameter
/// exactly once.
pub fn path_parameter(route: &str, parameter: &str) -> Result<impl KeyExtractor> {
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
        [index] => Ok(PathParameter { route: route.to_owned(), template, index }),
        _ => Err(invalid(format!(
            "{route:?} must have {parameter:?} once, and has it {} times",
            found.len()
        ))),
    }
}

impl KeyExtractor for Fixed {
    fn key(&self, _request: &Parts) -> Result<String, InvalidKey> {
        Ok(self.0.clone())
    }
}

impl KeyExtractor for Header {
    fn key(&self, request: &Parts) -> Result<String, InvalidKey> {
        let mut values = request.headers.get_all(&self.0).iter();
        let Some(value) = values.next() else {
            return Err(InvalidKey::Missing(format!("the header `{}`", self.0)));
        };
        if values.next().is_some() {
            return Err(InvalidKey::Repeated);
        }
        let text = std::str::from_utf8(value.as_bytes()).map_err(|_| InvalidKey::NotText)?;
        Ok(text.to_owned())
    }
}

impl KeyExtractor for WholePath {
    fn key(&self, request: &Parts) -> Result<String, InvalidKey> {
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
        Ok(key)
    }
}

impl KeyExtractor for PathSegment {
    fn key(&self, request: &Parts) -> Result<String, InvalidKey> {
        match segments(request).nth(self.0) {
            Some(segment) => decoded(segment),
            None => Err(InvalidKey::Missing(format!("segment {} of the path", self.0))),
        }
    }
}

impl KeyExtractor for PathParameter {
    fn key(&self, request: &Parts) -> Result<String, InvalidKey> {
        let otherwise = || Err(InvalidKey::Route(self.route.clone()));
        let found: Vec<&str> = segments(request).collect();
        if found.len() != self.template.len() {
            return otherwise();
        }
        for (segment, wanted) in found.iter().zip(&self.template) {
            if let Some(wanted) = wanted
                && decoded(segment)? != *wanted
            {
                return otherwise();
            }
        }
        decoded(found[self.index])
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
