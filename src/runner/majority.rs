//! Reads on a server without majority reads, which go to the primary's newest data instead.

use mongodb::bson::Document;

const READ_CONCERN: &str = "readConcern";
const LEVEL: &str = "level";

/// Whether the command reads majority-committed data only.
pub(super) fn is_majority_read(command: &Document) -> bool {
    let read_concern = command.get_document(READ_CONCERN);
    read_concern.is_ok_and(|read_concern| read_concern.get_str(LEVEL).ok() == Some("majority"))
}

/// Makes the command read the primary's newest data. A time after which it has to read stays.
pub(super) fn read_locally(command: &mut Document) {
    if let Ok(read_concern) = command.get_document_mut(READ_CONCERN) {
        read_concern.insert(LEVEL, "local");
    }
}
