//! tonic: a server behind the layer, and a client that understands its refusals.

use mongo_lease::LeaseManager;
use mongo_lease_tower::http::header::HeaderName;
use mongo_lease_tower::{KeyRules, LeaseLayer, key};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Channel, Server};
use tonic::{Code, Request};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::{setup, soon};

/// A server whose calls are guarded by the metadata `x-key`, and a client.
async fn served(leases: &LeaseManager) -> HealthClient<Channel> {
    let layer = LeaseLayer::new(leases, key::header(HeaderName::from_static("x-key")))
        .key_rules(KeyRules::new("grpc").unwrap())
        .hold_until_body_ends();
    let (_reporter, health) = tonic_health::server::health_reporter();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::builder().layer(layer).add_service(health);
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    let channel = Channel::from_shared(format!("http://{address}")).unwrap();
    HealthClient::new(soon("a connection", channel.connect()).await.unwrap())
}

fn with_key(key: &'static str) -> Request<HealthCheckRequest> {
    let mut request = Request::new(HealthCheckRequest::default());
    request.metadata_mut().insert("x-key", key.parse().unwrap());
    request
}

#[tokio::test]
async fn a_call_is_answered_under_its_lease_and_gives_it_back() {
    let (_database, leases) = setup().await;
    let mut client = served(&leases).await;
    let mut events = std::pin::pin!(leases.events());
    for request in [with_key("42"), with_key("42")] {
        let answer = soon("an answer", client.check(request)).await.unwrap();
        assert_eq!(answer.into_inner().status(), ServingStatus::Serving);
        crate::until_free(&leases, "grpc:42").await;
    }
    // The manager has reported two grants: the lease was held in between.
    use tokio_stream::StreamExt;
    let mut granted = 0;
    while granted < 2 {
        let event = soon("an event", events.next()).await.expect("it goes on");
        granted += usize::from(matches!(event, mongo_lease::Event::Granted { .. }));
    }
}

#[tokio::test]
async fn a_busy_lease_aborts_the_call_with_a_retry_pushback() {
    let (_database, leases) = setup().await;
    let mut client = served(&leases).await;
    let held = leases.acquire("grpc:42").owner("secret").await.unwrap();
    let status = soon("an answer", client.check(with_key("42"))).await.unwrap_err();
    assert_eq!(status.code(), Code::Aborted, "{status:?}");
    assert_eq!(status.message(), "Another request for the same resource is being processed.");
    let pushback = status.metadata().get("grpc-retry-pushback-ms").expect("a time");
    let pushback: u64 = pushback.to_str().unwrap().parse().unwrap();
    assert_eq!(pushback, 1_000, "a second, whatever is left of the ttl");
    soon("an answer", client.check(with_key("43"))).await.unwrap();
    held.release().await.unwrap();
    soon("an answer", client.check(with_key("42"))).await.unwrap();
}

#[tokio::test]
async fn an_invalid_key_and_a_shut_down_manager_have_their_own_codes() {
    let (_database, leases) = setup().await;
    let mut client = served(&leases).await;
    let status = soon("an answer", client.check(with_key("a\tb"))).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    let without = Request::new(HealthCheckRequest::default());
    let status = soon("an answer", client.check(without)).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    assert_eq!(status.message(), "the header `x-key` is missing");
    leases.shutdown().await;
    let status = soon("an answer", client.check(with_key("42"))).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
}
