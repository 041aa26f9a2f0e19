//! As much of the wire format as it takes to tell which command a message belongs to.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

/// Length, request, the request it answers and the kind, of four bytes each.
const HEADER: usize = 16;

/// More than any server sends: 48 MB and a little.
const LENGTH_MAX: usize = 50_000_000;

/// The kind of message which carries commands and their replies.
const OP_MSG: u32 = 2013;

/// The flag of a request that wants no reply.
const MORE_TO_COME: u32 = 1 << 1;

/// One whole message, with its header.
#[derive(Debug)]
pub(super) struct Message(Vec<u8>);

impl Message {
    /// Reads the next message; `None` at the end of the stream.
    pub(super) async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Self>> {
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

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn request(&self) -> u32 {
        word(&self.0, 4).unwrap_or(0)
    }

    pub(super) fn answers(&self) -> u32 {
        word(&self.0, 8).unwrap_or(0)
    }

    pub(super) fn wants_reply(&self) -> bool {
        word(&self.0, HEADER).is_some_and(|flags| flags & MORE_TO_COME == 0)
    }

    /// The name of the command: the first key of the document in the section of kind 0.
    pub(super) fn command(&self) -> Option<&str> {
        if word(&self.0, 12)? != OP_MSG {
            return None;
        }
        let mut at = HEADER + 4;
        // Sections of kind 1 are sequences of documents, and begin with their length.
        while *self.0.get(at)? == 1 {
            at += 1 + usize::try_from(word(&self.0, at + 1)?).ok()?;
        }
        // Over the kind of the section, the length of the document and the type of the value.
        let name = self.0.get(at + 1 + 4 + 1..)?;
        let end = name.iter().position(|byte| *byte == 0)?;
        std::str::from_utf8(&name[..end]).ok()
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
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
}
