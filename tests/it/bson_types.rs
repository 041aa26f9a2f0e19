//! A value of every BSON type, made from its bytes: so also of those that no program makes any more.

use mongo_lease::mongodb::bson::{Bson, Document};

/// One value of each type except dates and nulls, with the server's name for its type.
pub(crate) fn of_every_other_type() -> Vec<(&'static str, Bson)> {
    let id = [7; 12];
    vec![
        ("double", value(0x01, &1e15_f64.to_le_bytes())),
        ("string", value(0x02, &text("2999-01-01T00:00:00Z"))),
        ("object", value(0x03, &[5, 0, 0, 0, 0])),
        // Not an array of dates: the TTL monitor would remove that once the earliest has passed.
        ("array", value(0x04, &[12, 0, 0, 0, 0x10, b'0', 0, 9, 0, 0, 0, 0])),
        ("binData", value(0x05, &[1, 0, 0, 0, 0, 9])),
        ("undefined", value(0x06, &[])),
        ("objectId", value(0x07, &id)),
        ("bool", value(0x08, &[1])),
        ("regex", value(0x0B, b"a\0i\0")),
        ("dbPointer", value(0x0C, &[text("a.b"), id.to_vec()].concat())),
        ("javascript", value(0x0D, &text("1"))),
        ("symbol", value(0x0E, &text("a"))),
        ("javascriptWithScope", value(0x0F, &scoped_code())),
        ("int", value(0x10, &i32::MAX.to_le_bytes())),
        ("timestamp", value(0x11, &u64::MAX.to_le_bytes())),
        ("long", value(0x12, &32_503_680_000_000_i64.to_le_bytes())),
        ("decimal", value(0x13, &[9; 16])),
        ("minKey", value(0xFF, &[])),
        ("maxKey", value(0x7F, &[])),
    ]
}

fn value(kind: u8, payload: &[u8]) -> Bson {
    let mut document = vec![0; 4];
    document.push(kind);
    document.extend(b"x\0");
    document.extend(payload);
    document.push(0);
    let length = u32::try_from(document.len()).unwrap();
    document[..4].copy_from_slice(&length.to_le_bytes());
    let mut read = Document::from_reader(document.as_slice()).unwrap();
    read.remove("x").unwrap()
}

fn text(text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len() + 1).unwrap();
    [&length.to_le_bytes(), text.as_bytes(), &[0]].concat()
}

fn scoped_code() -> Vec<u8> {
    let (code, scope) = (text("1"), [5, 0, 0, 0, 0]);
    let length = u32::try_from(4 + code.len() + scope.len()).unwrap();
    [length.to_le_bytes().to_vec(), code, scope.to_vec()].concat()
}
