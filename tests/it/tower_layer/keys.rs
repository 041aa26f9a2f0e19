//! Keys come from the clients.

use std::collections::HashMap;

use mongo_lease::Error;
use mongo_lease_tower::http::header::{HeaderName, HeaderValue};
use mongo_lease_tower::http::request::Parts;
use mongo_lease_tower::http::{Request, StatusCode};
use mongo_lease_tower::key::{self, KeyExtractor};
use mongo_lease_tower::{InvalidKey, KeyRules, LeaseLayer};

use super::{answer_to, get, guarded, read, send};
use crate::both::check;
use crate::lent::lent_setup;
use crate::patience::soon;

const HEADER: HeaderName = HeaderName::from_static("x-key");

fn head(path: &str) -> Parts {
    get(path).into_parts().0
}

fn with_header(values: &[&[u8]]) -> Request<()> {
    let mut request = get("/");
    for value in values {
        request.headers_mut().append(HEADER, HeaderValue::from_bytes(value).expect("a value"));
    }
    request
}

fn found(key: &impl KeyExtractor, path: &str) -> Result<String, InvalidKey> {
    key.key(&head(path))
}

fn some(key: &str) -> Result<String, InvalidKey> {
    Ok(key.to_owned())
}

fn missing(part: &str) -> Result<String, InvalidKey> {
    Err(InvalidKey::Missing(part.to_owned()))
}

#[test]
fn a_parameter_is_found_where_the_route_has_it() {
    let id = key::path_parameter("/invoices/{id}/payment", "id").unwrap();
    assert_eq!(found(&id, "/invoices/42/payment"), some("42"));
    assert_eq!(found(&id, "/invoices/42/payment?id=43"), some("42"));
    assert_eq!(found(&id, "/invoices/4%2F2/payment"), some("4/2"));
    for elsewhere in ["/", "/invoices/42", "/invoices/42/payment/", "/orders/42/payment", "//42/x"]
    {
        let route = "/invoices/{id}/payment".to_owned();
        assert_eq!(found(&id, elsewhere), Err(InvalidKey::Route(route)), "{elsewhere}");
    }
    let second = key::path_parameter("/{a}/{b}", "b").unwrap();
    assert_eq!(found(&second, "/x/y"), some("y"));
    assert_eq!(found(&key::path_segment(1), "/invoices/42"), some("42"));
    assert_eq!(found(&key::path_segment(2), "/invoices/42"), missing("segment 2 of the path"));
    assert_eq!(found(&key::path_segment(1), "/invoices/"), some(""));
    assert_eq!(found(&key::path_segment(0), "/"), missing("segment 0 of the path"));
    assert_eq!(found(&key::path(), "/"), some("/"));
    assert_eq!(found(&key::path(), "/a/"), some("/a/"));
}

/// A router decodes before it chooses the handler: another spelling must not evade the lease.
#[test]
fn another_spelling_of_a_path_is_the_same_key() {
    let id = key::path_parameter("/invoices/{id}", "id").unwrap();
    for path in ["/invoices/%34%32", "/invoices/4%32", "/%69nvoices/42", "/invoices/42?x"] {
        assert_eq!(found(&id, path), some("42"), "{path}");
        assert_eq!(found(&key::path(), path), some("/invoices/42"), "{path}");
        assert_eq!(found(&key::path_segment(1), path), some("42"), "{path}");
    }
    assert_eq!(found(&key::path_segment(0), "/%C3%a9"), found(&key::path_segment(0), "/%c3%A9"));
}

/// Two different addresses are two keys.
#[test]
fn a_slash_that_was_sent_encoded_does_not_end_a_segment() {
    assert_eq!(found(&key::path(), "/a/b"), some("/a/b"));
    assert_eq!(found(&key::path(), "/a%2Fb"), some("/a%2Fb"));
    assert_eq!(found(&key::path(), "/a%252Fb"), some("/a%252Fb"));
    assert_eq!(found(&key::path_segment(1), "/a%2Fb"), missing("segment 1 of the path"));
}

#[test]
fn a_route_that_cannot_be_understood_is_refused() {
    for (route, parameter) in [
        ("/invoices/{id}", "number"),
        ("/{id}/{id}", "id"),
        ("invoices/{id}", "id"),
        ("/{*rest}", "rest"),
        ("/{*rest}", "*rest"),
        ("/invoice-{id}", "id"),
        ("", "id"),
    ] {
        let refused = key::path_parameter(route, parameter).err();
        assert!(
            matches!(refused, Some(Error::InvalidOption { option: "route", .. })),
            "{route} {parameter}: {refused:?}"
        );
    }
}

#[test]
fn a_header_counts_once_and_has_to_be_text() {
    let key = key::header(HEADER);
    let found = |values: &[&[u8]]| key.key(&with_header(values).into_parts().0);
    assert_eq!(found(&[]), missing("the header `x-key`"));
    assert_eq!(found(&[b"42"]), some("42"));
    assert_eq!(found(&["é".as_bytes()]), some("é"));
    assert_eq!(found(&[b""]), some(""));
    assert_eq!(found(&[b"\xff"]), Err(InvalidKey::NotText));
    assert_eq!(found(&[b"42", b"43"]), Err(InvalidKey::Repeated));
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
        let refused = KeyRules::new(prefix);
        assert!(
            matches!(refused, Err(Error::InvalidOption { option: "prefix", .. })),
            "{prefix:?}: {refused:?}"
        );
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

#[tokio::test]
async fn a_key_that_cannot_be_used_is_refused_and_nothing_is_sent() {
    // A server of its own: all commands on it are this test's.
    let (server, _database, leases) = lent_setup().await;
    let before = server.command_counts().await;
    let layer = LeaseLayer::new(&leases, key::header(HEADER));
    let (service, mut calls) = guarded(&layer);
    let long = "x".repeat(201);
    let hostile: [(&[&[u8]], &str); 6] = [
        (&[], "the header `x-key` is missing"),
        (&[b""], "the key is empty"),
        (&[long.as_bytes()], "the key is too long"),
        (&[b"a\tb"], "the key has a character that is not allowed"),
        (&[b"\xc3\x28"], "the key is not UTF-8"),
        (&[b"a", b"a"], "there is more than one key"),
    ];
    for (values, said) in hostile {
        let response = answer_to(&service, with_header(values)).await;
        assert!(response.headers().get("retry-after").is_none());
        let (status, body) = read(response).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{said}");
        let problem: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(problem["detail"], said);
        assert_eq!(problem["code"], "lease_key_invalid");
    }
    assert!(calls.is_quiet(), "the handler was called");
    let sent = server.command_counts().await - before;
    assert_eq!((sent.find_and_modify, sent.update, sent.delete), (0, 0, 0));
}

#[tokio::test]
async fn two_spellings_of_one_address_exclude_each_other() {
    check(async |backend| {
        let leases = backend.manager().await;
        let id = key::path_parameter("/invoices/{id}", "id").unwrap();
        let layer = LeaseLayer::new(&leases, id).key_rules(KeyRules::new("invoice").unwrap());
        let (service, mut calls) = guarded(&layer);
        let first = send(&service, get("/invoices/42"));
        let call = calls.next().await;
        assert_eq!(call.lease().name(), "invoice:42");
        assert_eq!(
            answer_to(&service, get("/invoices/%34%32")).await.status(),
            StatusCode::CONFLICT
        );
        call.answer("paid");
        assert_eq!(soon("the answer", first).await.unwrap().status(), StatusCode::OK);
    })
    .await;
}

/// A job without a request acquires the same lease.
#[tokio::test]
async fn a_lease_under_the_name_that_the_rules_give_excludes_requests() {
    check(async |backend| {
        let leases = backend.manager().await;
        let rules = KeyRules::new("invoice").unwrap();
        let layer = LeaseLayer::new(&leases, key::fixed("a b:42")).key_rules(rules.clone());
        let (service, mut calls) = guarded(&layer);
        let job = leases.acquire(rules.name("a b:42").unwrap()).await.unwrap();
        assert_eq!(answer_to(&service, get("/whatever")).await.status(), StatusCode::CONFLICT);
        job.release().await.unwrap();
        let request = send(&service, get("/whatever"));
        calls.next().await.answer("now");
        assert_eq!(soon("the answer", request).await.unwrap().status(), StatusCode::OK);
    })
    .await;
}
