//! HeldLease: the lease of a request, in the request's extensions.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::clock;
use crate::lease::Lease;

/// How long a response waits for the release. What is not confirmed by then is tried again in the background.
const RELEASE_WAIT: Duration = Duration::from_secs(1);

/// The lease under which a request is handled: the handler finds it in the request's extensions.
///
/// With it the handler hears of a loss ([`Lease::cancellation_token`], [`Lease::lost`]), and fences what it writes
/// ([`Lease::token`], [`Lease::guard`]). It is given back at the end of the request. A clone that the handler keeps
/// for longer, as in a task that it starts, keeps the lease held for as long.
///
/// # Examples
///
/// ```no_run
/// # async fn example(
/// #     request: mongo_lease::tower::http::Request<()>,
/// # ) -> mongo_lease::Result<()> {
/// use mongo_lease::tower::HeldLease;
///
/// // axum: `Extension(lease): Extension<HeldLease>` among the handler's arguments.
/// let lease = request.extensions().get::<HeldLease>().expect("the route is guarded");
/// println!("{} under token {}", lease.name(), lease.token()?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct HeldLease(Arc<Lease>);

impl HeldLease {
    pub(super) fn new(lease: Lease) -> HeldLease {
        HeldLease(Arc::new(lease))
    }

    /// Releases it, unless somebody has kept a clone: then it is given back when that is dropped.
    pub(super) async fn end(self) {
        if let Some(lease) = Arc::into_inner(self.0) {
            // The request is done; a release that was not confirmed is tried again in the background.
            let _ = clock::before(clock::now().after(RELEASE_WAIT), lease.release()).await;
        }
    }
}

impl Deref for HeldLease {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.0
    }
}
