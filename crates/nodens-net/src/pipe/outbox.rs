//! Octets on their way into a stream.

use crate::limits::SPARE_BUFFER_LEN;
use nodens_wire::framing::push_message;
use std::io::{self, Write};

/// Messages that the kernel has not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    octets: Vec<u8>,
    /// Those before this are out.
    sent: usize,
}

impl Outbox {
    /// Octets that are not sent yet.
    pub(crate) fn len(&self) -> usize {
        self.octets.len() - self.sent
    }

    /// Octets of memory it has.
    pub(crate) fn capacity(&self) -> usize {
        self.octets.capacity()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends a message with its length in front. The first one may go into a buffer of `spare`.
    pub(crate) fn push(&mut self, message: &[u8], spare: &mut Vec<Vec<u8>>) {
        if self.octets.capacity() == 0 {
            self.octets = spare.pop().unwrap_or_default();
        }
        push_message(&mut self.octets, message);
    }

    /// Appends octets as they are.
    pub(crate) fn append(&mut self, octets: Vec<u8>) {
        if self.octets.is_empty() {
            self.octets = octets;
        } else {
            self.octets.extend_from_slice(&octets);
        }
    }

    /// Writes until all is out or the stream takes no more for now; gives the octets written.
    pub(crate) fn write_to(&mut self, mut stream: impl Write) -> io::Result<usize> {
        let before = self.sent;
        while let Some(rest) = self.octets.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match stream.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => self.sent += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let written = self.sent - before;
                    self.compact();
                    return Ok(written);
                }
                Err(error) => return Err(error),
            }
        }
        let written = self.sent - before;
        self.octets.clear();
        self.sent = 0;
        Ok(written)
    }

    /// Drops what is out once it is the larger part, so that moving the rest is paid for. A stream
    /// that never takes the last octet would else keep all it was ever sent.
    fn compact(&mut self) {
        if self.sent >= self.len() {
            self.octets.drain(..self.sent);
            self.sent = 0;
            if self.octets.capacity() > 4 * self.octets.len().max(SPARE_BUFFER_LEN) {
                self.octets.shrink_to(2 * self.octets.len());
            }
        }
    }

    /// Gives up the buffer, if it is empty but not nothing.
    pub(crate) fn take_buffer(&mut self) -> Option<Vec<u8>> {
        let spare = self.is_empty() && self.octets.capacity() > 0;
        spare.then(|| std::mem::take(&mut self.octets))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes three octets at a time, and refuses every second time.
    #[derive(Default)]
    struct Narrow(Vec<u8>, usize);

    impl Write for Narrow {
        fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
            self.1 += 1;
            if self.1.is_multiple_of(2) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let len = octets.len().min(3);
            self.0.extend_from_slice(&octets[..len]);
            Ok(len)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn everything_goes_out_in_order_whatever_the_stream_takes() {
        let (mut outbox, mut narrow) = (Outbox::default(), Narrow::default());
        outbox.push(b"abcd", &mut Vec::new());
        assert_eq!(outbox.write_to(&mut narrow).unwrap(), 3);
        outbox.push(b"ef", &mut Vec::new());
        assert_eq!(outbox.len(), 7);
        while !outbox.is_empty() {
            outbox.write_to(&mut narrow).unwrap();
        }
        assert_eq!(narrow.0, b"\0\x04abcd\0\x02ef");
        assert!(outbox.take_buffer().is_some());
    }

    #[test]
    fn a_stream_that_never_takes_the_last_octet_does_not_make_it_grow() {
        let (mut outbox, mut narrow) = (Outbox::default(), Narrow::default());
        let mut expected = Vec::new();
        outbox.push(&[7; 30], &mut Vec::new());
        push_message(&mut expected, &[7; 30]);
        for n in 0..10_000 {
            outbox.push(&[n as u8], &mut Vec::new());
            push_message(&mut expected, &[n as u8]);
            assert_eq!(outbox.write_to(&mut narrow).unwrap(), 3);
            assert_eq!(outbox.len(), 32);
            assert!(outbox.octets.len() <= 128, "{}", outbox.octets.len());
        }
        while !outbox.is_empty() {
            outbox.write_to(&mut narrow).unwrap();
        }
        assert_eq!(narrow.0, expected);
    }
}
