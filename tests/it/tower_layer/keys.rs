//! Keys come from the clients.

use std::collections::HashMap;

use mongo_lease::Error;
use mongo_lease_tower::http::Request;
use mongo_lease_tower::http::header::{HeaderName, HeaderValue};
use mongo_lease_tower::http::request::Parts;
use mongo_lease_tower::key::{self, KeyExtractor};
use mongo_lease_tower::{InvalidKey, KeyRules, LeaseLayer};
use serde_json::json;

use super::{get, guarded, of_grpc, on_both};
use crate::lent::lent_setup;

const HEADER: HeaderName = HeaderName::from_static("x-key");

fn with_header(values: &[&[u8]]) -> Request<()> {
    let mut request = get("/");
    for value in values {
        request.headers_mut().append(HEADER, HeaderValue::from_bytes(value).expect("a value"));
    }
    request
}

fn found(key: &impl KeyExtractor, request: Request<()>) -> Result<String, InvalidKey> {
    key.key(&request.into_parts().0)
}

fn some(key: &str) -> Result<String, InvalidKey> {
    Ok(key.to_owned())
}

fn missing(part: &str) -> Result<String, InvalidKey> {
    Err(InvalidKey::Missing(part.to_owned()))
}

#[test]
fn a_parameter_is_found_where_the_route_has_it() {
    const ROUTE: &str = "/invoices/{id}/payment";
    let id = key::path_parameter(ROUTE, "id").unwrap();
    let elsewhere = Err(InvalidKey::Route(ROUTE.to_owned()));
    for (path, expected) in [
        ("/invoices/42/payment", some("42")),
        ("/invoices/42/payment?id=43", some("42")),
        ("/invoices/4%2F2/payment", some("4/2")),
        ("/", elsewhere.clone()),
        ("/invoices/42/payment/", elsewhere.clone()),
        ("/orders/42/payment", elsewhere),
    ] {
        assert_eq!(found(&id, get(path)), expected, "{path}");
    }
    let second = key::path_parameter("/{a}/{b}", "b").unwrap();
    assert_eq!(found(&second, get("/x/y")), some("y"));
}

/// Two different addresses are two keys, also where a slash was sent encoded.
#[test]
fn a_path_or_its_segment_is_a_key() {
    for (path, index, segment) in [
        ("/invoices/42", 1, some("42")),
        ("/invoices/42", 2, missing("segment 2 of the path")),
        ("/invoices/", 1, some("")),
        ("/", 0, missing("segment 0 of the path")),
        ("/a%2Fb", 1, missing("segment 1 of the path")),
        ("/a%252Fb", 1, missing("segment 1 of the path")),
    ] {
        assert_eq!(found(&key::path(), get(path)), some(path));
        assert_eq!(found(&key::path_segment(index), get(path)), segment, "{index} of {path}");
    }
}

/// A router decodes before it chooses the handler: another spelling must not evade the lease.
#[test]
fn another_spelling_of_a_path_is_the_same_key() {
    let id = key::path_parameter("/invoices/{id}", "id").unwrap();
    for path in ["/invoices/%34%32", "/invoices/4%32", "/%69nvoices/42", "/invoices/42?x"] {
        assert_eq!(found(&id, get(path)), some("42"), "{path}");
        assert_eq!(found(&key::path(), get(path)), some("/invoices/42"), "{path}");
        assert_eq!(found(&key::path_segment(1), get(path)), some("42"), "{path}");
    }
    let first = key::path_segment(0);
    assert_eq!(found(&first, get("/%C3%a9")), found(&first, get("/%c3%A9")));
}

#[test]
fn a_route_that_cannot_be_understood_is_refused() {
    for (route, parameter) in [
        ("/invoices/{id}", "number"),
        ("/{id}/{id}", "id"),
        ("invoices/{id}", "id"),
        ("/{*rest}", "*rest"),
        ("/invoice-{id}", "id"),
    ] {
        let error = key::path_parameter(route, parameter).err().expect(route);
        assert!(matches!(error, Error::InvalidOption { option: "route", .. }), "{route}: {error}");
    }
}

#[test]
fn keys_have_limits() {
    let rules = KeyRules::new("invoice").unwrap();
    assert_eq!(rules.name("42").unwrap(), "invoice:42");
    assert_eq!(rules.name(""), Err(InvalidKey::Empty));
    assert_eq!(rules.name(&"x".repeat(200)).unwrap().len(), "invoice:".len() + 200);
    assert_eq!(rules.name(&"x".repeat(201)), Err(InvalidKey::TooLong));
    for hostile in ["a\0", "a\r\nSet-Cookie: x", "\n", "\u{7f}", "\u{85}", "a\tb", "\u{1b}[2J"] {
        assert_eq!(rules.name(hostile), Err(InvalidKey::Character), "{hostile:?}");
    }
    // Some characters take more room in the name than one.
    assert_eq!(rules.name(&"é".repeat(85)), Err(InvalidKey::TooLong));
}

#[test]
fn what_has_a_meaning_somewhere_is_written_otherwise() {
    let rules = KeyRules::default();
    for (key, name) in [
        ("a:b", "http:a%3Ab"),
        ("50%", "http:50%25"),
        ("a b", "http:a%20b"),
        ("é", "http:%C3%A9"),
        ("\u{202e}cod", "http:%E2%80%AEcod"),
        ("../x", "http:../x"),
        ("$ne", "http:$ne"),
    ] {
        assert_eq!(rules.name(key).unwrap(), name);
    }
}

#[test]
fn prefixes_have_limits_too() {
    for prefix in ["", "a b", "a\n", "é", &"x".repeat(129)] {
        let error = KeyRules::new(prefix).expect_err(prefix);
        assert!(matches!(error, Error::InvalidOption { option: "prefix", .. }), "{error}");
    }
    assert!(KeyRules::new("x".repeat(128)).is_ok());
}

/// All short keys and prefixes of the characters that could do harm: no two pairs have the same name.
#[test]
fn no_key_gets_out_of_its_prefix() {
    let alphabet = ["a", ":", "%", "3", "A", "2", "5"];
    let mut texts = vec![String::new()];
    for length in 0..3 {
        let longer: Vec<String> = texts
            .iter()
            .filter(|text| text.len() == length)
            .flat_map(|text| alphabet.map(|letter| format!("{text}{letter}")))
            .collect();
        texts.extend(longer);
    }
    let mut names = HashMap::new();
    for prefix in texts.iter().filter(|prefix| !prefix.is_empty()) {
        let rules = KeyRules::new(prefix).unwrap();
        for key in texts.iter().filter(|key| !key.is_empty()) {
            let name = rules.name(key).unwrap();
            if let Some(other) = names.insert(name.clone(), (prefix, key)) {
                panic!("{name:?} is of {other:?} and of {:?}", (prefix, key));
            }
        }
    }
    assert_eq!(names.len(), 399 * 399);
}

/// An extractor of a user, which names what is missing.
struct Tenant;

impl KeyExtractor for Tenant {
    fn key(&self, _: &Parts) -> Result<String, InvalidKey> {
        Err(InvalidKey::Missing("50% of the société".to_owned()))
    }
}

#[tokio::test]
async fn a_key_that_cannot_be_used_is_refused_and_nothing_is_sent() {
    // A server of its own: all commands on it are this test's.
    let (server, _database, leases) = lent_setup().await;
    let before = server.command_counts().await;
    let by_header = LeaseLayer::new(&leases, key::header(HEADER));
    let by_segment = LeaseLayer::new(&leases, key::path_segment(2));
    let by_closure = LeaseLayer::new(&leases, |_: &Parts| None);
    let by_tenant = LeaseLayer::new(&leases, Tenant);
    let by_path = LeaseLayer::new(&leases, key::path());
    let long = "x".repeat(201);
    for (layer, request, said) in [
        (&by_closure, get("/"), "the key is missing"),
        (&by_segment, get("/invoices/42"), "segment 2 of the path is missing"),
        (&by_tenant, get("/"), "50% of the société is missing"),
        // Nothing of a hostile request appears in the answer.
        (&by_path, get("/%3Cscript%3E%00"), "the key has a character that is not allowed"),
        (&by_path, get("/a%0d%0aSet-Cookie:%20a=b"), "the key has a character that is not allowed"),
        (&by_path, get("/%ff"), "the key is not UTF-8"),
        (&by_header, get("/"), "the header `x-key` is missing"),
        (&by_header, with_header(&[b""]), "the key is empty"),
        (&by_header, with_header(&[long.as_bytes()]), "the key is too long"),
        (&by_header, with_header(&[b"\xc3\x28"]), "the key is not UTF-8"),
        (&by_header, with_header(&[b"a", b"a"]), "there is more than one key"),
    ] {
        let refused = guarded(layer).refused(request).await;
        assert_eq!(refused.status, 400, "{said}");
        assert_eq!(refused.headers(), ["cache-control", "content-type"], "{said}");
        let expected = json!({
            "type": "about:blank", "title": "Bad Request", "status": 400, "detail": said,
            "code": "lease_key_invalid",
        });
        assert_eq!(refused.problem(), expected);
    }
    assert_eq!(found(&key::header(HEADER), with_header(&["é".as_bytes()])), some("é"));
    let told = guarded(&by_tenant).refused(of_grpc("/")).await;
    assert_eq!(told.header("grpc-status"), Some("3"));
    let message = told.header("grpc-message");
    assert_eq!(message, Some("50%25 of the soci%C3%A9t%C3%A9 is missing"));
    let sent = server.command_counts().await - before;
    assert_eq!((sent.find_and_modify, sent.update, sent.delete), (0, 0, 0));
}

#[tokio::test]
async fn no_request_without_a_key_passes() {
    on_both(async |leases, _| {
        let mut service = guarded(&LeaseLayer::new(&leases, key::header(HEADER)).limit(3));
        let requests: Vec<_> = (0..8).map(|_| service.send(get("/"))).collect();
        for request in requests {
            tokio::select! {
                response = request => assert_eq!(response.unwrap().status(), 400),
                _ = service.calls.recv() => panic!("a request without a key is inside"),
            }
        }
    })
    .await;
}

/// `nest` of axum removes the prefix before the layer sees the path.
#[tokio::test]
async fn a_path_that_does_not_fit_the_route_is_refused() {
    on_both(async |leases, _| {
        let id = key::path_parameter("/api/invoices/{id}/pay", "id").unwrap();
        let mut service = guarded(&LeaseLayer::new(&leases, id));
        let refused = service.refused(get("/invoices/42/pay")).await;
        assert_eq!(refused.in_short(), (500, "lease_misconfigured".to_owned(), None));
        assert!(!refused.body.contains("invoices"), "what the client sent: {}", refused.body);
        let error = refused.refusal.error.unwrap().to_string();
        assert!(error.contains("\"/invoices/42/pay\" does not fit \"/api/inv"), "{error}");
    })
    .await;
}
