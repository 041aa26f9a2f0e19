//! The wire format, as far as needed to distinguish messages and to change them.

use std::io;

use mongodb::bson::Document;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Four numbers of four bytes each: length, request id, the id of the request that it answers, and kind.
const HEADER: usize = 16;

/// More than any server sends: 48 MB and a little.
const LENGTH_MAX: usize = 50_000_000;

/// The kind of message which carries commands and their replies.
const OP_MSG: u32 = 2013;

/// The flag of a message that ends with a checksum.
const CHECKSUM: u32 = 1;

/// The flag of a request that wants no reply.
const MORE_TO_COME: u32 = 1 << 1;

/// One whole message between a client and a server, with its header.
#[derive(Debug)]
pub struct Message(Vec<u8>);

impl Message {
    /// Reads the next message; `None` at the end of the stream.
    ///
    /// # Errors
    ///
    /// When the stream breaks within a message, or what comes is none.
    ///
    /// # Cancel safety
    ///
    /// None: what was read of a message is lost when this is dropped, and the stream is of no use then.
    pub async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Self>> {
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
        Ok(Some(Self(bytes)))
    }

    /// The whole message, as it goes over the wire.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The request id, given by its sender.
    pub(crate) fn request(&self) -> u32 {
        word(&self.0, 4).unwrap_or(0)
    }

    /// The number of the request that it answers; 0 in a request.
    pub(crate) fn answers(&self) -> u32 {
        word(&self.0, 8).unwrap_or(0)
    }

    /// Whether its sender expects an answer.
    pub(crate) fn wants_reply(&self) -> bool {
        word(&self.0, HEADER).is_some_and(|flags| flags & MORE_TO_COME == 0)
    }

    /// Whether it contains these bytes: cheaper than to decode it.
    #[must_use]
    pub fn contains(&self, needle: &[u8]) -> bool {
        self.0.windows(needle.len()).any(|window| window == needle)
    }

    /// The name of the command: the first key of [`Message::document`], which is not decoded for it.
    ///
    /// `None` in a message of another kind, or one that is broken.
    pub(crate) fn command(&self) -> Option<&str> {
        // Skips the length of the document and the type of the value.
        let name = self.0.get(self.body()? + 4 + 1..)?;
        let end = name.iter().position(|byte| *byte == 0)?;
        std::str::from_utf8(&name[..end]).ok()
    }

    /// The command, or the reply: the document in the section of kind 0.
    ///
    /// `None` in a message of another kind, or one that is broken.
    #[must_use]
    pub fn document(&self) -> Option<Document> {
        let (start, end) = self.changeable()?;
        Document::from_reader(&self.0[start..end]).ok()
    }

    /// The same message with another document in the place of [`Message::document`].
    ///
    /// `None` where there is none, and in a message with a checksum, which would be wrong then.
    #[must_use]
    pub fn with_document(&self, document: &Document) -> Option<Self> {
        let (start, end) = self.changeable()?;
        let mut bytes = self.0[..start].to_vec();
        document.to_writer(&mut bytes).ok()?;
        bytes.extend(&self.0[end..]);
        let length = u32::try_from(bytes.len()).ok()?;
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        Some(Self(bytes))
    }

    /// Where the document of the section of kind 0 begins.
    fn body(&self) -> Option<usize> {
        if word(&self.0, 12)? != OP_MSG {
            return None;
        }
        let mut at = HEADER + 4;
        // Sections of kind 1 are sequences of documents, and begin with their length.
        while *self.0.get(at)? == 1 {
            at += 1 + usize::try_from(word(&self.0, at + 1)?).ok()?;
        }
        Some(at + 1)
    }

    /// Where the document begins and ends, unless there is a checksum of it.
    fn changeable(&self) -> Option<(usize, usize)> {
        if word(&self.0, HEADER)? & CHECKSUM != 0 {
            return None;
        }
        let start = self.body()?;
        let end = start + usize::try_from(word(&self.0, start)?).ok()?;
        (end <= self.0.len()).then_some((start, end))
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::*;

    fn message(kind: u32, flags: u32, sections: &[u8]) -> Vec<u8> {
        let length = u32::try_from(HEADER + 4 + sections.len()).unwrap();
        let mut bytes = Vec::new();
        for word in [length, 7, 6, kind, flags] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(sections);
        bytes
    }

    /// `{ ping: 1 }` as a section of kind 0.
    const PING: &[u8] = b"\0\x0f\0\0\0\x10ping\0\x01\0\0\0\0";

    #[tokio::test]
    async fn the_command_is_found_behind_a_sequence_of_documents() {
        let sequence = b"\x01\x0e\0\0\0deletes\0..";
        let sections = [&sequence[..], PING].concat();
        let bytes = [message(OP_MSG, 0, PING), message(OP_MSG, MORE_TO_COME, &sections)].concat();
        let mut stream = &bytes[..];
        let first = Message::read(&mut stream).await.unwrap().unwrap();
        assert_eq!((first.command(), first.wants_reply()), (Some("ping"), true));
        assert_eq!((first.request(), first.answers()), (7, 6));
        let second = Message::read(&mut stream).await.unwrap().unwrap();
        assert_eq!((second.command(), second.wants_reply()), (Some("ping"), false));
        assert!(Message::read(&mut stream).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn other_kinds_and_broken_messages_have_no_command() {
        let bytes = [message(2004, 0, PING), message(OP_MSG, 0, b"\x01\xff")].concat();
        let mut stream = &bytes[..];
        for _ in 0..2 {
            let message = Message::read(&mut stream).await.unwrap().unwrap();
            assert_eq!(message.command(), None);
        }
        assert!(Message::read(&mut &[9; HEADER][..]).await.is_err());
    }

    #[tokio::test]
    async fn a_document_is_changed_and_the_rest_stays() {
        let mut sections = b"\x01\x0e\0\0\0deletes\0..".to_vec();
        sections.extend(PING);
        let first = Message(message(OP_MSG, 0, &sections));
        assert_eq!(first.document().unwrap(), doc! { "ping": 1 });
        let changed = first.with_document(&doc! { "pong": "longer" }).unwrap();
        let mut stream = changed.bytes();
        let again = Message::read(&mut stream).await.unwrap().unwrap();
        assert_eq!(again.document().unwrap(), doc! { "pong": "longer" });
        assert!(again.contains(b"deletes\0..") && stream.is_empty());
    }

    #[tokio::test]
    async fn what_is_not_understood_has_no_document() {
        assert!(Message(message(OP_MSG, 0, b"\0\xff\xff\0\0")).document().is_none());
        assert!(Message(message(OP_MSG, 0, b"\0\xff\xff\xff\xff")).document().is_none());
        assert!(Message(message(2004, 0, PING)).document().is_none());
        let with_checksum = Message(message(OP_MSG, CHECKSUM, PING));
        assert_eq!(with_checksum.command(), Some("ping"));
        assert!(with_checksum.document().is_none(), "it could not be put together again");
        assert!(Message::read(&mut &[][..]).await.unwrap().is_none());
    }
}
