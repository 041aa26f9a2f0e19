//! The properties of an index, in the forms that servers of all ages give them.

use crate::bson::{Bson, Document, doc};
use crate::commands::indexes::read_index;

fn index(field: &str, value: impl Into<Bson>) -> Document {
    doc! { "name": "name_1", "key": { "name": 1 }, field: value.into() }
}

#[test]
fn a_property_is_set_by_a_boolean_or_by_a_number() {
    let set: [Bson; 5] = [true.into(), 1.into(), 1_i64.into(), 1.0.into(), "yes".into()];
    let not_set: [Bson; 5] = [false.into(), 0.into(), 0_i64.into(), 0.0.into(), Bson::Null];
    for (values, wanted) in [(set, true), (not_set, false)] {
        for value in values {
            assert_eq!(read_index(&index("unique", value.clone())).is_unique, wanted, "{value}");
            assert_eq!(read_index(&index("sparse", value.clone())).is_sparse, wanted, "{value}");
            assert_eq!(read_index(&index("hidden", value.clone())).is_hidden, wanted, "{value}");
        }
    }
    let plain = read_index(&doc! { "name": "name_1", "key": { "name": 1 } });
    assert!(!plain.is_unique && !plain.is_sparse && !plain.is_hidden && !plain.is_partial);
}

#[test]
fn a_collation_counts_unless_it_is_the_simple_one() {
    let collation = |locale: &str| read_index(&index("collation", doc! { "locale": locale }));
    assert_eq!(collation("de").collation.as_deref(), Some("de"));
    assert_eq!(collation("simple").collation, None);
}

#[test]
fn an_index_that_is_being_built_is_told_with_its_form() {
    let spec = index("expireAfterSeconds", 60);
    let building = read_index(&doc! { "spec": spec.clone(), "buildUUID": "an id" });
    assert!(building.is_building && !read_index(&spec).is_building);
    assert_eq!((&*building.name, building.key), ("name_1", doc! { "name": 1 }));
    assert_eq!(building.expire_after_seconds, Some(Bson::Int32(60)));
    assert!(read_index(&index("partialFilterExpression", doc! {})).is_partial);
}
