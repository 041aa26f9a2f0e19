//! `HeldLease`: the lease of a request, in the request's extensions.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use mongo_lease::Lease;

/// How long a response waits for the release. An unconfirmed release is then retried in the background.
const RELEASE_WAIT: Duration = Duration::from_secs(1);

/// The lease of a request. The handler finds it in the request's extensions.
///
/// With it the handler learns of a loss ([`Lease::cancellation_token`], [`Lease::lost`]), and fences its writes
/// ([`Lease::token`], [`Lease::transaction`]). The lease is released at the end of the request. If the handler keeps a
/// clone for longer, as in a task that it starts, the lease stays held for as long.
///
/// # Examples
/// ```no_run
/// # async fn example(
/// #     request: mongo_lease_tower::http::Request<()>,
/// # ) -> mongo_lease::Result<()> {
/// use mongo_lease_tower::HeldLease;
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
    pub(crate) fn new(lease: Lease) -> HeldLease {
        HeldLease(Arc::new(lease))
    }

    /// Releases the lease, unless a clone exists. Then the drop of the last clone releases it.
    pub(crate) async fn end(self) {
        if let Some(lease) = Arc::into_inner(self.0) {
            // The request is done; an unconfirmed release is retried in the background.
            let _ = tokio::time::timeout(RELEASE_WAIT, lease.release()).await;
        }
    }
}

impl Deref for HeldLease {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.0
    }
}
