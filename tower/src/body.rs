//! `LeaseBody`: the body of a response, which may keep a lease held.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::held::HeldLease;

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type ReleaseFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

pin_project! {
    /// The response body of a [`LeaseService`](crate::LeaseService).
    ///
    /// It is the handler's own body, which may keep the lease held until it has ended; or the body of a refusal.
    pub struct LeaseBody<B> {
        #[pin]
        inner: Inner<B>,
    }
}

pin_project! {
    #[project = InnerProjection]
    enum Inner<B> {
        Plain { #[pin] body: B },
        Held { #[pin] body: B, held: Held },
        Refusal { text: Option<Bytes> },
    }
}

/// The lease that a body keeps.
enum Held {
    Lease {
        lease: Option<HeldLease>,
        /// Resolves on a loss, if a loss is to cut the body off.
        lost: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    },
    /// The body has ended, and the lease is being released.
    Releasing(ReleaseFuture),
    Nothing,
}

/// The lease was lost while the body was sent, and the rest was withheld.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the lease was lost while the body was sent")]
struct CutOff;

impl<B> LeaseBody<B> {
    /// Wraps the body without a lease.
    pub(crate) fn plain(body: B) -> LeaseBody<B> {
        LeaseBody { inner: Inner::Plain { body } }
    }

    /// Wraps the body, and keeps the lease held until the body has ended.
    pub(crate) fn holding(body: B, lease: HeldLease, cuts_off: bool) -> LeaseBody<B> {
        let lost = cuts_off.then(|| Box::pin(lease.cancellation_token().cancelled_owned()));
        let held = Held::Lease { lease: Some(lease), lost };
        LeaseBody { inner: Inner::Held { body, held } }
    }

    /// The body of a refusal.
    pub(crate) fn refusal(text: Bytes) -> LeaseBody<B> {
        LeaseBody { inner: Inner::Refusal { text: Some(text).filter(|text| !text.is_empty()) } }
    }
}

impl<B> Body for LeaseBody<B>
where
    B: Body,
    B::Data: From<Bytes>,
    B::Error: Into<BoxError>,
{
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, BoxError>>> {
        match self.project().inner.project() {
            InnerProjection::Plain { body } => {
                body.poll_frame(context).map(|frame| frame.map(|frame| frame.map_err(Into::into)))
            }
            InnerProjection::Held { body, held } => poll_held(body, held, context),
            InnerProjection::Refusal { text } => {
                Poll::Ready(text.take().map(|text| Ok(Frame::data(text.into()))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.inner {
            Inner::Plain { body } => body.is_end_stream(),
            // It must be polled until the lease is released.
            Inner::Held { held, .. } => matches!(held, Held::Nothing),
            Inner::Refusal { text } => text.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            Inner::Plain { body } | Inner::Held { body, .. } => body.size_hint(),
            Inner::Refusal { text } => {
                let bytes = text.as_ref().map_or(0, Bytes::len);
                SizeHint::with_exact(u64::try_from(bytes).unwrap_or(u64::MAX))
            }
        }
    }
}

fn poll_held<B>(
    body: Pin<&mut B>,
    held: &mut Held,
    context: &mut Context<'_>,
) -> Poll<Option<Result<Frame<B::Data>, BoxError>>>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    match held {
        Held::Nothing => return Poll::Ready(None),
        Held::Releasing(_) => {}
        Held::Lease { lease, lost } => {
            if let Some(lost) = lost
                && lost.as_mut().poll(context).is_ready()
            {
                *held = Held::Nothing;
                return Poll::Ready(Some(Err(CutOff.into())));
            }
            match ready!(body.poll_frame(context)) {
                Some(Ok(frame)) => return Poll::Ready(Some(Ok(frame))),
                Some(Err(error)) => {
                    *held = Held::Nothing;
                    return Poll::Ready(Some(Err(error.into())));
                }
                None => match lease.take() {
                    Some(lease) => *held = Held::Releasing(Box::pin(lease.end())),
                    None => *held = Held::Nothing,
                },
            }
        }
    }
    // The end follows the release: a client that then sends another request finds the lease free.
    if let Held::Releasing(release) = held {
        ready!(release.as_mut().poll(context));
        *held = Held::Nothing;
    }
    Poll::Ready(None)
}

impl<B> fmt::Debug for LeaseBody<B> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match &self.inner {
            Inner::Plain { .. } => "Plain",
            Inner::Held { .. } => "Held",
            Inner::Refusal { .. } => "Refusal",
        };
        formatter.debug_tuple("LeaseBody").field(&what).finish()
    }
}
