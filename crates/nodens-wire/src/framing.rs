//! Messages in a stream, each behind a length of two octets (RFC 1035 section 4.2.2, RFC 7766).

use std::io::{self, Read};

/// Octets in front of a message that say how long it is.
pub const LENGTH_LEN: usize = 2;

/// The length that `stream` begins with, once it is there.
pub fn first_length(stream: &[u8]) -> Option<usize> {
    stream.first_chunk().map(|length| usize::from(u16::from_be_bytes(*length)))
}

/// The first whole message in `stream`, without its length, and where the next one starts.
pub fn first_message(stream: &[u8]) -> Option<(&[u8], usize)> {
    let end = LENGTH_LEN + first_length(stream)?;
    stream.get(LENGTH_LEN..end).map(|message| (message, end))
}

/// Appends `message` with its length in front; one that no length can say is left out.
pub fn push_message(stream: &mut Vec<u8>, message: &[u8]) {
    if let Ok(length) = u16::try_from(message.len()) {
        stream.extend_from_slice(&length.to_be_bytes());
        stream.extend_from_slice(message);
    }
}

/// `message` with its length in front, as [`push_message`] writes it.
pub fn framed(message: &[u8]) -> Vec<u8> {
    let mut stream = Vec::with_capacity(LENGTH_LEN + message.len());
    push_message(&mut stream, message);
    stream
}

/// Waits for the next message of a stream.
///
/// # Errors
/// Those of the stream, and its end before that of the message.
pub fn read_message(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; LENGTH_LEN];
    stream.read_exact(&mut length)?;
    let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut message)?;
    Ok(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_in_whatever_pieces_they_come() {
        let mut stream = Vec::new();
        push_message(&mut stream, b"abc");
        push_message(&mut stream, b"");
        push_message(&mut stream, &[1; 65_535]);
        push_message(&mut stream, &[1; 65_536]);
        assert_eq!(stream.len(), 5 + 2 + 65_537);
        assert_eq!(first_message(&stream), Some((&b"abc"[..], 5)));
        assert_eq!(first_message(&stream[5..]), Some((&b""[..], 2)));
        assert_eq!(first_message(&stream[7..]).unwrap().1, 65_537);
        for cut in 0..5 {
            assert_eq!(first_message(&stream[..cut]), None);
        }
    }

    #[test]
    fn what_is_framed_is_read_again_and_a_cut_message_is_an_error() {
        let stream = [framed(b"abc"), framed(b""), framed(b"abc")].concat();
        let mut rest = &stream[..stream.len() - 1];
        assert_eq!(read_message(&mut rest).unwrap(), b"abc");
        assert_eq!(read_message(&mut rest).unwrap(), b"");
        assert_eq!(read_message(&mut rest).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert!(framed(&[0; 65_536]).is_empty());
    }
}
