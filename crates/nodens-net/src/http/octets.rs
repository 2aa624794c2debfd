//! Both directions of a connection in memory, as `h2` wants them. No task is woken: whoever brings
//! octets polls.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Shared by the session and its `h2` connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Octets(Rc<RefCell<Both>>);

#[derive(Debug, Default)]
struct Both {
    input: Vec<u8>,
    /// Those before this are read.
    read: usize,
    /// So many more may be read.
    allowed: usize,
    output: Vec<u8>,
}

impl Octets {
    /// Adds what has arrived.
    pub(super) fn push(&self, octets: &[u8]) {
        self.0.borrow_mut().input.extend_from_slice(octets);
    }

    /// Whether octets have arrived that are not read.
    pub(super) fn has_input(&self) -> bool {
        let both = self.0.borrow();
        both.read < both.input.len()
    }

    /// Lets so many be read, and no more before the next call.
    pub(super) fn allow(&self, octets: usize) {
        self.0.borrow_mut().allowed = octets;
    }

    /// How many of them are left.
    pub(super) fn allowed(&self) -> usize {
        self.0.borrow().allowed
    }

    /// What is to be sent.
    pub(super) fn take_output(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.borrow_mut().output)
    }

    /// Octets of memory.
    pub(super) fn cost(&self) -> usize {
        let both = self.0.borrow();
        both.input.capacity() + both.output.capacity()
    }
}

impl AsyncRead for Octets {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let both = &mut *self.0.borrow_mut();
        let rest = both.input.get(both.read..).unwrap_or_default();
        if rest.is_empty() {
            // The end of the stream is not told: what is under way is answered all the same.
            (both.input, both.read) = (Vec::new(), 0);
            return Poll::Pending;
        }
        let len = buffer.remaining().min(rest.len()).min(both.allowed);
        let Some(front) = rest.get(..len).filter(|front| !front.is_empty()) else {
            return Poll::Pending;
        };
        buffer.put_slice(front);
        both.allowed -= front.len();
        both.read += front.len();
        if both.read == both.input.len() {
            (both.input, both.read) = (Vec::new(), 0);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Octets {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        // Whoever takes it bounds it: nothing is read while much waits.
        self.0.borrow_mut().output.extend_from_slice(octets);
        Poll::Ready(Ok(octets.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
