//! Generates documents of any form, and replies with damaged values.

use crate::bson::{Binary, Bson, DateTime, Decimal128, Document, Timestamp, oid::ObjectId};
use crate::bson::{JavaScriptCodeWithScope, spec::BinarySubtype};
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::{collection, sample};

/// Field names that some decoder reads.
const FIELDS: [&str; 43] = [
    "_id",
    "acquiredAt",
    "ahead",
    "clusterTime",
    "code",
    "count",
    "cursor",
    "errmsg",
    "expiresAt",
    "firstBatch",
    "firstMs",
    "fullDocument",
    "grant",
    "hasQueue",
    "holders",
    "id",
    "inUse",
    "key",
    "limit",
    "maxClockSkewMs",
    "maxWireVersion",
    "msg",
    "n",
    "name",
    "names",
    "now",
    "ok",
    "operationTime",
    "ours",
    "own",
    "owner",
    "permits",
    "promoted",
    "sentMicros",
    "setName",
    "shared",
    "standaloneToken",
    "total",
    "ttlMs",
    "updatedFields",
    "value",
    "waiting",
    "writeErrors",
];

/// Texts that have a meaning for some decoder, or nearly.
const TEXTS: [&str; 19] = [
    "",
    "$$NOW",
    "$$ROOT",
    "$call.2",
    "$call.3",
    "$name",
    "another",
    "date",
    "m-c.2@-7",
    "m-c.2@!7",
    "m-c.2@7",
    "m-c.2@99999999999999999999",
    "missing",
    "mongo-lease/shared",
    "null",
    "isdbgrid",
    "@",
    "é@é",
    "\0",
];

fn text() -> impl Strategy<Value = String> {
    prop_oneof![3 => sample::select(&TEXTS[..]).prop_map(str::to_owned), 1 => any::<String>()]
}

fn field() -> impl Strategy<Value = String> {
    prop_oneof![4 => sample::select(&FIELDS[..]).prop_map(str::to_owned), 1 => text()]
}

/// A whole number, extreme ones more often than others.
fn whole() -> impl Strategy<Value = i64> {
    let ends = [i64::MIN, i64::MIN + 1, -1, 0, 1, 9, 17, i64::MAX - 1, i64::MAX];
    prop_oneof![sample::select(ends.to_vec()), any::<i32>().prop_map(i64::from), any::<i64>()]
}

fn leaf() -> impl Strategy<Value = Bson> {
    let fixed = [Bson::Null, Bson::Undefined, Bson::MinKey, Bson::MaxKey];
    let bytes = || collection::vec(any::<u8>(), 0..9);
    prop_oneof![
        sample::select(fixed.to_vec()),
        any::<bool>().prop_map(Bson::Boolean),
        any::<i32>().prop_map(Bson::Int32),
        whole().prop_map(Bson::Int64),
        any::<f64>().prop_map(Bson::Double),
        sample::select(vec![f64::NAN, f64::INFINITY, -0.0, 1.0]).prop_map(Bson::Double),
        text().prop_map(Bson::String),
        text().prop_map(Bson::Symbol),
        text().prop_map(Bson::JavaScriptCode),
        text().prop_map(|code| {
            let scope = Document::new();
            Bson::JavaScriptCodeWithScope(JavaScriptCodeWithScope { code, scope })
        }),
        whole().prop_map(|millis| Bson::DateTime(DateTime::from_millis(millis))),
        any::<(u32, u32)>()
            .prop_map(|(time, increment)| Bson::Timestamp(Timestamp { time, increment })),
        any::<[u8; 12]>().prop_map(|bytes| Bson::ObjectId(ObjectId::from_bytes(bytes))),
        any::<[u8; 16]>().prop_map(|bytes| Bson::Decimal128(Decimal128::from_bytes(bytes))),
        bytes().prop_map(|bytes| Bson::Binary(Binary { subtype: BinarySubtype::Generic, bytes })),
    ]
}

/// A value of any type, nested or not.
fn value() -> impl Strategy<Value = Bson> + Clone {
    leaf().boxed().prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            collection::vec(inner.clone(), 0..5).prop_map(Bson::Array),
            document_of(inner).prop_map(Bson::Document),
        ]
    })
}

fn document_of(value: impl Strategy<Value = Bson>) -> impl Strategy<Value = Document> {
    collection::vec((field(), value), 0..8).prop_map(Document::from_iter)
}

/// A document of random fields.
pub(super) fn any_document() -> impl Strategy<Value = Document> {
    document_of(value())
}

/// How a value is damaged.
#[derive(Clone, Debug)]
enum How {
    Remove,
    Replace(Bson),
    Retype,
    Within(String),
    InList,
}

/// One of these replies, with up to three of its values damaged, at any depth.
pub(super) fn damaged(replies: Vec<Document>) -> impl Strategy<Value = Document> {
    let how = prop_oneof![
        2 => Just(How::Remove),
        4 => value().prop_map(How::Replace),
        3 => Just(How::Retype),
        1 => field().prop_map(How::Within),
        1 => Just(How::InList),
    ];
    let mutations = collection::vec((any::<sample::Index>(), how), 0..4);
    (sample::select(replies), mutations).prop_map(|(reply, mutations)| {
        let mut damaged = Bson::Document(reply);
        for (at, how) in mutations {
            let values = count(&damaged);
            if values > 0 {
                change(&mut damaged, &mut at.index(values), &how);
            }
        }
        damaged.as_document().cloned().unwrap_or_default()
    })
}

/// How many values this one contains.
fn count(value: &Bson) -> usize {
    let mut values = 0;
    super::super::walk(value, &mut |_| values += 1);
    values - 1
}

/// Changes the value that comes after `before` others within this one. Returns whether it was there.
fn change(value: &mut Bson, before: &mut usize, how: &How) -> bool {
    if let Bson::Document(document) = value {
        let keys: Vec<String> = document.keys().cloned().collect();
        for key in keys {
            let Some(inner) = document.get_mut(&key) else { continue };
            if *before == 0 {
                match changed(inner, how) {
                    Some(other) => *inner = other,
                    None => drop(document.remove(&key)),
                }
                return true;
            }
            *before -= 1;
            if change(inner, before, how) {
                return true;
            }
        }
    } else if let Bson::Array(items) = value {
        for at in 0..items.len() {
            if *before == 0 {
                match changed(&items[at], how) {
                    Some(other) => items[at] = other,
                    None => drop(items.remove(at)),
                }
                return true;
            }
            *before -= 1;
            if change(&mut items[at], before, how) {
                return true;
            }
        }
    }
    false
}

fn changed(value: &Bson, how: &How) -> Option<Bson> {
    match how {
        How::Remove => None,
        How::Replace(other) => Some(other.clone()),
        How::Retype => Some(retyped(value)),
        How::Within(field) => {
            Some(Bson::Document(Document::from_iter([(field.clone(), value.clone())])))
        }
        How::InList => Some(Bson::Array(vec![value.clone()])),
    }
}

/// The same value in another type, as another program or a tool might have written it.
fn retyped(value: &Bson) -> Bson {
    // Every other type becomes its own text.
    #[allow(clippy::wildcard_enum_match_arm)]
    match value {
        Bson::Int32(number) => Bson::Double(f64::from(*number)),
        Bson::Int64(number) => Bson::DateTime(DateTime::from_millis(*number)),
        Bson::DateTime(date) => Bson::Int64(date.timestamp_millis()),
        Bson::Timestamp(time) => Bson::Int64(i64::from(time.time)),
        Bson::String(text) => Bson::Symbol(text.clone()),
        Bson::Document(document) => {
            Bson::Array(document.iter().map(|(_, inner)| inner.clone()).collect())
        }
        Bson::Array(items) => {
            let numbered = items.iter().enumerate();
            Bson::Document(numbered.map(|(at, item)| (at.to_string(), item.clone())).collect())
        }
        other => Bson::String(other.to_string()),
    }
}
