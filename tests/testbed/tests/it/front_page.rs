//! The front page shows what is true.

use mongo_lease_testbed::find::WHEELS;

const PAGE: &str = include_str!("../../README.md");

/// The code of this language on the page, each block by itself.
fn blocks(language: &str) -> Vec<&'static str> {
    let begin = format!("```{language}\n");
    PAGE.split(&begin).skip(1).map(|rest| rest.split("```\n").next().unwrap()).collect()
}

#[test]
fn the_code_on_the_front_page_is_that_of_tests() {
    let tests = include_str!("users.rs");
    let blocks = blocks("rust,no_run");
    assert!(blocks.len() > 3, "{blocks:?}");
    for block in &blocks {
        assert!(tests.contains(block), "not in users.rs:\n{block}");
    }
    let shown = blocks.concat();
    for line in tests.lines().filter(|line| line.starts_with("async fn ")) {
        assert!(shown.contains(line), "not on the front page: {line}");
    }
}

#[test]
fn the_version_on_the_front_page_is_ours() {
    let [manifest] = blocks("toml")[..] else { panic!("more than one manifest") };
    let (own, _) = env!("CARGO_PKG_VERSION").rsplit_once('.').unwrap();
    assert!(manifest.contains(&format!("mongo-lease-testbed = \"{own}\"")), "{manifest}");
}

#[test]
fn the_front_page_names_each_wheel_and_its_server() {
    for wheel in WHEELS {
        for text in [wheel.package, wheel.server] {
            assert!(PAGE.contains(text), "{text}");
        }
    }
}
