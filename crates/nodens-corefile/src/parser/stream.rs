//! The words of a Corefile with imports spliced in.

use std::path::PathBuf;
use std::sync::Arc;

use crate::error::{Error, ErrorKind};
use crate::lexer::Lexeme;
use crate::limits;
use crate::syntax::{Import, Position, Token};

/// A word as the parser sees it.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) token: Token,
    /// First on its line. What is imported starts a line, and so does what follows an import.
    pub(super) starts_line: bool,
    /// The import that brought it.
    pub(super) imported: Option<Arc<Import>>,
}

/// Where a run of words comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    File(PathBuf),
    Snippet(String),
}

struct Frame {
    words: Arc<[Lexeme]>,
    next: usize,
    origin: Origin,
    imported: Option<Arc<Import>>,
}

/// A stack of half-read files and snippets; words come from the top one. A frame that has no more
/// words is removed only when the next word is wanted, so that [`Stream::is_reading`] also sees a
/// file whose last line imports it again.
pub(super) struct Stream {
    frames: Vec<Frame>,
    /// The next word begins a file or snippet, or follows one.
    at_seam: bool,
    /// Where the word taken last is.
    last: Position,
    taken: usize,
}

impl Stream {
    pub(super) fn new(words: Arc<[Lexeme]>, file: PathBuf) -> Self {
        let last = Position { file: file.to_string_lossy().into(), line: 1, column: 1 };
        let frame = Frame { words, next: 0, origin: Origin::File(file), imported: None };
        Self { frames: vec![frame], at_seam: true, last, taken: 0 }
    }

    /// The next word, not taken.
    ///
    /// # Errors
    /// [`ErrorKind::TooLong`].
    pub(super) fn peek(&mut self) -> Result<Option<Item>, Error> {
        while let Some(frame) = self.frames.last() {
            if let Some(Lexeme { token, starts_line }) = frame.words.get(frame.next) {
                if self.taken >= limits::TOKENS {
                    return Err(Error::at(token, ErrorKind::TooLong));
                }
                return Ok(Some(Item {
                    token: token.clone(),
                    starts_line: *starts_line || self.at_seam,
                    imported: frame.imported.clone(),
                }));
            }
            self.frames.pop();
            self.at_seam = true;
        }
        Ok(None)
    }

    /// The next word, taken.
    ///
    /// # Errors
    /// [`ErrorKind::TooLong`].
    pub(super) fn next(&mut self) -> Result<Option<Item>, Error> {
        let item = self.peek()?;
        if let Some(item) = &item {
            self.last = item.token.position.clone();
            self.at_seam = false;
            self.taken += 1;
            if let Some(frame) = self.frames.last_mut() {
                frame.next += 1;
            }
        }
        Ok(item)
    }

    /// The next word, taken, if it is on the line of the last one and in the same file or snippet.
    ///
    /// # Errors
    /// [`ErrorKind::TooLong`].
    pub(super) fn next_on_line(&mut self) -> Result<Option<Token>, Error> {
        match self.frames.last() {
            Some(frame) if frame.words.get(frame.next).is_some_and(|word| !word.starts_line) => {
                Ok(self.next()?.map(|item| item.token))
            }
            _ => Ok(None),
        }
    }

    /// Puts the words of an import before everything that is left.
    pub(super) fn push(&mut self, statement: &Position, runs: Vec<(Arc<[Lexeme]>, Origin)>) {
        let outer = self.frames.last().and_then(|frame| frame.imported.clone());
        let import = Arc::new(Import { position: statement.clone(), outer });
        for (words, origin) in runs.into_iter().rev() {
            let imported = Some(Arc::clone(&import));
            self.frames.push(Frame { words, next: 0, origin, imported });
        }
        self.at_seam = true;
    }

    /// Whether words of this origin are being read, so that importing it again would never end.
    /// A file of a glob whose turn has not come does not count.
    pub(super) fn is_reading(&self, origin: &Origin) -> bool {
        self.frames.iter().any(|frame| frame.next > 0 && frame.origin == *origin)
    }

    /// Where the next word is, or the last one if there is none left.
    pub(super) fn position(&mut self) -> Position {
        match self.peek() {
            Ok(Some(item)) => item.token.position,
            _ => self.last.clone(),
        }
    }
}
