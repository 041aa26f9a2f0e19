//! Metadata of a holder: what a program attaches, and reads again, in its own types.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{LeaseHolder, LeaseInfo};
use crate::bson::Document;
#[cfg(feature = "bson-3")]
use crate::bson::{deserialize_from_document, serialize_to_raw_document_buf};
#[cfg(not(feature = "bson-3"))]
use crate::bson::{
    from_document as deserialize_from_document,
    to_raw_document_buf as serialize_to_raw_document_buf,
};

/// The error for metadata that are not of the type that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataError(String);

impl fmt::Display for MetadataError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the metadata are of another type: {}", self.0)
    }
}

impl std::error::Error for MetadataError {}

/// The document of this value, a struct, a map or a `Document` itself; or why it is none.
pub fn to_document(value: &impl Serialize) -> Result<Document, String> {
    // By way of the bytes: a document stays as it is, also where its keys look like those of extended JSON.
    let raw = serialize_to_raw_document_buf(value).map_err(|it| it.to_string())?;
    Document::try_from(raw).map_err(|it| it.to_string())
}

impl LeaseInfo {
    /// The [metadata](LeaseInfo::metadata) in a type of your own.
    ///
    /// # Errors
    /// [`MetadataError`] if they are not of this type: another program may have written them.
    pub fn metadata<T: DeserializeOwned>(&self) -> Result<T, MetadataError> {
        read(&self.metadata)
    }
}

impl LeaseHolder {
    /// The [metadata](LeaseHolder::metadata) in a type of your own.
    ///
    /// # Errors
    /// [`MetadataError`] if they are not of this type: another program may have written them.
    pub fn metadata<T: DeserializeOwned>(&self) -> Result<T, MetadataError> {
        read(&self.metadata)
    }
}

fn read<T: DeserializeOwned>(metadata: &Document) -> Result<T, MetadataError> {
    deserialize_from_document(metadata.clone()).map_err(|it| MetadataError(it.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bson::{Bson, doc};

    #[test]
    fn a_document_stays_as_it_is_and_other_values_say_why_not() {
        let odd = doc! { "$oid": "x", "a": { "$numberLong": "5", "b": [1_i64, Bson::Null] } };
        assert_eq!(to_document(&odd), Ok(odd.clone()));
        assert_eq!(to_document(&std::collections::BTreeMap::from([("a", 1)])), Ok(doc! { "a": 1 }));
        assert!(to_document(&"text").is_err() && to_document(&[1, 2]).is_err());
        assert!(to_document(&None::<i32>).is_err());
    }
}
