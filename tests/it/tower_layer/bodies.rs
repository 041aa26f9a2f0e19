//! Leases that are held until the response's body has ended.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use http_body_util::{BodyExt, Full, StreamBody};
use mongo_lease::{LeaseManager, LostReason};
use mongo_lease_tower::http::{Request, Response, StatusCode};
use mongo_lease_tower::{HeldLease, LeaseBody, LeaseLayer, OnLoss};
use tokio::sync::mpsc;
use tower::{Layer, ServiceExt, service_fn};

use super::{by_path, get, guarded, read, send};
use crate::both::check;
use crate::common::{document, setup};
use crate::patience::{soon, until_nothing_is_left};

type Piece = Result<http_body::Frame<Bytes>, &'static str>;
type Streamed = StreamBody<BoxStream<'static, Piece>>;

/// A response whose body comes when the test says so, piece by piece.
async fn streamed(
    layer: &LeaseLayer,
) -> (Response<LeaseBody<Streamed>>, mpsc::UnboundedSender<Result<&'static str, &'static str>>) {
    let (sender, receiver) = mpsc::unbounded_channel::<Result<&'static str, &'static str>>();
    let pieces = stream::unfold(receiver, async |mut receiver| {
        let piece: Result<&'static str, &'static str> = receiver.recv().await?;
        let frame: Piece = piece.map(|text| http_body::Frame::data(Bytes::from(text)));
        Some((frame, receiver))
    });
    let pieces = Arc::new(Mutex::new(Some(pieces.boxed())));
    let handler = service_fn(move |request: Request<()>| {
        assert!(request.extensions().get::<HeldLease>().is_some());
        let body = StreamBody::new(pieces.lock().unwrap().take().expect("one request"));
        async { Ok::<_, Infallible>(Response::new(body)) }
    });
    let response = soon("the head", layer.layer(handler).oneshot(get("/a"))).await.unwrap();
    (response, sender)
}

fn until_the_end(leases: &LeaseManager) -> LeaseLayer {
    by_path(leases)
        .acquire_with(|acquire| acquire.ttl(Duration::from_millis(600)))
        .hold_until_body_ends()
}

async fn next(response: &mut Response<LeaseBody<Streamed>>) -> Option<Result<Bytes, String>> {
    let frame = soon("the next piece", response.body_mut().frame()).await?;
    Some(frame.map(|frame| frame.into_data().unwrap()).map_err(|error| error.to_string()))
}

#[tokio::test]
async fn a_lease_held_until_the_end_of_the_body_is_free_at_its_end() {
    let (database, leases) = setup().await;
    let (mut response, pieces) = streamed(&until_the_end(&leases)).await;
    for text in ["one", "two"] {
        pieces.send(Ok(text)).unwrap();
        assert_eq!(next(&mut response).await, Some(Ok(Bytes::from(text))));
        assert!(document(&database, "test:/a").await.is_some());
    }
    drop(pieces);
    assert_eq!(next(&mut response).await, None);
    // Without waiting: the body ends after the release.
    assert!(document(&database, "test:/a").await.is_none());
    assert_eq!(next(&mut response).await, None);
}

#[tokio::test]
async fn without_that_it_is_free_before_the_body() {
    let (database, leases) = setup().await;
    let (mut response, pieces) = streamed(&by_path(&leases)).await;
    assert!(document(&database, "test:/a").await.is_none());
    pieces.send(Ok("one")).unwrap();
    assert_eq!(next(&mut response).await, Some(Ok(Bytes::from("one"))));
}

#[tokio::test]
async fn a_client_that_leaves_during_the_body_leaves_nothing_behind() {
    let (database, leases) = setup().await;
    let (mut response, pieces) = streamed(&until_the_end(&leases)).await;
    pieces.send(Ok("one")).unwrap();
    assert_eq!(next(&mut response).await, Some(Ok(Bytes::from("one"))));
    assert!(document(&database, "test:/a").await.is_some());
    drop(response);
    until_nothing_is_left(&database).await;
}

#[tokio::test]
async fn a_body_that_fails_gives_the_lease_back() {
    check(async |backend| {
        let leases = backend.manager().await;
        let (mut response, pieces) = streamed(&until_the_end(&leases)).await;
        pieces.send(Err("the disk is full")).unwrap();
        assert_eq!(next(&mut response).await, Some(Err("the disk is full".to_owned())));
        backend.until_nothing_is_left().await;
        assert_eq!(next(&mut response).await, None);
    })
    .await;
}

#[tokio::test]
async fn a_body_whose_lease_is_lost_is_cut_off_if_configured() {
    check(async |backend| {
        for on_loss in [OnLoss::Answer503, OnLoss::Stop] {
            let leases = backend.manager().await;
            let (mut response, pieces) = streamed(&until_the_end(&leases).on_loss(on_loss)).await;
            pieces.send(Ok("one")).unwrap();
            assert_eq!(next(&mut response).await, Some(Ok(Bytes::from("one"))));
            let info = leases.get("test:/a").await.unwrap().unwrap();
            leases.release("test:/a", info.value.unwrap()).await.unwrap();
            // The handler sends nothing more: the loss alone wakes the body.
            let end = next(&mut response).await.expect("no orderly end");
            assert_eq!(end, Err("the lease was lost while the body was sent".to_owned()));
            assert_eq!(next(&mut response).await, None);
        }
    })
    .await;
}

#[tokio::test]
async fn a_body_whose_lease_is_lost_goes_on_otherwise() {
    let (database, leases) = setup().await;
    let (mut response, pieces) = streamed(&until_the_end(&leases)).await;
    let mut events = crate::patience::Listener::of(&leases);
    let info = leases.get("test:/a").await.unwrap().unwrap();
    leases.release("test:/a", info.value.unwrap()).await.unwrap();
    events
        .find(|event| {
            matches!(event, mongo_lease::Event::Lost { reason: LostReason::Removed, .. })
                .then_some(())
        })
        .await;
    pieces.send(Ok("one")).unwrap();
    assert_eq!(next(&mut response).await, Some(Ok(Bytes::from("one"))));
    drop(pieces);
    assert_eq!(next(&mut response).await, None);
    assert!(document(&database, "test:/a").await.is_none());
}

#[tokio::test]
async fn a_body_of_known_length_arrives_whole_and_releases_its_lease() {
    let (database, leases) = setup().await;
    let (service, mut calls) = guarded(&until_the_end(&leases));
    let request = send(&service, get("/a"));
    calls.next().await.answer("seven..");
    let response = soon("the answer", request).await.unwrap();
    assert_eq!(http_body::Body::size_hint(response.body()).exact(), Some(7));
    assert!(document(&database, "test:/a").await.is_some());
    assert_eq!(read(response).await, (StatusCode::OK, "seven..".to_owned()));
    until_nothing_is_left(&database).await;

    // A server that goes by the body's end reads on until the lease is released.
    let request = send(&service, get("/a"));
    calls.next().await.answer("seven..");
    let mut response = soon("the answer", request).await.unwrap();
    assert!(soon("all", response.body_mut().frame()).await.unwrap().is_ok());
    assert!(!http_body::Body::is_end_stream(response.body()));
    assert!(soon("the end", response.body_mut().frame()).await.is_none());
    assert!(http_body::Body::is_end_stream(response.body()));
    assert!(document(&database, "test:/a").await.is_none());

    // One that knows the length reads no further than that.
    let request = send(&service, get("/a"));
    calls.next().await.answer("seven..");
    let mut response = soon("the answer", request).await.unwrap();
    assert!(soon("all", response.body_mut().frame()).await.unwrap().is_ok());
    drop(response);
    until_nothing_is_left(&database).await;
}

/// A body that passes through unchanged keeps its size hint and its end.
#[tokio::test]
async fn an_empty_body_is_empty() {
    check(async |backend| {
        let leases = backend.manager().await;
        let handler = service_fn(async |_: Request<()>| {
            Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
        });
        let response = by_path(&leases).layer(handler).oneshot(get("/a")).await.unwrap();
        assert!(http_body::Body::is_end_stream(response.body()));
        assert_eq!(http_body::Body::size_hint(response.body()).exact(), Some(0));
    })
    .await;
}
