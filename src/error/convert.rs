//! Errors of this crate, to and from the driver's.

use mongodb::error::Error as DriverError;

use super::Error;

/// For `?` in the callback of a transaction. The driver's own errors come out unchanged, with their labels. All others
/// are found again by [`get_custom::<mongo_lease::Error>()`](mongodb::error::Error::get_custom).
impl From<Error> for DriverError {
    fn from(error: Error) -> DriverError {
        if let Error::MongoDb(source) | Error::Unknown { source: Some(source), .. } = error {
            return source;
        }
        DriverError::custom(error)
    }
}

/// An error of this crate that a callback of the driver's has carried, as it was; every other one as
/// [`Error::MongoDb`].
impl From<DriverError> for Error {
    fn from(error: DriverError) -> Error {
        match error.get_custom::<Error>() {
            Some(own) => own.clone(),
            None => Error::MongoDb(error),
        }
    }
}
