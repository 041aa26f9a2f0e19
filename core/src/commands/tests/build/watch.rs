use crate::bson::doc;
use crate::rules::ids::ManagerId;

use crate::commands::watch::pipeline;

#[test]
fn the_pipeline_of_the_change_stream_is_written_out() {
    let ours = doc! { "$gte": "$manager-", "$lt": "$manager." };
    let updated = doc! {
        "operationType": "update",
        "updateDescription.updatedFields.promoted": ours.clone(),
    };
    let replaced = doc! { "operationType": "replace", "fullDocument.promoted": ours };
    // The text has the parts of all who were admitted, separated by spaces.
    let one_of_ours = doc! { "$regex": "(^| )$manager-" };
    let admitted = doc! {
        "operationType": "update",
        "updateDescription.updatedFields.admitted": one_of_ours.clone(),
    };
    let admitted_anew = doc! {
        "operationType": "replace",
        "fullDocument.admitted": one_of_ours,
    };
    let fields = doc! {
        "operationType": 1,
        "ns": 1,
        "clusterTime": 1,
        "updateDescription.updatedFields.promoted": 1,
        "updateDescription.updatedFields.expiresAt": 1,
        "updateDescription.updatedFields.admitted": 1,
        "fullDocument.promoted": 1,
        "fullDocument.admitted": 1,
        "fullDocument.holders.id": 1,
        "fullDocument.expiresAt": 1,
        "fullDocument.value": 1,
        "fullDocument.grant.value": 1,
        "fullDocument.grant.id": 1,
    };
    let any = [updated, replaced, admitted, admitted_anew];
    let wanted = [doc! { "$match": { "$or": any.to_vec() } }, doc! { "$project": fields }];
    assert_eq!(pipeline(&ManagerId::new("$manager".to_owned())), wanted);
}

/// The range contains no other manager's calls, although one id may begin with another's.
#[test]
fn the_range_of_a_manager_has_its_own_calls_in_it_alone() {
    let stages = pipeline(&ManagerId::new("abc".to_owned()));
    let updates = stages[0].get_document("$match").unwrap().get_array("$or").unwrap();
    let range = updates[0].as_document().unwrap();
    let range = range.get_document("updateDescription.updatedFields.promoted").unwrap();
    let (from, to) = (range.get_str("$gte").unwrap(), range.get_str("$lt").unwrap());
    let is_in_it = |text: &str| from <= text && text < to;
    for ours in ["abc-1.1@5", "abc-ffff.10@!5", "abc-.", "abc-~~"] {
        assert!(is_in_it(ours), "{ours}");
    }
    for another in ["", "abc", "abcd-1.1@5", "ab-1.1@5", "abd-1.1@5", "abc.1@5", "ABC-1.1@5"] {
        assert!(!is_in_it(another), "{another}");
    }
}
