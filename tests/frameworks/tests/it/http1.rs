//! hyper alone, without a router: the bytes on the wire, and a client whose connection breaks.

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use mongo_lease::LeaseManager;
use mongo_lease_tower::{HeldLease, LeaseLayer, key};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tower::{Layer, service_fn};

use crate::{setup, soon, until_free};

/// A handler that has been called, with the means to answer.
type Call = oneshot::Sender<&'static str>;

/// A server whose handler answers when the test says so.
async fn served(leases: &LeaseManager) -> (String, mpsc::UnboundedReceiver<Call>) {
    let (sender, calls) = mpsc::unbounded_channel();
    let handler = service_fn(move |request: Request<Incoming>| {
        let sender = sender.clone();
        async move {
            assert!(request.extensions().get::<HeldLease>().is_some());
            let (answer, answered) = oneshot::channel();
            sender.send(answer).expect("the test listens");
            let text = answered.await.expect("the test answers");
            Ok::<_, Infallible>(Response::new(Full::<Bytes>::from(text)))
        }
    });
    let service = LeaseLayer::new(leases, key::path()).hold_until_body_ends().layer(handler);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = TowerToHyperService::new(service.clone());
            let server = hyper::server::conn::http1::Builder::new();
            tokio::spawn(server.serve_connection(TokioIo::new(stream), service));
        }
    });
    (address, calls)
}

/// A connection, and the task that drives it.
async fn connect(address: &str) -> (SendRequest<Empty<Bytes>>, tokio::task::JoinHandle<()>) {
    let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
    // The connection breaks in some of the tests.
    (sender, tokio::spawn(async move { drop(connection.await) }))
}

async fn get(
    sender: &mut SendRequest<Empty<Bytes>>,
    path: &str,
) -> hyper::Result<Response<Incoming>> {
    let request = Request::get(path).header("host", "test").body(Empty::new()).unwrap();
    sender.send_request(request).await
}

#[tokio::test]
async fn a_second_client_is_refused_while_the_first_is_served() {
    let (_database, leases) = setup().await;
    let (address, mut calls) = served(&leases).await;
    let (mut first, _connection) = connect(&address).await;
    let (mut second, _other) = connect(&address).await;
    let asking = tokio::spawn(async move { get(&mut first, "/a").await });
    let call = soon("the handler is called", calls.recv()).await.unwrap();

    let refused = soon("the refusal", get(&mut second, "/%61?x=1")).await.unwrap();
    assert_eq!(refused.status(), StatusCode::CONFLICT);
    assert_eq!(refused.headers()["content-type"], "application/problem+json");
    let length: usize = refused.headers()["content-length"].to_str().unwrap().parse().unwrap();
    assert!(refused.headers().contains_key("retry-after"));
    let body = refused.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body.len(), length);

    call.send("done").unwrap();
    let response = soon("the answer", asking).await.unwrap().unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "done");
    until_free(&leases, "http:/a").await;
}

#[tokio::test]
async fn a_client_whose_connection_breaks_gives_the_lease_back() {
    let (_database, leases) = setup().await;
    let (address, mut calls) = served(&leases).await;
    let (mut client, connection) = connect(&address).await;
    let asking = tokio::spawn(async move { get(&mut client, "/a").await });
    let call = soon("the handler is called", calls.recv()).await.unwrap();
    assert!(leases.get("http:/a").await.unwrap().is_some());
    connection.abort();
    asking.abort();
    until_free(&leases, "http:/a").await;
    assert!(call.is_closed(), "the handler goes on");
}
