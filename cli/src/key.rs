//! The key of a detached lease, as text: one line of JSON, which says where the lease is.
//!
//! It contains no connection string. Its `version` is 1; another one is refused.

pub(crate) mod file;

use mongo_lease::LeaseKey;
use mongo_lease_migrations::connect::{
    self, COLLECTION_VARIABLE, DATABASE_VARIABLE, Origin, Target,
};
use serde_json::{Map, Value, json};

use crate::arguments::Options;
use crate::failure::Failure;

/// The version of the text form.
const VERSION: u64 = 1;

/// Where a lease is: the same name in two collections is two leases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) database: String,
    pub(crate) collection: String,
}

/// A key, and where its lease is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredKey {
    pub(crate) place: Place,
    pub(crate) key: LeaseKey,
}

impl Place {
    /// The place that the command line, the environment and the connection string name.
    pub(crate) fn of(target: &Target<'_>) -> Result<Place, Failure> {
        let database = connect::check_names(target)?;
        Ok(Place { database, collection: target.collection.to_owned() })
    }
}

impl StoredKey {
    /// The key as a JSON object.
    pub(crate) fn to_json(&self) -> Value {
        let Place { database, collection } = &self.place;
        let mut object = Map::new();
        object.insert("version".to_owned(), json!(VERSION));
        object.insert("database".to_owned(), json!(database));
        object.insert("collection".to_owned(), json!(collection));
        if let Ok(Value::Object(key)) = serde_json::to_value(&self.key) {
            object.extend(key);
        }
        Value::Object(object)
    }

    /// Reads a text. An error text has nothing of the key.
    pub(crate) fn parse(text: &str) -> Result<StoredKey, String> {
        let Ok(Value::Object(object)) = serde_json::from_str(text) else {
            return Err("this is not a key: it is no JSON object".to_owned());
        };
        match object.get("version").map(Value::as_u64) {
            Some(Some(VERSION)) => {}
            Some(Some(other)) => {
                return Err(format!(
                    "the key is of version {other}, and this program reads {VERSION}"
                ));
            }
            Some(None) | None => return Err("this is not a key: it has no version".to_owned()),
        }
        let text = |field: &str| match object.get(field) {
            Some(Value::String(text)) if !text.is_empty() => Ok(text.clone()),
            Some(_) | None => Err(format!("the key is damaged: it has no {field}")),
        };
        let place = Place { database: text("database")?, collection: text("collection")? };
        text("name")?;
        text("value")?;
        text("grant")?;
        match serde_json::from_value(Value::Object(object)) {
            Ok(key) => Ok(StoredKey { place, key }),
            Err(_) => Err("the key is damaged: it has no token".to_owned()),
        }
    }

    /// The options with which the lease is found: the key says where it is. An option or a variable that says something
    /// else is a mistake, for the lease of the same name there is another one.
    pub(crate) fn options(&self, options: &Options) -> Result<Options, Failure> {
        let Place { database, collection } = &self.place;
        let connection = &options.connection;
        let origins = connection.origins;
        let given = [
            ("--db", connection.db.as_ref(), origins.db, DATABASE_VARIABLE, database),
            (
                "--collection",
                Some(&connection.collection),
                origins.collection,
                COLLECTION_VARIABLE,
                collection,
            ),
        ];
        for (option, value, origin, variable, key) in given {
            let Some(value) = value.filter(|value| origin != Origin::Default && *value != key)
            else {
                continue;
            };
            let origin = origin.told(variable);
            return Err(Failure::usage(format!(
                "the key is for {option} {key:?}, and not for {value:?}{origin}"
            )));
        }
        let mut found = options.clone();
        found.connection.db = Some(database.clone());
        found.connection.collection.clone_from(collection);
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::StoredKey;

    const TEXT: &str = concat!(
        r#"{"version":1,"database":"billing","collection":"locks","#,
        r#""name":"a","value":"v","grant":"v.1","token":"7300000000000000001"}"#
    );

    #[test]
    fn the_text_form_is_stable() {
        let key = StoredKey::parse(TEXT).unwrap();
        assert_eq!((key.place.database.as_str(), key.key.value()), ("billing", "v"));
        assert_eq!(key.key.token().as_u64(), 7_300_000_000_000_000_001);
        assert_eq!(key.to_json().to_string(), TEXT);
        // A later release may add something.
        let more = TEXT.replace("\"name\"", "\"more\":1,\"name\"");
        assert_eq!(StoredKey::parse(&more), Ok(key));
    }

    #[test]
    fn a_text_that_is_no_key_is_refused_without_being_quoted() {
        for field in ["database", "collection", "name", "value", "grant", "token", "version"] {
            let mut object: serde_json::Value = serde_json::from_str(TEXT).unwrap();
            object[field] = json!(null);
            let error = StoredKey::parse(&object.to_string()).unwrap_err();
            assert!(error.contains(field), "{error}");
            object.as_object_mut().unwrap().remove(field);
            let error = StoredKey::parse(&object.to_string()).unwrap_err();
            assert!(error.contains(field) && !error.contains("billing"), "{error}");
        }
        for text in ["", "{", "[]", "secret-word"] {
            let error = StoredKey::parse(text).unwrap_err();
            assert_eq!(error, "this is not a key: it is no JSON object");
        }
        let newer = TEXT.replace("\"version\":1", "\"version\":2");
        assert!(StoredKey::parse(&newer).unwrap_err().contains("version 2"));
    }
}
