//! Each endpoint, with correct and with hostile requests.

use std::time::Duration;

use mongo_lease_tower::http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::client::Client;
use crate::service::{Service, setup, until_held};

const TTL: Duration = Duration::from_secs(30);

fn keys(listed: &Value) -> Vec<&str> {
    let list = listed.as_array().expect("a list");
    list.iter().map(|lock| lock["key"].as_str().expect("a key")).collect()
}

#[tokio::test]
async fn a_lock_is_acquired_renewed_and_released_by_name_and_value() {
    let (database, service) = setup(TTL).await;
    // Another process of the same service: neither keeps the state of a lock.
    let other = Service::start(&database, TTL).await;
    let client = Client::new();
    let (here, there) = (service.address.as_str(), other.address.as_str());

    let taken = client.ask(Method::POST, here, "/lock/report/me").await;
    assert_eq!(taken.status, StatusCode::OK, "{taken:?}");
    assert_eq!(taken.body["key"], "report");
    assert_eq!(taken.body["lease"]["name"], "lock:report");
    assert_eq!(taken.body["lease"]["value"], "me");
    let token: u64 = taken.body["token"].as_str().unwrap().parse().unwrap();

    let held = client.ask(Method::POST, there, "/lock/report/you").await;
    assert_eq!(held.status, StatusCode::CONFLICT);
    assert_eq!(held.headers["content-type"], "application/problem+json");
    let seconds: u64 = held.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((20..=32).contains(&seconds), "{seconds}");
    assert!(!held.body.to_string().contains("me"), "the holder's value: {}", held.body);

    // A repeated request is granted again: the answer may have been lost.
    let again = client.ask(Method::POST, there, "/lock/report/me").await;
    assert_eq!(again.status, StatusCode::OK);
    assert!(again.body["token"].as_str().unwrap().parse::<u64>().unwrap() >= token);

    let lease = &taken.body["lease"];
    let path = "/lock/report/me";
    let renewed = client.try_ask(Method::PUT, there, path, Some(lease)).await.unwrap();
    assert_eq!(renewed.status, StatusCode::OK, "{renewed:?}");
    assert_eq!(renewed.body["token"], taken.body["token"]);

    let look = client.ask(Method::GET, here, "/lock/report").await.body;
    assert_eq!((&look["key"], &look["held"]), (&json!("report"), &json!(true)));
    assert_eq!(look.as_object().unwrap().len(), 3, "more than everybody may know: {look}");

    let wrong = client.ask(Method::DELETE, there, "/lock/report/you").await;
    assert_eq!(wrong.status, StatusCode::CONFLICT);
    let right = client.ask(Method::DELETE, there, "/lock/report/me").await;
    assert_eq!((right.status, &right.body["released"]), (StatusCode::OK, &json!(true)));
    assert_eq!(client.ask(Method::GET, here, "/lock/report").await.body["held"], json!(false));
    // A released lock is not renewed, and the renewal does not acquire it again.
    let late = client.try_ask(Method::PUT, here, path, Some(lease)).await.unwrap();
    assert_eq!((late.status, &late.body["code"]), (StatusCode::CONFLICT, &json!("lost")));
    assert_eq!(client.ask(Method::GET, here, "/lock/report").await.body["held"], json!(false));
}

#[tokio::test]
async fn locks_are_listed_by_pattern_and_nothing_else_is() {
    let (database, service) = setup(TTL).await;
    let client = Client::new();
    let address = service.address.as_str();
    for key in ["job-1", "job-2", "report"] {
        let taken = client.ask(Method::POST, address, &format!("/lock/{key}/me")).await;
        assert_eq!(taken.status, StatusCode::OK);
    }
    let paying = tokio::spawn({
        let (client, address) = (client.clone(), address.to_owned());
        async move { client.ask(Method::POST, &address, "/invoices/7/payment?work_ms=3000").await }
    });
    until_held(&database, "invoice:7").await;
    let list = async |pattern: &str| {
        client.ask(Method::GET, address, &format!("/locks{pattern}")).await.body
    };
    assert_eq!(keys(&list("?pattern=job-*").await), ["job-1", "job-2"]);
    assert_eq!(keys(&list("?pattern=job-?").await), ["job-1", "job-2"]);
    assert_eq!(keys(&list("").await), ["job-1", "job-2", "report"]);
    assert_eq!(keys(&list("?pattern=job").await), Vec::<&str>::new());
    // The lease of the payment is in the same collection, but cannot be reached from here.
    for hostile in ["?pattern=../invoice:*", "?pattern=%7Cinvoice:7", "?pattern=*)%7C(.*"] {
        assert_eq!(keys(&list(hostile).await), Vec::<&str>::new(), "{hostile}");
    }
    paying.abort();
}

#[tokio::test]
async fn what_cannot_be_a_key_is_refused() {
    let (_database, service) = setup(TTL).await;
    let client = Client::new();
    let address = service.address.as_str();
    let long = "x".repeat(201);
    for path in [
        format!("/lock/{long}/me"),
        format!("/lock/report/{long}"),
        "/lock/a%3Ab/me".to_owned(),
        "/lock/a%2Fb/me".to_owned(),
        "/lock/a%0d%0ab/me".to_owned(),
        "/lock/*/me".to_owned(),
        "/lock/report/%00".to_owned(),
        "/lock/report/me?ttl_ms=1".to_owned(),
        format!("/invoices/{long}/payment"),
        "/invoices/%0a/payment".to_owned(),
    ] {
        let answer = client.ask(Method::POST, address, &path).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path}: {answer:?}");
        assert_eq!(answer.headers["content-type"], "application/problem+json", "{path}");
    }
}

/// The key of one lock works for that lock only.
#[tokio::test]
async fn a_renewal_gets_no_further_than_its_address() {
    let (_database, service) = setup(TTL).await;
    let client = Client::new();
    let address = service.address.as_str();
    let mine = client.ask(Method::POST, address, "/lock/mine/me").await.body["lease"].clone();
    let theirs = "/lock/theirs/you";
    assert_eq!(client.ask(Method::POST, address, theirs).await.status, StatusCode::OK);
    let answer = client.try_ask(Method::PUT, address, theirs, Some(&mine)).await.unwrap();
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    // A forged key, with the right name and value: it is not that grant.
    let mut forged = mine.clone();
    forged["value"] = json!("you");
    forged["name"] = json!("lock:theirs");
    let answer = client.try_ask(Method::PUT, address, theirs, Some(&forged)).await.unwrap();
    assert_eq!(answer.status, StatusCode::CONFLICT, "{answer:?}");
}

#[tokio::test]
async fn payments_of_one_invoice_exclude_each_other_on_two_machines() {
    let (database, service) = setup(TTL).await;
    let other = Service::start(&database, TTL).await;
    let client = Client::new();
    let first = tokio::spawn({
        let (client, address) = (client.clone(), service.address.clone());
        async move { client.ask(Method::POST, &address, "/invoices/42/payment?work_ms=1500").await }
    });
    until_held(&database, "invoice:42").await;
    let path = "/invoices/%34%32/payment?work_ms=0";
    let held = client.ask(Method::POST, &other.address, path).await;
    assert_eq!((held.status, &held.body["code"]), (StatusCode::CONFLICT, &json!("lease_held")));
    let elsewhere = "/invoices/43/payment?work_ms=0";
    let beside = client.ask(Method::POST, &other.address, elsewhere).await;
    assert_eq!(beside.status, StatusCode::OK);
    let paid = first.await.unwrap();
    assert_eq!((paid.status, &paid.body["invoice"]), (StatusCode::OK, &json!("42")));
}
