//! Damaged texts: tokens and keys that users give back are read as they are or refused.
//! Replies of servers are damaged in the unit tests.

use mongo_lease::{LeaseKey, Token};
use proptest::collection;
use proptest::prelude::{Strategy, any, prop_oneof};
use proptest::sample::{self, Index};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// One of these texts, with some characters added, removed or changed.
fn damaged(texts: &'static [&'static str]) -> impl Strategy<Value = String> {
    let character = prop_oneof![
        sample::select(('0'..='9').chain("+- \"\\{}[]:,.eE".chars()).collect::<Vec<_>>()),
        any::<char>(),
    ];
    let edits = collection::vec((any::<Index>(), 0..3_u8, character), 0..4);
    (sample::select(texts), edits).prop_map(|(text, edits)| {
        let mut characters: Vec<char> = text.chars().collect();
        for (at, how, character) in edits {
            let at = at.index(characters.len() + 1);
            match how {
                0 => characters.insert(at, character),
                1 if at < characters.len() => drop(characters.remove(at)),
                2 if at < characters.len() => characters[at] = character,
                _ => {}
            }
        }
        characters.into_iter().collect()
    })
}

#[test]
fn a_text_is_a_token_only_where_it_is_its_number() {
    const TEXTS: [&str; 5] = ["0", "7300000000000000001", "18446744073709551615", "00042", ""];
    check(&TEXTS, |text| match text.parse::<Token>() {
        Ok(token) => {
            assert!(text.chars().all(|it| it.is_ascii_digit()), "{text:?}");
            let plain = text.trim_start_matches('0');
            let plain = if plain.is_empty() { "0" } else { plain };
            assert_eq!(token.to_string(), plain);
        }
        Err(_) => assert!(text.parse::<u64>().is_err() || text.starts_with('+'), "{text:?}"),
    });
}

#[test]
fn a_text_is_a_key_only_where_it_says_everything() {
    const TEXTS: [&str; 2] = [
        r#"{"name":"a","value":"m-1","grant":"m-1.2","token":"7300000000000000001"}"#,
        r#"{"token":"5","grant":"","value":"","name":""}"#,
    ];
    check(&TEXTS, |text| {
        let Ok(key) = serde_json::from_str::<LeaseKey>(text) else { return };
        let json: serde_json::Value = serde_json::from_str(text).unwrap();
        assert_eq!(json["name"].as_str(), Some(key.name()));
        assert_eq!(json["value"].as_str(), Some(key.value()));
        let token = json["token"].as_str().and_then(|token| token.parse().ok());
        assert_eq!(token, Some(key.token()));
        // It survives a round trip.
        let again = serde_json::to_string(&key).unwrap();
        assert_eq!(serde_json::from_str::<LeaseKey>(&again).unwrap(), key);
    });
}

/// Runs two thousand cases of these texts, damaged. They are always the same ones, so a failure can be repeated.
fn check(texts: &'static [&'static str], test: impl Fn(&str)) {
    let config = Config { cases: 2_000, failure_persistence: None, ..Config::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let outcome = TestRunner::new_with_rng(config, rng).run(&damaged(texts), |text| {
        test(&text);
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}
