//! The body of a request, of known length or in chunks (RFC 9112 section 7.1).

use crate::limits::{HTTP_CHUNK_LINE_MAX, HTTP_FIELDS_MAX, HTTP_HEAD_LEN_MAX, REQUEST_LEN_MAX};
use httparse::{EMPTY_HEADER, Status};

/// How long a body is said to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    /// So many octets.
    Known(u64),
    /// As the chunks say.
    Chunked,
}

/// A body that arrives.
#[derive(Debug)]
pub(super) struct Body {
    content: Vec<u8>,
    next: Next,
}

/// What comes next.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// So many octets, which are the last.
    Rest(u64),
    /// The line with the size of a chunk.
    Size,
    /// So many octets of a chunk.
    Chunk(u64),
    /// The end of the line behind a chunk.
    LineEnd,
    /// Fields behind the last chunk.
    Trailers,
}

/// What has come of a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// More is to come.
    More,
    /// All of it.
    Whole(Vec<u8>),
    /// It is longer than any query.
    TooLong,
    /// What is there is no body.
    Malformed,
}

impl Body {
    pub(super) fn new(length: Length) -> Self {
        let next = match length {
            Length::Known(octets) => Next::Rest(octets),
            Length::Chunked => Next::Size,
        };
        Self { content: Vec::new(), next }
    }

    /// Whether there is any.
    pub(super) fn is_awaited(&self) -> bool {
        !matches!(self.next, Next::Rest(0))
    }

    pub(super) fn cost(&self) -> usize {
        self.content.capacity()
    }

    /// Takes what of `octets` is of the body; gives what has come of it, and how many octets those were.
    pub(super) fn take(&mut self, octets: &[u8]) -> (Part, usize) {
        let mut taken = 0;
        loop {
            let rest = octets.get(taken..).unwrap_or_default();
            match self.step(rest) {
                Ok((len, None)) => taken += len,
                Ok((len, Some(part))) => return (part, taken + len),
                Err(part) => return (part, taken),
            }
        }
    }

    /// One step: how many octets it took, and whether it was the last.
    fn step(&mut self, rest: &[u8]) -> Result<(usize, Option<Part>), Part> {
        match self.next {
            Next::Rest(0) => Ok((0, Some(Part::Whole(std::mem::take(&mut self.content))))),
            Next::Rest(left) => {
                let len = self.copy(left, rest)?;
                self.next = Next::Rest(left - len as u64);
                Ok((len, None))
            }
            Next::Size => self.size(rest),
            Next::Chunk(0) => {
                self.next = Next::LineEnd;
                Ok((0, None))
            }
            Next::Chunk(left) => {
                let len = self.copy(left, rest)?;
                self.next = Next::Chunk(left - len as u64);
                Ok((len, None))
            }
            Next::LineEnd => match rest {
                [b'\r', b'\n', ..] => {
                    self.next = Next::Size;
                    Ok((2, None))
                }
                [] | [b'\r'] => Err(Part::More),
                _ => Err(Part::Malformed),
            },
            Next::Trailers => trailers(rest).map(|len| {
                self.next = Next::Rest(0);
                (len, None)
            }),
        }
    }

    /// Takes what is there of `left` octets.
    fn copy(&mut self, left: u64, rest: &[u8]) -> Result<usize, Part> {
        if left > (REQUEST_LEN_MAX - self.content.len()) as u64 {
            return Err(Part::TooLong);
        }
        let len = rest.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        match rest.get(..len) {
            None | Some([]) => Err(Part::More),
            Some(front) => {
                self.content.extend_from_slice(front);
                Ok(len)
            }
        }
    }

    fn size(&mut self, rest: &[u8]) -> Result<(usize, Option<Part>), Part> {
        if rest.first().is_some_and(|octet| !octet.is_ascii_hexdigit()) {
            return Err(Part::Malformed);
        }
        match httparse::parse_chunk_size(rest) {
            Ok(Status::Complete((len, _)))
                if len > HTTP_CHUNK_LINE_MAX || !has_whole_ends(rest, len) =>
            {
                Err(Part::Malformed)
            }
            Ok(Status::Complete((len, 0))) => {
                self.next = Next::Trailers;
                Ok((len, None))
            }
            Ok(Status::Complete((len, size))) => {
                self.next = Next::Chunk(size);
                Ok((len, None))
            }
            Ok(Status::Partial) if rest.len() <= HTTP_CHUNK_LINE_MAX => Err(Part::More),
            Ok(Status::Partial) | Err(_) => Err(Part::Malformed),
        }
    }
}

/// Whether all lines in the first `len` octets end with CR and LF. A proxy in front may take a lone LF for
/// the end of a line, or not (RFC 9112 section 2.2): the two would see different requests.
pub(super) fn has_whole_ends(octets: &[u8], len: usize) -> bool {
    let lines = octets.get(..len).unwrap_or(octets).split_inclusive(|octet| *octet == b'\n');
    lines.into_iter().all(|line| !line.ends_with(b"\n") || line.ends_with(b"\r\n"))
}

/// The length of the fields behind the last chunk, which nobody looks at.
fn trailers(rest: &[u8]) -> Result<usize, Part> {
    let mut fields = [EMPTY_HEADER; HTTP_FIELDS_MAX];
    match httparse::parse_headers(rest, &mut fields) {
        Ok(Status::Complete((len, _))) if has_whole_ends(rest, len) => Ok(len),
        Ok(Status::Complete(_)) => Err(Part::Malformed),
        Ok(Status::Partial) if rest.len() <= HTTP_HEAD_LEN_MAX => Err(Part::More),
        Ok(Status::Partial) | Err(_) => Err(Part::Malformed),
    }
}
