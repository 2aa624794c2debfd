//! Questions and answers in streams with two-octet lengths (RFC 1035 section 4.2.2, RFC 7766).

mod accept;
mod closing;
mod connection;
mod frame;
mod gauges;
mod holding;
mod idle;
mod leaving;
mod outbox;
mod quota;
mod server;
mod streams;
mod unsent;

pub(crate) use connection::Times;
pub(crate) use gauges::register_gauges;
pub use leaving::HandedConnection;
pub(crate) use leaving::Leaving;
pub(crate) use outbox::Outbox;
pub(crate) use quota::Quota;
pub(crate) use server::{Endpoint, TcpServer};
pub(crate) use unsent::Unsent;

/// Octets in front of a message that say how long it is.
pub(crate) const LENGTH_LEN: usize = 2;

/// The first whole message in `stream`, without its length, and where the next one starts.
pub(crate) fn first_message(stream: &[u8]) -> Option<(&[u8], usize)> {
    let (length, rest) = stream.split_first_chunk::<LENGTH_LEN>()?;
    let length = usize::from(u16::from_be_bytes(*length));
    rest.get(..length).map(|message| (message, LENGTH_LEN + length))
}

/// Appends `message` with its length in front; one that no length can say is not sent.
pub(crate) fn push_message(stream: &mut Vec<u8>, message: &[u8]) {
    if let Ok(length) = u16::try_from(message.len()) {
        stream.extend_from_slice(&length.to_be_bytes());
        stream.extend_from_slice(message);
    }
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
}
