//! Messages, as far as they have to be understood to be changed.

use std::io;

use mongo_lease::mongodb::bson::Document;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Length, request, the request it answers and the kind, of four bytes each.
const HEADER: usize = 16;
/// More than any server sends: 48 MB and a little.
const LENGTH_MAX: usize = 50_000_000;
/// The kind of message which carries commands and their replies.
const OP_MSG: u32 = 2013;
/// The flag of a message that ends with a checksum.
const CHECKSUM: u32 = 1;

/// One whole message, with its header.
pub(crate) struct Message(Vec<u8>);

impl Message {
    /// Reads the next message; `None` at the end of the stream.
    pub(crate) async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Message>> {
        let mut bytes = vec![0; HEADER];
        match from.read_exact(&mut bytes).await {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        let length = usize::try_from(word(&bytes, 0).unwrap_or(0)).unwrap_or(usize::MAX);
        if !(HEADER..=LENGTH_MAX).contains(&length) {
            return Err(io::Error::other(format!("a message of {length} bytes")));
        }
        bytes.resize(length, 0);
        from.read_exact(&mut bytes[HEADER..]).await?;
        Ok(Some(Message(bytes)))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether these bytes stand in it anywhere: cheaper than to decode it.
    pub(crate) fn contains(&self, needle: &[u8]) -> bool {
        self.0.windows(needle.len()).any(|window| window == needle)
    }

    /// The command, or the reply: the document in the section of kind 0.
    pub(crate) fn document(&self) -> Option<Document> {
        let (start, end) = self.body()?;
        Document::from_reader(&self.0[start..end]).ok()
    }

    /// The same message with another document in it.
    pub(crate) fn with_document(&self, document: &Document) -> Option<Message> {
        let (start, end) = self.body()?;
        let mut bytes = self.0[..start].to_vec();
        document.to_writer(&mut bytes).ok()?;
        bytes.extend(&self.0[end..]);
        let length = u32::try_from(bytes.len()).ok()?;
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        Some(Message(bytes))
    }

    fn body(&self) -> Option<(usize, usize)> {
        if word(&self.0, 12)? != OP_MSG || word(&self.0, HEADER)? & CHECKSUM != 0 {
            return None;
        }
        let mut at = HEADER + 4;
        // Sections of kind 1 are sequences of documents, and begin with their length.
        while *self.0.get(at)? == 1 {
            at += 1 + usize::try_from(word(&self.0, at + 1)?).ok()?;
        }
        let length = usize::try_from(word(&self.0, at + 1)?).ok()?;
        let end = at + 1 + length;
        (end <= self.0.len()).then_some((at + 1, end))
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use mongo_lease::mongodb::bson::doc;

    use super::*;

    fn message(sections: &[u8]) -> Message {
        let length = u32::try_from(HEADER + 4 + sections.len()).unwrap();
        let mut bytes = Vec::new();
        for word in [length, 7, 6, OP_MSG, 0] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(sections);
        Message(bytes)
    }

    #[tokio::test]
    async fn a_document_is_changed_and_the_rest_stays() {
        let mut sections = b"\x01\x0e\0\0\0deletes\0..\0".to_vec();
        doc! { "ping": 1 }.to_writer(&mut sections).unwrap();
        let first = message(&sections);
        assert_eq!(first.document().unwrap(), doc! { "ping": 1 });
        let changed = first.with_document(&doc! { "pong": "longer" }).unwrap();
        let mut stream = changed.bytes();
        let again = Message::read(&mut stream).await.unwrap().unwrap();
        assert_eq!(again.document().unwrap(), doc! { "pong": "longer" });
        assert!(again.contains(b"deletes\0..") && stream.is_empty());
    }

    #[tokio::test]
    async fn what_is_not_understood_has_no_document() {
        assert!(message(b"\0\xff\xff\0\0").document().is_none());
        assert!(Message::read(&mut &[9; HEADER][..]).await.is_err());
        assert!(Message::read(&mut &[][..]).await.unwrap().is_none());
    }
}
