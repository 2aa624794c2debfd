//! How the JSON is broken into lines: one per field, and one per element of the lists in them.
//!
//! A file of a long run is then still one that people can page through, and that differs by line.

use serde_json::ser::Formatter;
use std::io::{self, Write};

/// Levels that get lines of their own.
const LEVELS: usize = 2;

#[derive(Default)]
pub(crate) struct Lines {
    level: usize,
    /// Whether something stands on each level.
    filled: bool,
}

impl Lines {
    fn open<W: Write + ?Sized>(&mut self, to: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.level += 1;
        self.filled = false;
        to.write_all(bracket)
    }

    fn close<W: Write + ?Sized>(&mut self, to: &mut W, bracket: &[u8]) -> io::Result<()> {
        let broken = self.level <= LEVELS && self.filled;
        self.level -= 1;
        self.filled = true;
        if broken {
            self.line(to)?;
        }
        to.write_all(bracket)
    }

    fn next<W: Write + ?Sized>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        if !first {
            to.write_all(b",")?;
        }
        if self.level <= LEVELS {
            return self.line(to);
        }
        if first { Ok(()) } else { to.write_all(b" ") }
    }

    fn line<W: Write + ?Sized>(&self, to: &mut W) -> io::Result<()> {
        to.write_all(b"\n")?;
        (0..self.level).try_for_each(|_| to.write_all(b" "))
    }
}

impl Formatter for Lines {
    fn begin_array<W: Write + ?Sized>(&mut self, to: &mut W) -> io::Result<()> {
        self.open(to, b"[")
    }

    fn end_array<W: Write + ?Sized>(&mut self, to: &mut W) -> io::Result<()> {
        self.close(to, b"]")
    }

    fn begin_array_value<W: Write + ?Sized>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        self.next(to, first)
    }

    fn end_array_value<W: Write + ?Sized>(&mut self, _: &mut W) -> io::Result<()> {
        self.filled = true;
        Ok(())
    }

    fn begin_object<W: Write + ?Sized>(&mut self, to: &mut W) -> io::Result<()> {
        self.open(to, b"{")
    }

    fn end_object<W: Write + ?Sized>(&mut self, to: &mut W) -> io::Result<()> {
        self.close(to, b"}")
    }

    fn begin_object_key<W: Write + ?Sized>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        self.next(to, first)
    }

    fn begin_object_value<W: Write + ?Sized>(&mut self, to: &mut W) -> io::Result<()> {
        to.write_all(b": ")
    }

    fn end_object_value<W: Write + ?Sized>(&mut self, _: &mut W) -> io::Result<()> {
        self.filled = true;
        Ok(())
    }
}
