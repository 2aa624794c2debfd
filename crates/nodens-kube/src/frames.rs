//! Events in protobuf out of pieces of a stream.

use crate::limits::{BUFFER_KEPT, LINE_MAX};

/// Cuts a stream into frames: four octets that say how long it is, the highest first, then the
/// frame. What arrives in one piece is not copied.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    /// The beginning of a frame whose end has not arrived, its length in front.
    begun: Vec<u8>,
    /// How much of a frame that is too long is still to be thrown away.
    skipping: usize,
    skipped: u64,
}

const PREFIX: usize = 4;

impl Frames {
    /// Calls `with` for each frame that ends in `piece`.
    ///
    /// # Errors
    /// The first error of `with`; the rest of the piece is lost with it.
    pub(crate) fn feed<E>(
        &mut self,
        mut piece: &[u8],
        mut with: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        loop {
            piece = self.skip(piece);
            if !self.begun.is_empty() {
                piece = self.complete(piece, &mut with)?;
                if !self.begun.is_empty() {
                    return Ok(());
                }
                continue;
            }
            let Some((prefix, rest)) = piece.split_first_chunk::<PREFIX>() else { break };
            let len = length(*prefix);
            if len > LINE_MAX {
                self.skip_frame(len);
                piece = rest;
                continue;
            }
            let Some((frame, rest)) = rest.split_at_checked(len) else { break };
            piece = rest;
            with(frame)?;
        }
        self.begun.extend_from_slice(piece);
        Ok(())
    }

    /// What comes after the part of a frame that is thrown away.
    fn skip<'p>(&mut self, piece: &'p [u8]) -> &'p [u8] {
        let skipped = self.skipping.min(piece.len());
        self.skipping -= skipped;
        piece.get(skipped..).unwrap_or_default()
    }

    fn skip_frame(&mut self, len: usize) {
        self.skipping = len;
        self.skipped += 1;
    }

    /// Goes on with the frame that has begun; gives what comes after it.
    fn complete<'p, E>(
        &mut self,
        piece: &'p [u8],
        with: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<&'p [u8], E> {
        let piece = self.keep_until(PREFIX, piece);
        let Some(prefix) = self.begun.first_chunk::<PREFIX>() else { return Ok(piece) };
        let len = length(*prefix);
        if len > LINE_MAX {
            self.begun.clear();
            self.skip_frame(len);
            return Ok(piece);
        }
        let piece = self.keep_until(PREFIX + len, piece);
        if self.begun.len() == PREFIX + len {
            let result = with(self.begun.get(PREFIX..).unwrap_or_default());
            self.begun.clear();
            self.begun.shrink_to(BUFFER_KEPT);
            result?;
        }
        Ok(piece)
    }

    /// Keeps as much of `piece` as makes `len` octets; gives the rest.
    fn keep_until<'p>(&mut self, len: usize, piece: &'p [u8]) -> &'p [u8] {
        let wanted = len.saturating_sub(self.begun.len()).min(piece.len());
        let (kept, rest) = piece.split_at(wanted);
        self.begun.extend_from_slice(kept);
        rest
    }

    /// Whether a frame has begun and not ended.
    pub(crate) fn is_within_a_frame(&self) -> bool {
        self.skipping > 0 || !self.begun.is_empty()
    }

    /// How many frames were too long since the last call.
    pub(crate) fn take_skipped(&mut self) -> u64 {
        std::mem::take(&mut self.skipped)
    }
}

fn length(prefix: [u8; PREFIX]) -> usize {
    usize::try_from(u32::from_be_bytes(prefix)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(pieces: &[&[u8]]) -> (Vec<Vec<u8>>, bool) {
        let mut frames = Frames::default();
        let mut seen = Vec::new();
        for piece in pieces {
            let taken = frames.feed(piece, |frame| {
                seen.push(frame.to_vec());
                Ok::<_, ()>(())
            });
            taken.unwrap();
        }
        (seen, frames.is_within_a_frame())
    }

    #[test]
    fn wherever_a_stream_is_cut_its_frames_are_the_same() {
        let stream = b"\0\0\0\x03one\0\0\0\0\0\0\0\x05three\0\0\0\x04fo";
        for first in 0..stream.len() {
            for second in first..stream.len() {
                let pieces = [&stream[..first], &stream[first..second], &stream[second..]];
                let (frames, within) = cut(&pieces);
                assert_eq!(frames, [&b"one"[..], b"", b"three"], "{first} {second}");
                assert!(within);
            }
        }
        assert!(!cut(&[b"\0\0\0\x01a"]).1);
        assert!(cut(&[b"\0\0"]).1);
    }

    #[test]
    fn a_frame_that_is_too_long_is_thrown_away_and_the_next_is_read() {
        let len = u32::try_from(LINE_MAX + 1).unwrap().to_be_bytes();
        let piece = vec![b'x'; LINE_MAX / 4];
        // Its length in one piece, and in two.
        for at in [0, 2] {
            let mut frames = Frames::default();
            let nothing = |_: &[u8]| -> Result<(), ()> { panic!("no frame has ended") };
            frames.feed(&len[..at], nothing).unwrap();
            frames.feed(&len[at..], nothing).unwrap();
            for _ in 0..4 {
                frames.feed(&piece, nothing).unwrap();
                assert!(frames.begun.is_empty() && frames.is_within_a_frame());
            }
            let mut seen = Vec::new();
            let mut push = |frame: &[u8]| {
                seen.push(frame.to_vec());
                Ok::<_, ()>(())
            };
            frames.feed(b"x\0\0\0\x04next", &mut push).unwrap();
            assert_eq!(seen, [b"next"]);
            assert_eq!((frames.take_skipped(), frames.is_within_a_frame()), (1, false));
        }
    }
}
