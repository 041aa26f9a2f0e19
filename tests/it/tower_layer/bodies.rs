//! Leases that are held until the response's body has ended.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use http_body::Body;
use http_body_util::{BodyExt, StreamBody};
use mongo_lease::{Event, LeaseManager, MemoryStore};
use mongo_lease_tower::http::{Request, Response};
use mongo_lease_tower::{HeldLease, LeaseBody, LeaseLayer, OnLoss};
use tokio::sync::mpsc;
use tower::{Layer, ServiceExt, service_fn};

use super::{by_path, freed_by, get, guarded, on_both};
use crate::common::{document, setup};
use crate::patience::{Listener, soon, until_nothing_is_left};

type Piece = Result<&'static str, &'static str>;
type Frame = Result<http_body::Frame<Bytes>, &'static str>;

/// A response whose body comes when the test says so, piece by piece.
struct Streamed {
    response: Response<LeaseBody<StreamBody<BoxStream<'static, Frame>>>>,
    pieces: mpsc::UnboundedSender<Piece>,
}

impl Streamed {
    async fn under(layer: &LeaseLayer) -> Streamed {
        let (pieces, mut receiver) = mpsc::unbounded_channel::<Piece>();
        let frames = stream::poll_fn(move |context| receiver.poll_recv(context))
            .map(|piece| piece.map(|text| http_body::Frame::data(Bytes::from(text))));
        let frames = Arc::new(Mutex::new(Some(frames.boxed())));
        let handler = service_fn(move |request: Request<()>| {
            assert!(request.extensions().get::<HeldLease>().is_some());
            let body = StreamBody::new(frames.lock().unwrap().take().expect("one request"));
            async { Ok::<_, Infallible>(Response::new(body)) }
        });
        let response = soon("the head", layer.layer(handler).oneshot(get("/a"))).await.unwrap();
        Streamed { response, pieces }
    }

    /// The next piece that comes to the client.
    async fn next(&mut self) -> Option<Result<Bytes, String>> {
        let frame = soon("the next piece", self.response.body_mut().frame()).await?;
        Some(frame.map(|it| it.into_data().unwrap()).map_err(|error| error.to_string()))
    }

    /// Sends a piece, and asserts that it comes to the client.
    async fn passes(&mut self, text: &'static str) {
        self.pieces.send(Ok(text)).unwrap();
        assert_eq!(self.next().await, Some(Ok(Bytes::from(text))));
    }

    /// Ends the body, and asserts that it ends for the client.
    async fn ends(&mut self) {
        // The sender of before is dropped.
        self.pieces = mpsc::unbounded_channel().0;
        assert_eq!(self.next().await, None);
    }
}

fn until_the_end(leases: &LeaseManager) -> LeaseLayer {
    by_path(leases)
        .acquire_with(|acquire| acquire.ttl(Duration::from_secs(3)))
        .hold_until_body_ends()
}

#[tokio::test]
async fn a_lease_held_until_the_end_of_the_body_is_free_at_its_end() {
    let (database, leases) = setup().await;
    let mut streamed = Streamed::under(&until_the_end(&leases)).await;
    for text in ["one", "two"] {
        streamed.passes(text).await;
        assert!(document(&database, "test:/a").await.is_some());
    }
    // The body ends after the release.
    freed_by(&database, streamed.ends()).await;
    assert_eq!(streamed.next().await, None);
}

#[tokio::test]
async fn a_body_that_fails_gives_the_lease_back() {
    on_both(async |leases, backend| {
        let mut streamed = Streamed::under(&until_the_end(&leases)).await;
        streamed.pieces.send(Err("the disk is full")).unwrap();
        assert_eq!(streamed.next().await, Some(Err("the disk is full".to_owned())));
        backend.until_nothing_is_left().await;
        assert_eq!(streamed.next().await, None);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_body_whose_lease_is_lost_is_cut_off_if_configured() {
    let leases = LeaseManager::in_memory(&MemoryStore::new()).build().await.unwrap();
    for on_loss in [OnLoss::Answer503, OnLoss::Stop, OnLoss::Tell] {
        let mut streamed = Streamed::under(&until_the_end(&leases).on_loss(on_loss)).await;
        streamed.passes("one").await;
        let mut events = Listener::of(&leases);
        let info = leases.get("test:/a").await.unwrap().unwrap();
        leases.release("test:/a", info.value.unwrap()).await.unwrap();
        if on_loss == OnLoss::Tell {
            events.find(|event| matches!(event, Event::Lost { .. }).then_some(())).await;
            streamed.passes("two").await;
            streamed.ends().await;
            continue;
        }
        // The handler sends nothing more: the loss alone wakes the body.
        let end = streamed.next().await.expect("no orderly end");
        let told = "the lease was lost while the body was sent".to_owned();
        assert_eq!(end, Err(told), "{on_loss:?}");
        assert_eq!(streamed.next().await, None);
    }
}

#[tokio::test]
async fn a_body_of_known_length_arrives_whole_and_releases_its_lease() {
    let (database, leases) = setup().await;
    let mut service = guarded(&until_the_end(&leases));
    // A server that goes by the body's end reads on until the lease is released, and one that knows the length does
    // not.
    for reads_on in [true, false] {
        let mut answer = service.at_work("/a").await.answer("seven..").await;
        let body = answer.body_mut();
        assert_eq!(body.size_hint().exact(), Some(7));
        assert!(document(&database, "test:/a").await.is_some());
        let all = soon("all", body.frame()).await.unwrap().unwrap();
        assert_eq!(all.into_data().unwrap(), "seven..");
        if reads_on {
            assert!(!body.is_end_stream());
            assert!(freed_by(&database, soon("the end", body.frame())).await.is_none());
            assert!(body.is_end_stream());
        }
        drop(answer);
        until_nothing_is_left(&database).await;
    }
    // A body that passes through unchanged keeps its size hint and its end.
    let answer = guarded(&by_path(&leases)).at_work("/a").await.answer("").await;
    assert!(answer.body().is_end_stream());
    assert_eq!(answer.body().size_hint().exact(), Some(0));
}
