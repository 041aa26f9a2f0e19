//! The recipe on the page for those who come from Mongoose.

use std::io::Write;
use std::process::Stdio;

use mongo_lease_testbed::{Server, command};
use serde_json::{Value, json};

use crate::installed;

const PAGE: &str = include_str!("../../../../docs/coming-from.md");

/// The first code in JavaScript below the recipe's heading.
fn recipe() -> &'static str {
    let (_, section) = PAGE.split_once("\n## From the Mongoose recipe\n").expect("the section");
    let (_, code) = section.split_once("\n```js\n").expect("its code");
    code.split_once("\n```\n").expect("the end of the code").0
}

/// Runs a program of this code on a database of its own, and returns its report.
async fn ran(code: &str) -> Value {
    let database = Server::shared().database().await;
    let (uri, name) = (Server::shared().uri(), database.name());
    let mut program = command("node");
    program.args(["page.mjs", uri, name]).current_dir(installed::folder());
    program.stdin(Stdio::piped()).stdout(Stdio::piped());
    let started = program.spawn();
    let mut child = started.unwrap_or_else(|error| panic!("{}", installed::complaint(&error)));
    child.stdin.take().unwrap().write_all(code.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "it has failed, and has said why");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_recipe_on_the_page_works_and_nothing_in_it_is_deprecated() {
    let expected = json!({ "paid": [42], "left": 0, "warnings": [] });
    assert_eq!(ran(recipe()).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deprecated_option_is_noticed() {
    let code = recipe().replace("returnDocument: 'after'", "new: true");
    assert_ne!(code, recipe());
    let told = ran(&code).await;
    let warnings = told["warnings"].as_array().unwrap();
    assert!(warnings.iter().any(|it| it.as_str().unwrap().contains("`new` option")), "{told}");
}
