//! The values that may stand in the token's field.

use mongo_lease::Fenced;
use mongo_lease::mongodb::bson::{Bson, doc};

use super::{NEWER, OLDER, assert_refused, by, one, stamp, work, work_on};
use crate::bson_types::of_every_other_type;

#[tokio::test]
async fn a_value_that_is_no_token_refuses_every_write() {
    let (_database, work) = work().await;
    // Servers before 8.0 treat the deprecated type `undefined` as null.
    let types = of_every_other_type().into_iter().filter(|(name, _)| *name != "undefined");
    let arrays = [
        ("array of an older token", Bson::from(vec![Bson::from(OLDER)])),
        ("array of null", Bson::from(vec![Bson::Null])),
    ];
    for (name, value) in types.chain(arrays) {
        work.delete_many(doc! {}).await.unwrap();
        work.insert_one(doc! { "_id": 1, "fence": value.clone() }).await.unwrap();
        let before = one(&work).await;
        let seen = (name == "timestamp").then(|| mongo_lease::Token::from_u64(u64::MAX));
        assert_refused(by(NEWER, name).send(&work).await.unwrap(), seen);
        // As text: some values are not equal to themselves.
        assert_eq!(format!("{:?}", one(&work).await), format!("{before:?}"), "{name}");
    }
}

#[tokio::test]
async fn a_dotted_field_is_fenced_and_a_list_on_its_way_refuses() {
    let (_database, work) = work_on(doc! { "_id": 1 }).await;
    let write = |token: mongo_lease::Token| {
        let filter = doc! { "_id": 1 };
        token.fenced_write("meta.fence", filter, vec![doc! { "$set": { "a": 1 } }]).unwrap()
    };
    assert_eq!(write(NEWER).send(&work).await.unwrap(), Fenced::Applied);
    assert_refused(write(OLDER).send(&work).await.unwrap(), Some(NEWER));
    let expected = doc! { "_id": 1, "a": 1, "meta": { "fence": stamp(NEWER) } };
    assert_eq!(one(&work).await, expected);

    let list = doc! { "meta": [{ "fence": stamp(NEWER) }, {}] };
    work.update_one(doc! { "_id": 1 }, doc! { "$set": list }).await.unwrap();
    // One element without a token does not permit the write.
    assert_refused(write(OLDER).send(&work).await.unwrap(), None);
}
