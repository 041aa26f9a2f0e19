//! Differences for servers that are not available here, and replies that no server sends.

use mongodb::bson::{Bson, Document, doc};

use super::difference::{Difference, Found, difference};
use super::{ObstacleKind, StepKind};

mod failures;
mod replies;

fn named(name: &str, key: Document, options: Document) -> Document {
    let mut index = doc! { "v": 2, "name": name, "key": key };
    index.extend(options);
    index
}

fn unique() -> Document {
    named("name_1", doc! { "name": 1 }, doc! { "unique": true })
}

fn expiring(seconds: impl Into<Bson>) -> Document {
    let options = doc! { "expireAfterSeconds": seconds.into() };
    named("expiresAt_1", doc! { "expiresAt": 1 }, options)
}

fn of(indexes: &[Document], wire_version: i32) -> Difference {
    difference("locks", &Found { collection: None, indexes, wire_version })
}

#[test]
fn old_servers_cannot_convert_and_it_is_said_what_to_do() {
    let plain_name = [named("n", doc! { "name": 1 }, doc! {}), expiring(0)];
    let plain_expiry = [unique(), named("e", doc! { "expiresAt": 1 }, doc! {})];
    for (indexes, first_that_can, version, kind) in [
        (plain_name, 17, "6.0", StepKind::MakeUnique),
        (plain_expiry, 14, "5.1", StepKind::ChangeExpiry),
    ] {
        let can = of(&indexes, first_that_can);
        assert_eq!(can.steps.iter().map(|step| step.kind()).collect::<Vec<_>>(), [kind]);
        assert!(can.obstacles.is_empty());
        let cannot = of(&indexes, first_that_can - 1);
        assert!(cannot.steps.is_empty());
        let [obstacle] = cannot.obstacles.as_slice() else { panic!("{cannot:?}") };
        assert_eq!(obstacle.kind(), ObstacleKind::CannotConvert);
        assert!(obstacle.problem().contains(version), "{obstacle}");
        assert!(obstacle.advice().contains("dropIndex("), "{obstacle}");
    }
}

#[test]
fn an_expiry_of_any_type_is_understood() {
    for zero in [Bson::Int32(0), Bson::Int64(0), Bson::Double(0.0), Bson::Double(-0.0)] {
        assert_eq!(of(&[unique(), expiring(zero)], 9), Difference::default());
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
        let found = of(&[unique(), expiring(other.clone())], 9);
        let [step] = found.steps.as_slice() else { panic!("{other}: {found:?}") };
        assert_eq!(step.kind(), StepKind::ChangeExpiry, "{other}");
    }
}

#[test]
fn only_the_key_that_a_hint_finds_is_the_key() {
    for key in [
        doc! { "name": -1 },
        doc! { "name": 2 },
        doc! { "name": "hashed" },
        doc! { "name": "text" },
        doc! { "name": 1, "value": 1 },
        doc! { "name": true },
        doc! { "value": 1 },
    ] {
        let index = named("other", key, doc! { "unique": true });
        let found = of(&[index, expiring(0)], 17);
        let [step] = found.steps.as_slice() else { panic!("{found:?}") };
        assert_eq!((step.kind(), step.index()), (StepKind::CreateIndex, "name_1"));
    }
}

#[test]
fn only_a_unique_second_index_on_expires_at_is_a_problem() {
    let options = doc! { "expireAfterSeconds": 60, "sparse": true };
    let sparse = named("s", doc! { "expiresAt": 1 }, options);
    assert_eq!(of(&[unique(), sparse, expiring(0)], 17), Difference::default());
    let second = named("u", doc! { "expiresAt": 1 }, doc! { "unique": true });
    let found = of(&[second, unique(), expiring(0)], 17);
    assert!(matches!(found.obstacles.as_slice(), [it] if it.kind() == ObstacleKind::LookAlike));
}

#[test]
fn of_several_look_alikes_each_is_named() {
    let sparse = named("s", doc! { "name": 1 }, doc! { "unique": true, "sparse": true });
    let options = doc! { "unique": true, "collation": { "locale": "en" } };
    let collated = named("c", doc! { "name": 1 }, options);
    let found = of(&[sparse, collated, expiring(0)], 17);
    assert!(found.steps.is_empty(), "nothing is made beside them: {found:?}");
    let problem = found.problem().unwrap();
    assert!(problem.contains("`s`") && problem.contains("`c`"), "{problem}");
}

/// Random values pass it, so nothing breaks. A person may want to know of it.
#[test]
fn a_unique_index_on_value_is_noted_and_no_obstacle() {
    for direction in [1, -1] {
        let index = |options| named("value_1", doc! { "value": direction }, options);
        for says_unique in [Bson::Boolean(true), Bson::Int32(1), Bson::Double(1.0)] {
            let unique_value = index(doc! { "unique": says_unique });
            let found = of(&[unique(), expiring(0), unique_value], 17);
            assert_eq!((found.problem(), found.notes.len()), (None, 1), "{found:?}");
            assert!(found.notes[0].contains("`value_1` on `value` is unique"), "{found:?}");
        }
        for plain in [doc! {}, doc! { "unique": false }, doc! { "unique": 0 }] {
            assert_eq!(of(&[unique(), expiring(0), index(plain)], 17), Difference::default());
        }
    }
    let with_name = named("both", doc! { "value": 1, "name": 1 }, doc! { "unique": true });
    assert_eq!(of(&[unique(), expiring(0), with_name], 17), Difference::default());
}
