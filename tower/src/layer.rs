//! `LeaseLayer`: the layer and its options.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use mongo_lease::{Acquire, Error, Lease, LeaseManager};
use tokio::time::Instant;

use crate::key::KeyExtractor;
use crate::refusal::{Refusal, RefusalKind, Refuse};
use crate::rules::{InvalidKey, KeyRules};

/// The least time between two errors in the log about paths that do not fit the route. Clients choose the paths, and
/// must not be able to fill the log.
const MISMATCH_REPORT_EVERY: Duration = Duration::from_secs(60);

/// A tower layer that handles each request under a lease.
///
/// Requests with the same key exclude each other, on all machines; or [several](LeaseLayer::limit) of them are handled
/// at a time.
///
/// The lease is acquired before the handler is called, and released after the handler has answered, before the answer
/// is passed on. So a client that then sends another request finds the lease free. If the handler panics, fails, or is
/// dropped because the client has gone, the lease is released in the background. The handler finds the lease in the
/// request's extensions, as [`HeldLease`](crate::HeldLease).
///
/// # Responses to refused requests
/// | what happened | status | `code` |
/// | --- | --- | --- |
/// | another request or process holds the lease | 409 | `lease_held` |
/// | the same, or too few permits are free, with a [limit](LeaseLayer::limit) above 1 | 429 | `lease_held` |
/// | the [wait](LeaseLayer::wait) was over | 503 | `lease_wait_timeout` |
/// | the database was out of reach, the queue was full, or the manager is shut down | 503 | `lease_unavailable` |
/// | the lease was lost meanwhile, [if you choose so](LeaseLayer::on_loss) | 503 | `lease_lost` |
/// | the request has no key, or the [key](KeyRules) is too long or has characters that are not allowed | 400 | `lease_key_invalid` |
/// | the path does not fit the [route](crate::key::path_parameter), an option of the layer is out of range, or the server has no [permits](LeaseLayer::limit) | 500 | `lease_misconfigured` |
///
/// The body is `application/problem+json` (RFC 9457) with the member `code`. While a live holder has the lease, there
/// is a `Retry-After` of 1 s. The response contains nothing that the client has sent, and no host. You can change it,
/// or make [another one](LeaseLayer::refuse_with).
///
/// A request with the content type `application/grpc` is answered with 200 and a `grpc-status`: 10 (aborted) for held
/// and lost, 8 (resource exhausted) for held with a limit above 1, 14 (unavailable), 3 (invalid argument), 13
/// (internal).
///
/// # Guarantees
/// The same as a [`Lease`]. It does not guarantee that the handler stops when the lease is lost: see [`OnLoss`].
/// A request without a key is refused: put the layer around the routes that it guards, and no other.
///
/// # Fairness
/// As for [`Acquire`].
///
/// # Examples
/// ```no_run
/// # fn example(leases: mongo_lease::LeaseManager) {
/// use std::time::Duration;
/// use mongo_lease_tower::http::header::HeaderName;
/// use mongo_lease_tower::{LeaseLayer, OnLoss, key};
///
/// let layer = LeaseLayer::new(&leases, key::header(HeaderName::from_static("idempotency-key")))
///     .wait(Duration::from_secs(2))
///     .on_loss(OnLoss::Answer503)
///     .acquire_with(|acquire| acquire.max_hold(Duration::from_secs(60)));
/// # let _ = layer;
/// # }
/// ```
#[must_use = "nothing is guarded until it is put around a service"]
#[derive(Clone)]
pub struct LeaseLayer {
    leases: LeaseManager,
    key: Arc<dyn KeyExtractor>,
    rules: KeyRules,
    /// The time of the last error in the log about a path that does not fit the route. All clones share it.
    last_mismatch_report: Arc<Mutex<Option<Instant>>>,
    wait: Duration,
    limit: Option<u32>,
    options: Arc<dyn Fn(Acquire) -> Acquire + Send + Sync>,
    refuse: Arc<Refuse>,
    pub(crate) holds_until_body_ends: bool,
    pub(crate) on_loss: OnLoss,
}

/// The reaction to a loss of the lease while its request is handled.
///
/// The handler can always see the loss, by the lease in the request's extensions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnLoss {
    /// Nothing: the client gets the handler's answer. Only the handler knows what a loss means.
    #[default]
    Tell,
    /// The handler goes on, but its answer is withheld: the client gets 503. A body that has begun is cut off.
    Answer503,
    /// The handler is dropped at its next `await`, and the client gets 503 at once. A body that has begun is cut off.
    Stop,
}

impl LeaseLayer {
    /// Creates a layer that derives the names of leases from the requests.
    ///
    /// A name is `http:` and the key, unless you set [other rules](LeaseLayer::key_rules). See [`key`](crate::key).
    pub fn new(leases: &LeaseManager, key: impl KeyExtractor) -> LeaseLayer {
        LeaseLayer {
            leases: leases.clone(),
            key: Arc::new(key),
            rules: KeyRules::default(),
            last_mismatch_report: Arc::default(),
            wait: Duration::ZERO,
            limit: None,
            options: Arc::new(|acquire| acquire),
            refuse: Arc::new(Refusal::response),
            holds_until_body_ends: false,
            on_loss: OnLoss::default(),
        }
    }

    /// Sets the prefix of the leases' names. Defaults to `http`.
    pub fn key_rules(mut self, rules: KeyRules) -> LeaseLayer {
        self.rules = rules;
        self
    }

    /// How long a request waits for its lease. Defaults to no wait: a held lease is refused at once.
    pub fn wait(mut self, wait: Duration) -> LeaseLayer {
        self.wait = wait;
        self
    }

    /// The most requests of a key that are handled at a time, over all machines: from 1 to 1,000. Not set by default.
    ///
    /// With a limit above 1, each request has one permit of the name, in place of an exclusive lease: see
    /// [`Semaphore`](mongo_lease::Semaphore). A request beyond the limit is refused at once with 429, or waits for a
    /// permit as the layer's [`wait`](LeaseLayer::wait) says. The permit is free again when its request ends, as a
    /// lease would be; after a crash, when it expires. A limit of 1 is an exclusive lease, as without a limit.
    ///
    /// - With [`acquire_with`](LeaseLayer::acquire_with), a request can take more than one:
    ///   `acquire_with(|acquire| acquire.permits(2))`. A limit excludes [`shared`](Acquire::shared) and
    ///   [`hold_at_least`](Acquire::hold_at_least).
    /// - For a request beyond the limit there is no single holder, so [`Refusal::holder`] names none, and its remaining
    ///   time is that until the first permit expires. While an exclusive lease has the name, the answer has the same
    ///   status and `code`.
    /// - The handler's [`token`](Lease::token) says who came later only between leases that exclude each other, and
    ///   [`transaction`](Lease::transaction) and [`detach`](Lease::detach) fail with
    ///   [`Error::Unsupported`].
    /// - Layers of the same names should have the same limit: the smallest one of the requests that are being handled
    ///   is in force. A layer without a limit, or any exclusive acquire, gets the name while no request is being
    ///   handled.
    ///
    /// A limit or a number of permits out of range is answered with 500, and so is each request with a limit above 1
    /// on a standalone server, which has no permits.
    ///
    /// # Examples
    /// ```no_run
    /// # fn example(leases: mongo_lease::LeaseManager) {
    /// use std::time::Duration;
    /// use mongo_lease_tower::http::header::HeaderName;
    /// use mongo_lease_tower::{LeaseLayer, key};
    ///
    /// // At most five requests of a tenant at a time, on all machines. The sixth waits for two seconds.
    /// let layer = LeaseLayer::new(&leases, key::header(HeaderName::from_static("x-tenant")))
    ///     .limit(5)
    ///     .wait(Duration::from_secs(2));
    /// # let _ = layer;
    /// # }
    /// ```
    pub fn limit(mut self, limit: u32) -> LeaseLayer {
        self.limit = Some(limit);
        self
    }

    /// Sets options of the leases: `ttl`, `max_hold`, `owner` and so on. The wait and the limit are options of the
    /// layer itself ([`wait`](LeaseLayer::wait), [`limit`](LeaseLayer::limit)). Do not set a `value`: two requests with
    /// the same value do not exclude each other.
    pub fn acquire_with(
        mut self,
        options: impl Fn(Acquire) -> Acquire + Send + Sync + 'static,
    ) -> LeaseLayer {
        self.options = Arc::new(options);
        self
    }

    /// Makes the response to a refused request: its status, headers and body. Defaults to [`Refusal::response`], which
    /// the function may call and change.
    ///
    /// For a gRPC client the function must keep the status 200: see [`Refusal::is_grpc`].
    ///
    /// # Examples
    /// ```no_run
    /// # fn example(leases: mongo_lease::LeaseManager) {
    /// use mongo_lease_tower::http::StatusCode;
    /// use mongo_lease_tower::{LeaseLayer, RefusalKind, key};
    ///
    /// // Another status and another body, with the headers as they are: `Retry-After` among them.
    /// let layer = LeaseLayer::new(&leases, key::path()).refuse_with(|refusal| {
    ///     let mut response = refusal.response();
    ///     if refusal.kind == RefusalKind::Held && !refusal.is_grpc {
    ///         *response.status_mut() = StatusCode::LOCKED;
    ///         *response.body_mut() = r#"{"code":"at_work"}"#.into();
    ///     }
    ///     response
    /// });
    /// # let _ = layer;
    /// # }
    /// ```
    pub fn refuse_with(
        mut self,
        response: impl Fn(&Refusal) -> Response<Bytes> + Send + Sync + 'static,
    ) -> LeaseLayer {
        self.refuse = Arc::new(response);
        self
    }

    /// Keeps the lease held until the response's body ends or the client has gone.
    ///
    /// Without this, the lease is held until the handler has answered, and a body that is produced while it is sent is
    /// produced without the lease.
    ///
    /// If the length of the body is known beforehand, the lease is released just after its end, and a client that sends
    /// another request at once may still find it held.
    pub fn hold_until_body_ends(mut self) -> LeaseLayer {
        self.holds_until_body_ends = true;
        self
    }

    /// Sets the reaction to a loss during the request. Defaults to [`OnLoss::Tell`].
    pub fn on_loss(mut self, on_loss: OnLoss) -> LeaseLayer {
        self.on_loss = on_loss;
        self
    }

    /// The name of the request's lease.
    pub(crate) fn name(&self, request: &Parts) -> Result<String, Box<Refusal>> {
        let name = self.key.key(request).and_then(|key| self.rules.name(&key));
        name.map_err(|invalid| {
            Box::new(if let InvalidKey::Route(route) = &invalid {
                self.mismatch(route, request.uri.path())
            } else {
                Refusal::new(RefusalKind::InvalidKey(invalid), None, None)
            })
        })
    }

    /// The refusal of a path that does not fit the route. It is reported to the log.
    fn mismatch(&self, route: &str, path: &str) -> Refusal {
        let reason = format!(
            "the path {path:?} does not fit {route:?}: behind `nest`, the route is the path within \
             the nested router"
        );
        let error = Error::invalid_option("route", reason);
        let mut last = self.last_mismatch_report.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_none_or(|last| last.elapsed() >= MISMATCH_REPORT_EVERY) {
            *last = Some(Instant::now());
            drop(last);
            report_mismatch(&error);
        }
        Refusal::new(RefusalKind::Misconfigured, None, Some(error))
    }

    /// Acquires the lease, or returns the refusal for the client.
    pub(crate) async fn acquire(&self, name: &str) -> Result<Lease, Box<Refusal>> {
        let acquire = match self.limit {
            Some(limit) => self.leases.semaphore(name, limit).acquire(),
            None => self.leases.acquire(name),
        };
        let granted = (self.options)(acquire).wait(self.wait).await;
        granted.map_err(|error| Box::new(Refusal::not_granted(name, error)))
    }

    /// The response to a refused request.
    pub(crate) fn refused(&self, refusal: Refusal, is_grpc: bool) -> Response<Bytes> {
        // A limit of 1 is an exclusive lease.
        let is_limited = self.limit.is_some_and(|limit| limit > 1);
        let refusal = refusal.rendered(is_limited, is_grpc);
        let mut response = (self.refuse)(&refusal);
        response.extensions_mut().insert(refusal);
        response
    }
}

fn report_mismatch(error: &Error) {
    tracing::error!(%error, "requests are refused: their path does not fit the layer's route");
}

impl fmt::Debug for LeaseLayer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("LeaseLayer")
            .field("leases", &self.leases)
            .field("rules", &self.rules)
            .field("wait", &self.wait)
            .field("limit", &self.limit)
            .field("on_loss", &self.on_loss)
            .finish_non_exhaustive()
    }
}
