//! Lines out of pieces of a stream.

use crate::limits::{BUFFER_KEPT, LINE_MAX};

/// Cuts a stream into lines. What arrives in one piece is not copied.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// The beginning of a line whose end has not arrived.
    begun: Vec<u8>,
    /// Whether the line has grown beyond the limit and is thrown away.
    skipping: bool,
    skipped: u64,
}

impl Lines {
    /// Calls `with` for each line that ends in `piece`.
    ///
    /// # Errors
    /// The first error of `with`; the rest of the piece is lost with it.
    pub(crate) fn feed<E>(
        &mut self,
        mut piece: &[u8],
        mut with: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(end) = memchr::memchr(b'\n', piece) {
            let (line, rest) = piece.split_at(end);
            piece = rest.get(1..).unwrap_or_default();
            if std::mem::take(&mut self.skipping) {
                continue;
            }
            if self.begun.is_empty() {
                with(line)?;
                continue;
            }
            self.begun.extend_from_slice(line);
            let result = with(&self.begun);
            self.begun.clear();
            self.begun.shrink_to(BUFFER_KEPT);
            result?;
        }
        if !self.skipping {
            self.begun.extend_from_slice(piece);
        }
        if self.begun.len() > LINE_MAX {
            self.begun = Vec::new();
            self.skipping = true;
            self.skipped += 1;
        }
        Ok(())
    }

    /// Whether a line has begun and not ended.
    pub(crate) fn is_within_a_line(&self) -> bool {
        self.skipping || !self.begun.is_empty()
    }

    /// How many lines were too long since the last call.
    pub(crate) fn take_skipped(&mut self) -> u64 {
        std::mem::take(&mut self.skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(pieces: &[&[u8]]) -> (Vec<Vec<u8>>, bool) {
        let mut lines = Lines::default();
        let mut seen = Vec::new();
        for piece in pieces {
            let taken = lines.feed(piece, |line| {
                seen.push(line.to_vec());
                Ok::<_, ()>(())
            });
            taken.unwrap();
        }
        (seen, lines.is_within_a_line())
    }

    #[test]
    fn wherever_a_stream_is_cut_its_lines_are_the_same() {
        let text = b"one\ntwo two\n\nthree\nfo";
        for first in 0..text.len() {
            for second in first..text.len() {
                let pieces = [&text[..first], &text[first..second], &text[second..]];
                let (lines, within) = cut(&pieces);
                assert_eq!(lines, [&b"one"[..], b"two two", b"", b"three"]);
                assert!(within);
            }
        }
        assert!(!cut(&[b"a\n"]).1);
    }

    #[test]
    fn a_line_without_end_is_thrown_away_and_the_next_is_read() {
        let mut lines = Lines::default();
        let piece = vec![b'x'; LINE_MAX / 4];
        let nothing = |_: &[u8]| -> Result<(), ()> { panic!("no line has ended") };
        for _ in 0..6 {
            lines.feed(&piece, nothing).unwrap();
            assert!(lines.begun.len() <= LINE_MAX);
        }
        assert_eq!(lines.take_skipped(), 1);
        let mut seen = 0;
        let count = |line: &[u8]| {
            seen += 1;
            assert_eq!(line, b"next");
            Ok::<_, ()>(())
        };
        lines.feed(b"xx\nnext\n", count).unwrap();
        assert_eq!((seen, lines.is_within_a_line()), (1, false));
    }
}
