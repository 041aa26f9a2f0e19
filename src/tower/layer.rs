//! LeaseLayer: its options.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};

use super::key::KeyExtractor;
use super::refusal::{RETRY_AFTER_DEFAULT, Refusal, Refuse, RetryAfter, Style};
use super::rules::{InvalidKey, KeyRules};
use crate::acquire::{Acquire, Attempt};
use crate::info::LeaseInfo;
use crate::lease::Lease;
use crate::manager::LeaseManager;

/// Handles requests under leases: two with the same key exclude each other, on all machines.
///
/// A lease is taken before the handler is called, and released when its answer is there, before that is passed on: a
/// client that asks again then finds the lease free. A handler that panics, fails or is dropped, because the client has
/// gone, gives it back as well, in the background. The handler finds the lease in the request's extensions, as
/// [`HeldLease`](super::HeldLease).
///
/// # What the client is told
///
/// | what happened | status | `code` |
/// | --- | --- | --- |
/// | somebody else holds the lease | 409, or [what you choose](LeaseLayer::held_status) | `lease_held` |
/// | the [wait](LeaseLayer::wait) was over | 503 | `lease_wait_timeout` |
/// | the database was out of reach, too many wait already, or the manager is shut down | 503 | `lease_unavailable` |
/// | the lease was lost meanwhile, [if you want so](LeaseLayer::on_loss) | 503 | `lease_lost` |
/// | the [key](KeyRules) is too long or has characters that are not allowed | 400 | `lease_key_invalid` |
/// | an option of the layer is out of range | 500 | `lease_misconfigured` |
///
/// The body is `application/problem+json` (RFC 9457) with the member `code`. While a live holder has the lease, there
/// is a `Retry-After` of [a second, or what you choose](LeaseLayer::retry_after). The whole response can be
/// [your own](LeaseLayer::refuse_with). The holder's host and process are not told unless
/// [asked for](LeaseLayer::show_holder), nor is anything that the client has sent.
///
/// A request with the content type `application/grpc` is answered with 200 and a `grpc-status`: 10 (aborted) for held
/// and lost, 14 (unavailable), 3 (invalid argument), 13 (internal).
///
/// # Guarantees
///
/// What a [`Lease`] guarantees. Not that the handler stops when the lease is lost: see [`OnLoss`]. Requests without a
/// key are let through.
///
/// # Fairness
///
/// As for [`Acquire`].
///
/// # Examples
///
/// ```no_run
/// # fn example(leases: mongo_lease::LeaseManager) {
/// use std::time::Duration;
/// use mongo_lease::tower::http::header::HeaderName;
/// use mongo_lease::tower::{LeaseLayer, OnLoss, key};
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
    wait: Duration,
    options: Arc<dyn Fn(Acquire) -> Acquire + Send + Sync>,
    held_status: StatusCode,
    shows_holder: bool,
    retry_after: RetryAfter,
    refuse: Arc<Refuse>,
    pub(super) holds_until_body_ends: bool,
    pub(super) on_loss: OnLoss,
}

/// What happens when the lease is lost while its request is handled. The handler is told in any case, by the lease in
/// the request's extensions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnLoss {
    /// Nothing: the handler's answer is the client's, since it alone knows what a loss means.
    #[default]
    Tell,
    /// The handler goes on, and its answer is held back: the client is told 503. A body that has begun is cut off.
    Answer503,
    /// The handler is dropped, which stops it at its next `await`, and the client is told 503 at once. A body that has
    /// begun is cut off.
    Stop,
}

impl LeaseLayer {
    /// A layer that takes its leases' names from the requests: `http:` and the key, unless
    /// [told otherwise](LeaseLayer::key_rules). See [`key`](super::key).
    pub fn new(leases: &LeaseManager, key: impl KeyExtractor) -> LeaseLayer {
        LeaseLayer {
            leases: leases.clone(),
            key: Arc::new(key),
            rules: KeyRules::default(),
            wait: Duration::ZERO,
            options: Arc::new(|acquire| acquire),
            held_status: StatusCode::CONFLICT,
            shows_holder: false,
            retry_after: RetryAfter::Fixed(Some(RETRY_AFTER_DEFAULT)),
            refuse: Arc::new(Refusal::response),
            holds_until_body_ends: false,
            on_loss: OnLoss::default(),
        }
    }

    /// Which names the leases have, and which keys are taken. Defaults to the prefix `http` and keys of up to 200
    /// bytes.
    pub fn key_rules(mut self, rules: KeyRules) -> LeaseLayer {
        self.rules = rules;
        self
    }

    /// How long a request waits for its lease. Defaults to no wait: what is held is refused at once.
    pub fn wait(mut self, wait: Duration) -> LeaseLayer {
        self.wait = wait;
        self
    }

    /// Sets options of the leases: `ttl`, `max_hold`, `owner` and so on. The wait is the layer's
    /// [own](LeaseLayer::wait). Do not set a `value`: two requests with the same value do not exclude each other.
    pub fn acquire_with(
        mut self,
        options: impl Fn(Acquire) -> Acquire + Send + Sync + 'static,
    ) -> LeaseLayer {
        self.options = Arc::new(options);
        self
    }

    /// The status that tells that somebody holds the lease. Defaults to 409 (Conflict); 423 (Locked) is usual too.
    pub fn held_status(mut self, status: StatusCode) -> LeaseLayer {
        self.held_status = status;
        self
    }

    /// Tells the client who holds the lease, as `label@host:pid`, in the member `holder` of the problem. For services
    /// whose clients may know that.
    pub fn show_holder(mut self) -> LeaseLayer {
        self.shows_holder = true;
        self
    }

    /// After how long a client is told to try again while a live holder has the lease: as `Retry-After` in whole
    /// seconds, rounded up and at least one, or as `grpc-retry-pushback-ms`. `None` tells nothing. At most a day.
    /// Defaults to 1 s: what is left of the lease says when a crashed holder's would run out, and nothing of when a
    /// request ends.
    pub fn retry_after(mut self, time: impl Into<Option<Duration>>) -> LeaseLayer {
        self.retry_after = RetryAfter::Fixed(time.into());
        self
    }

    /// The same, by what is known of the holder. Takes the place of [`retry_after`](LeaseLayer::retry_after).
    pub fn retry_after_with(
        mut self,
        time: impl Fn(&LeaseInfo) -> Option<Duration> + Send + Sync + 'static,
    ) -> LeaseLayer {
        self.retry_after = RetryAfter::Of(Arc::new(time));
        self
    }

    /// Makes the whole response to a request that is refused: its status, headers and body. Defaults to
    /// [`Refusal::response`], which the function may call, and change what it gives.
    ///
    /// The function must not tell a client of gRPC another status than 200: see [`Refusal::is_grpc`].
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn example(leases: mongo_lease::LeaseManager) {
    /// use mongo_lease::tower::http::Response;
    /// use mongo_lease::tower::{LeaseLayer, RefusalKind, key};
    ///
    /// let layer = LeaseLayer::new(&leases, key::path()).refuse_with(|refusal| match refusal.kind {
    ///     RefusalKind::Held if !refusal.is_grpc => {
    ///         let mut response = Response::new("We are already working on it.".into());
    ///         *response.status_mut() = mongo_lease::tower::http::StatusCode::TOO_MANY_REQUESTS;
    ///         response
    ///     }
    ///     _ => refusal.response(),
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

    /// Holds the lease until the response's body has been sent, or the client has gone. Without that, it is held until
    /// the handler has answered, and a body that is made while it is sent is made without the lease.
    ///
    /// Where the length of the body is known beforehand, the lease is given back right behind its end, and a client
    /// that asks again at once may still find it held.
    pub fn hold_until_body_ends(mut self) -> LeaseLayer {
        self.holds_until_body_ends = true;
        self
    }

    /// What happens when the lease is lost in the middle. Defaults to [`OnLoss::Tell`].
    pub fn on_loss(mut self, on_loss: OnLoss) -> LeaseLayer {
        self.on_loss = on_loss;
        self
    }

    /// The name of the request's lease; `None` when it is not guarded.
    pub(super) fn name(&self, request: &Parts) -> Result<Option<String>, InvalidKey> {
        self.key.key(request)?.map(|key| self.rules.name(&key)).transpose()
    }

    /// Takes the lease, or says what the client is to be told.
    pub(super) async fn acquire(&self, name: &str) -> Result<Lease, Box<Refusal>> {
        let acquire = (self.options)(self.leases.acquire(name));
        let granted = match self.wait.is_zero() {
            true => match acquire.try_once().await {
                Ok(Attempt::Granted(lease)) => Ok(lease),
                Ok(Attempt::Busy(info)) => return Err(Box::new(Refusal::held(info))),
                Err(error) => Err(error),
            },
            false => acquire.wait(self.wait).await,
        };
        granted.map_err(|error| Box::new(Refusal::not_granted(name, error)))
    }

    /// The response to a request that is refused.
    pub(super) fn refused(&self, refusal: Refusal, is_grpc: bool) -> Response<Bytes> {
        let style = Style { held: self.held_status, shows_holder: self.shows_holder };
        let refusal = refusal.rendered(style, &self.retry_after, is_grpc);
        let mut response = (self.refuse)(&refusal);
        response.extensions_mut().insert(refusal);
        response
    }
}

impl fmt::Debug for LeaseLayer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("LeaseLayer")
            .field("leases", &self.leases)
            .field("rules", &self.rules)
            .field("wait", &self.wait)
            .field("on_loss", &self.on_loss)
            .finish_non_exhaustive()
    }
}
