//! Problems of indexes, including indexes that new servers cannot create.

use mongo_lease_core::commands::FoundIndex;
use mongo_lease_core::rules::NOT_APPLIED;
use mongodb::bson::{Bson, Document, doc};
use mongodb::error::{CommandError, Error as DriverError, ErrorKind};

use super::ensure::may_look_again;
use super::is_unauthorized;
use super::problem::{IndexProblem, IndexProblemKind, problems, text};
use crate::failure::{Failure, UNANSWERED, driver_failure};

fn named(name: &str, key: Document) -> FoundIndex {
    FoundIndex { name: name.to_owned(), key, ..FoundIndex::default() }
}

fn unique() -> FoundIndex {
    FoundIndex { is_unique: true, ..named("name_1", doc! { "name": 1 }) }
}

fn expiring(seconds: impl Into<Bson>) -> FoundIndex {
    let expire_after_seconds = Some(seconds.into());
    FoundIndex { expire_after_seconds, ..named("expiresAt_1", doc! { "expiresAt": 1 }) }
}

fn refused(code: i32, message: &str) -> DriverError {
    let error = serde_json::json!({ "code": code, "codeName": "", "errmsg": message });
    let error: CommandError = serde_json::from_value(error).expect("the driver's form");
    ErrorKind::Command(error).into()
}

fn only(found: &[FoundIndex]) -> IndexProblem {
    let found = problems(found);
    let [problem] = found.as_slice() else { panic!("not one problem: {found:?}") };
    problem.clone()
}

#[test]
fn an_expiry_of_any_type_is_understood() {
    for zero in [Bson::Int32(0), Bson::Int64(0), Bson::Double(0.0), Bson::Double(-0.0)] {
        assert_eq!(problems(&[unique(), expiring(zero)]), []);
    }
    for other in [
        Bson::Int32(-1),
        Bson::Int64(1 << 40),
        Bson::Double(f64::NAN),
        Bson::Double(f64::INFINITY),
        Bson::Double(0.5),
        Bson::String("0".to_owned()),
        Bson::Null,
    ] {
        let problem = only(&[unique(), expiring(other.clone())]);
        assert!(matches!(problem.kind, IndexProblemKind::Expiry { found: Some(_) }), "{other}");
    }
}

#[test]
fn only_the_key_that_a_hint_finds_is_the_key() {
    for key in [
        doc! { "name": -1 },
        doc! { "name": -1.0 },
        doc! { "name": 2 },
        doc! { "name": "hashed" },
        doc! { "name": "text" },
        doc! { "name": 1, "value": 1 },
        doc! { "name": true },
        doc! { "value": 1 },
    ] {
        let index = FoundIndex { is_unique: true, ..named("other", key) };
        let problem = only(&[index, expiring(0)]);
        let expected = (IndexProblemKind::Missing, "name_1");
        assert_eq!((problem.kind, problem.index.as_str()), expected);
    }
}

#[test]
fn only_a_unique_second_index_on_expires_at_is_a_problem() {
    for key in [doc! { "value": 1 }, doc! { "value": -1 }, doc! { "value": 1, "name": 1 }] {
        let unique_value = FoundIndex { is_unique: true, ..named("mine", key) };
        assert_eq!(problems(&[unique(), expiring(0), unique_value]), []);
    }
    let sparse = FoundIndex { is_sparse: true, name: "s".to_owned(), ..expiring(60) };
    assert_eq!(problems(&[unique(), sparse, expiring(0)]), []);
    let second = named("u", doc! { "expiresAt": 1 });
    let problem = only(&[FoundIndex { is_unique: true, ..second }, unique(), expiring(0)]);
    assert!(matches!(problem.kind, IndexProblemKind::LookAlike { .. }), "{problem:?}");
}

#[test]
fn of_several_look_alikes_each_is_named() {
    let sparse = FoundIndex { is_sparse: true, name: "s".to_owned(), ..unique() };
    let collated =
        FoundIndex { collation: Some("en".to_owned()), name: "c".to_owned(), ..unique() };
    let found = problems(&[sparse, collated, expiring(0)]);
    assert!(!found.iter().any(IndexProblem::is_to_be_created), "made beside: {found:?}");
    let problem = text(&found).unwrap();
    assert!(problem.contains("`s`") && problem.contains("`c`"), "{problem}");
}

/// In whatever order the server lists them.
#[test]
fn of_two_indexes_the_one_that_needs_no_change_is_ours() {
    let plain = FoundIndex { is_unique: false, name: "plain".to_owned(), ..unique() };
    let slow = FoundIndex { name: "slow".to_owned(), ..expiring(60) };
    let mut listed = [plain, slow, unique(), expiring(0)];
    for _ in 0..2 {
        let IndexProblem { index, kind, .. } = only(&listed);
        let second = IndexProblemKind::SecondIndex { first: "name_1".to_owned() };
        assert_eq!((index.as_str(), kind), ("plain", second));
        listed.reverse();
    }
}

#[test]
fn only_what_is_not_there_yet_is_to_be_created() {
    let building = FoundIndex { is_building: true, ..unique() };
    let plain = FoundIndex { is_unique: false, ..unique() };
    for (found, kind, is_to_be_created) in [
        (None, IndexProblemKind::Missing, true),
        (Some(building), IndexProblemKind::Building, true),
        (Some(plain), IndexProblemKind::NotUnique, false),
        (Some(named("name_1", doc! { "value": 1 })), IndexProblemKind::NameTaken, false),
    ] {
        let problem = only(&found.into_iter().chain([expiring(0)]).collect::<Vec<_>>());
        assert_eq!((problem.is_to_be_created(), problem.kind), (is_to_be_created, kind));
    }
}

#[test]
fn what_stands_in_the_way_is_told_first() {
    let partial = FoundIndex { is_partial: true, ..expiring(0) };
    let told = text(&problems(&[partial])).unwrap();
    let [first, then] = told.split("; ").collect::<Vec<_>>()[..] else { panic!("{told}") };
    assert!(first.contains("is partial") && then.contains("`name` is missing"), "{told}");
}

/// As the migration has them, which lists the indexes itself.
#[test]
fn a_collection_without_indexes_has_a_problem_for_each() {
    let listed = [doc! { "name": "name_1", "key": { "name": 1 }, "unique": true }];
    assert_eq!([super::problems(&[]).len(), super::problems(&listed).len()], [2, 1]);
}

#[test]
fn an_access_is_denied_by_its_code_or_by_the_words_of_atlas() {
    for (code, message, wanted) in [
        (13, "", true),
        (8_000, "user is not allowed to do action", true),
        (8_000, "no such host", false),
        (26, "not allowed", false),
    ] {
        assert_eq!(is_unauthorized(&refused(code, message)), wanted, "{code} {message}");
    }
    assert!(!is_unauthorized(&DriverError::custom("not allowed")));
}

/// Another process may create them at the same moment.
#[test]
fn the_indexes_are_read_again_after_an_error_that_may_pass() {
    const NOT_WRITABLE_PRIMARY: i32 = 10_107;
    for (code, wanted) in [
        (26, true),
        (27, true),
        (48, true),
        (68, true),
        (85, true),
        (86, true),
        (117, true),
        (276, true),
        (NOT_WRITABLE_PRIMARY, true),
        (13, false),
    ] {
        assert_eq!(may_look_again(&driver_failure(refused(code, ""))), wanted, "{code}");
    }
    let nowhere = Failure { outcome: NOT_APPLIED, ..UNANSWERED };
    assert!(may_look_again(&nowhere));
}
