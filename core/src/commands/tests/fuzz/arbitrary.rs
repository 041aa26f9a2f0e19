//! Generates documents of any form, and replies with damaged values.

use crate::bson::{Binary, Bson, DateTime, Decimal128, Document, Timestamp, oid::ObjectId};
use crate::bson::{JavaScriptCodeWithScope, spec::BinarySubtype};
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::{collection, sample};

/// Field names that some decoder reads.
const FIELDS: &str = "_id acquiredAt admitted ahead clusterTime code count cursor errmsg expiresAt \
    firstBatch firstMs fullDocument grant hasQueue holders id inUse index key limit \
    maxClockSkewMs maxWireVersion msg n name names now ok operationTime ours own owner permits \
    promoted sentMicros setName shared standaloneToken total ttlMs updateDescription \
    updatedFields value waiting writeErrors";

/// Texts that have a meaning for some decoder, or nearly; the first of them is empty.
const TEXTS: &str = " $$NOW $$ROOT $call. $call.2 $call.3 $call.30 $name another date m-c.2@-7 \
    m-c.2@!7 m-c.2@7 m-c.2@99999999999999999999 missing mongo-lease/shared null isdbgrid \
    released:1 @ é@é \0";

fn one_of(texts: &'static str) -> impl Strategy<Value = String> {
    sample::select(texts.split(' ').collect::<Vec<_>>()).prop_map(str::to_owned)
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![3 => one_of(TEXTS), 1 => any::<String>()]
}

fn field() -> impl Strategy<Value = String> {
    prop_oneof![4 => one_of(FIELDS), 1 => text()]
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

pub(super) fn any_document() -> impl Strategy<Value = Document> {
    document_of(value())
}

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
        mutations.into_iter().fold(reply, |damaged, (at, how)| match count(&damaged) {
            0 => damaged,
            values => with_one_damaged(&damaged, at.index(values), &how),
        })
    })
}

/// The reply as it is, and all replies in which one of its values is damaged in one way.
pub(super) fn each_damaged(reply: &Document) -> impl Iterator<Item = Document> {
    let time = Timestamp { time: 7, increment: 7 };
    let dates = [i64::MIN, -1, 1_700_000_000_000, 1_700_000_000_001, i64::MAX];
    let dates = dates.map(|millis| DateTime::from_millis(millis).into());
    let numbers = [0, -1, i64::MAX].map(Bson::Int64);
    let others = [
        Bson::Null,
        Bson::Boolean(false),
        Bson::Int32(i32::MIN),
        Bson::Int32(0),
        Bson::Int32(41),
        Bson::Double(1.0),
        Bson::Timestamp(time),
        Bson::Document(Document::new()),
        Bson::Array(Vec::new()),
    ];
    let texts = TEXTS.split(' ').map(Bson::from);
    let values = texts.chain(dates).chain(numbers).chain(others).map(How::Replace);
    let hows: Vec<How> = values.chain([How::Remove, How::Retype, How::InList]).collect();
    let damaged = (0..count(reply)).flat_map(move |at| {
        let one_damaged = |how| with_one_damaged(reply, at, how);
        hows.iter().map(one_damaged).collect::<Vec<_>>()
    });
    std::iter::once(reply.clone()).chain(damaged)
}

/// How many values this document contains, at any depth.
fn count(document: &Document) -> usize {
    let mut values = 0;
    super::super::walk(&Bson::from(document.clone()), &mut |_| values += 1);
    values - 1
}

/// The same document with the value damaged that comes after `before` others.
fn with_one_damaged(document: &Document, before: usize, how: &How) -> Document {
    let mut left = Some(before);
    changed_document(document, &mut left, how)
}

/// Changes the value that comes after `left` others within this one. `None`: it is changed.
fn change(value: &Bson, left: &mut Option<usize>, how: &How) -> Bson {
    if let Bson::Document(document) = value {
        return changed_document(document, left, how).into();
    }
    if let Bson::Array(items) = value {
        let items = items.iter().filter_map(|item| change_within(item, left, how));
        return items.collect::<Vec<_>>().into();
    }
    value.clone()
}

fn changed_document(document: &Document, left: &mut Option<usize>, how: &How) -> Document {
    let fields = document.iter();
    fields.filter_map(|(key, it)| Some((key.clone(), change_within(it, left, how)?))).collect()
}

fn change_within(inner: &Bson, left: &mut Option<usize>, how: &How) -> Option<Bson> {
    let is_this = *left == Some(0);
    *left = left.and_then(|left| left.checked_sub(1));
    if is_this { changed(inner, how) } else { Some(change(inner, left, how)) }
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
