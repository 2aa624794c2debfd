//! Frame Streams: START, frames of data and STOP; at a socket READY and ACCEPT before, FINISH behind.
//!
//! An input may have a time limit (`ErrorKind::TimedOut` or `WouldBlock`). Between two frames a writer may be
//! silent for as long as it likes; within one, or before START, it may not.

use super::{
    CONTENT_TYPE, CONTROL_LEN_MAX, FRAME_LEN_MAX, FrameError, FrameFault, Tapped, message,
};
use std::io::{ErrorKind, Read, Write};

const ACCEPT: u32 = 1;
pub(super) const START: u32 = 2;
pub(super) const STOP: u32 = 3;
pub(super) const READY: u32 = 4;
const FINISH: u32 = 5;
/// The field of a control frame that has a content type.
const FIELD_CONTENT_TYPE: u32 = 1;
/// Octets of a length.
const WORD_LEN: usize = 4;

/// The messages of a stream, in order.
///
/// An item is a message or a broken frame; behind one of which [`FrameError::is_end`] is true, nothing
/// follows.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    /// Octets read.
    at: u64,
    /// Frames begun, and where the last one did.
    frame: u64,
    begun_at: u64,
    buffer: Vec<u8>,
    /// START was read.
    started: bool,
    /// A writer waits for FINISH.
    is_answered: bool,
    ended: bool,
}

/// A frame that was read into the buffer: of data, or of control with its type.
enum Frame {
    Data,
    Control(u32),
    /// The stream has ended before it.
    None,
}

impl<R: Read> Reader<R> {
    /// Reads the START of a file, or of a writer that expects no answer.
    pub fn new(input: R) -> Result<Self, FrameError> {
        let mut reader = Self::begin(input);
        reader.start(&[START])?;
        Ok(reader)
    }

    fn begin(input: R) -> Self {
        let (started, is_answered, ended) = (false, false, false);
        Self {
            input,
            at: 0,
            frame: 0,
            begun_at: 0,
            buffer: Vec::new(),
            started,
            is_answered,
            ended,
        }
    }

    /// The octets of the last frame, whether or not they are a message of dnstap.
    pub fn content(&self) -> &[u8] {
        &self.buffer
    }

    /// What was read from.
    pub fn into_inner(self) -> R {
        self.input
    }

    /// Frames read so far, control frames among them.
    pub fn frames(&self) -> u64 {
        self.frame
    }

    /// The octet of the stream where the last of them starts.
    pub fn begun_at(&self) -> u64 {
        self.begun_at
    }

    /// Reads the control frame that has to come first, one of `kinds`, with its content type.
    fn start(&mut self, kinds: &[u32]) -> Result<u32, FrameError> {
        let from = self.at;
        let found = match self.frame()? {
            Frame::Control(found) => found,
            Frame::Data | Frame::None => return Err(self.error(from, FrameFault::NoStream)),
        };
        if !kinds.contains(&found) {
            let expected =
                if kinds.contains(&READY) { "4 (READY) or 2 (START)" } else { "2 (START)" };
            return Err(self.error(from, FrameFault::Control { found, expected }));
        }
        // READY may offer several, START has one or none.
        let fault = match content_types(self.buffer.get(WORD_LEN..).unwrap_or_default()) {
            None => FrameFault::ControlField,
            Some(types) if types.is_empty() || types.contains(&CONTENT_TYPE) => {
                self.started = found == START;
                return Ok(found);
            }
            Some(types) => {
                let first = types.first().copied().unwrap_or_default();
                FrameFault::ContentType(String::from_utf8_lossy(first).into_owned())
            }
        };
        Err(self.error(from, fault))
    }

    /// Reads a frame into the buffer.
    fn frame(&mut self) -> Result<Frame, FrameError> {
        let from = self.at;
        self.frame += 1;
        self.begun_at = from;
        let Some(first) = self.word(true)? else {
            self.frame -= 1;
            return Ok(Frame::None);
        };
        if first > 0 {
            let len = usize::try_from(first).ok().filter(|len| *len <= FRAME_LEN_MAX);
            let len = len.ok_or_else(|| self.error(from, FrameFault::TooLong(first)))?;
            self.fill(len, false)?;
            return Ok(Frame::Data);
        }
        let control = self.word(false)?.unwrap_or(0);
        let fits = |len: &usize| (WORD_LEN..=CONTROL_LEN_MAX).contains(len);
        let len = usize::try_from(control).ok().filter(fits);
        let len = len.ok_or_else(|| self.error(from, FrameFault::ControlLength(control)))?;
        self.fill(len, false)?;
        let kind = self.buffer.first_chunk().map_or(0, |kind| u32::from_be_bytes(*kind));
        Ok(Frame::Control(kind))
    }

    /// A number of four octets; `None` if the stream ends before it and `may_end`.
    fn word(&mut self, may_end: bool) -> Result<Option<u32>, FrameError> {
        if !self.fill(WORD_LEN, may_end)? {
            return Ok(None);
        }
        Ok(self.buffer.first_chunk().map(|word| u32::from_be_bytes(*word)))
    }

    /// Reads `len` octets into the buffer; false if there is none and the stream `may_end` here.
    fn fill(&mut self, len: usize, may_end: bool) -> Result<bool, FrameError> {
        let from = self.at;
        self.buffer.clear();
        self.buffer.resize(len, 0);
        let mut filled = 0;
        while let Some(rest) = self.buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.input.read(rest) {
                Ok(0) if filled == 0 && may_end => return Ok(false),
                Ok(0) => {
                    return Err(self.error(from, FrameFault::Cut { expected: len, left: filled }));
                }
                Ok(read) => {
                    filled += read;
                    self.at += read as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error)
                    if matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock) =>
                {
                    if !(self.started && may_end && filled == 0) {
                        let fault = FrameFault::Silent { expected: len, left: filled };
                        return Err(self.error(from, fault));
                    }
                }
                Err(error) => return Err(self.error(from, FrameFault::Io(error.to_string()))),
            }
        }
        Ok(true)
    }

    fn error(&mut self, at: u64, fault: FrameFault) -> FrameError {
        self.ended = true;
        FrameError { frame: self.frame.max(1), at, fault }
    }

    /// The next message.
    fn read(&mut self) -> Result<Option<Tapped>, FrameError> {
        let from = self.at;
        match self.frame()? {
            Frame::Data => {
                let start = from + WORD_LEN as u64;
                message::read(&self.buffer).map(Some).map_err(|(at, fault)| FrameError {
                    frame: self.frame,
                    at: start + at as u64,
                    fault,
                })
            }
            Frame::Control(STOP) => {
                self.ended = true;
                Ok(None)
            }
            Frame::Control(found) => {
                let expected = "a frame of data or 3 (STOP)";
                Err(self.error(from, FrameFault::Control { found, expected }))
            }
            Frame::None => Err(self.error(from, FrameFault::NoStop)),
        }
    }

    /// Whether a stream that has ended has nothing behind its STOP, as a file should.
    pub fn check_end(&mut self) -> Result<(), FrameError> {
        let from = self.at;
        match self.fill(1, true)? {
            true => Err(self.error(from, FrameFault::BehindStop)),
            false => Ok(()),
        }
    }
}

impl<R: Read + Write> Reader<R> {
    /// Agrees with a writer at a socket that dnstap follows: READY, ACCEPT, START; or START alone of one that
    /// expects no answers.
    pub fn accept(input: R) -> Result<Self, FrameError> {
        let mut reader = Self::begin(input);
        if reader.start(&[READY, START])? == READY {
            reader.is_answered = true;
            reader.send(ACCEPT, true)?;
            reader.start(&[START])?;
        }
        Ok(reader)
    }

    /// Tells a writer that has sent STOP that all of it was read, if it waits for that.
    pub fn finish(&mut self) -> Result<(), FrameError> {
        if self.is_answered { self.send(FINISH, false) } else { Ok(()) }
    }

    fn send(&mut self, kind: u32, with_type: bool) -> Result<(), FrameError> {
        let sent =
            self.input.write_all(&control(kind, with_type)).and_then(|()| self.input.flush());
        sent.map_err(|error| self.error(self.at, FrameFault::Io(error.to_string())))
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Tapped, FrameError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended { None } else { self.read().transpose() }
    }
}

/// A control frame.
pub(super) fn control(kind: u32, with_type: bool) -> Vec<u8> {
    let mut frame = kind.to_be_bytes().to_vec();
    if with_type {
        frame.extend(FIELD_CONTENT_TYPE.to_be_bytes());
        frame.extend((CONTENT_TYPE.len() as u32).to_be_bytes());
        frame.extend_from_slice(CONTENT_TYPE);
    }
    let len = (frame.len() as u32).to_be_bytes();
    [&[0; WORD_LEN][..], &len, &frame].concat()
}

/// The content types among the fields of a control frame; `None` if these are broken.
fn content_types(mut rest: &[u8]) -> Option<Vec<&[u8]>> {
    let mut types = Vec::new();
    while !rest.is_empty() {
        let (kind, behind) = rest.split_first_chunk()?;
        let (len, behind) = behind.split_first_chunk()?;
        let len = usize::try_from(u32::from_be_bytes(*len)).ok()?;
        let (content, behind) = behind.split_at_checked(len)?;
        if u32::from_be_bytes(*kind) != FIELD_CONTENT_TYPE {
            return None;
        }
        types.push(content);
        rest = behind;
    }
    Some(types)
}
