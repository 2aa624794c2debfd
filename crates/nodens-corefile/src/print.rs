//! Printing a tree back as a Corefile.
//!
//! What is printed reads as the same tree, imports and references resolved, with one exception:
//! the value of an environment variable may be a word that no text can stand for, such as a lone
//! brace, or a space followed by a final backslash.

use std::fmt;

use crate::syntax::{Corefile, Directive, ServerBlock, Token};

impl fmt::Display for Corefile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, block) in self.blocks.iter().enumerate() {
            let gap = if index > 0 { "\n" } else { "" };
            write!(f, "{gap}{block}")?;
        }
        Ok(())
    }
}

impl fmt::Display for ServerBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for key in &self.keys {
            write!(f, "{key} ")?;
        }
        f.write_str("{\n")?;
        for directive in &self.directives {
            directive.print(f, 1)?;
        }
        f.write_str("}\n")
    }
}

impl fmt::Display for Directive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.print(f, 0)
    }
}

impl Directive {
    fn print(&self, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
        let indent = "    ".repeat(depth);
        write!(f, "{indent}{}", self.name)?;
        for arg in &self.args {
            write!(f, " {arg}")?;
        }
        let Some(body) = &self.body else { return f.write_str("\n") };
        f.write_str(" {\n")?;
        for line in body {
            line.print(f, depth + 1)?;
        }
        writeln!(f, "{indent}}}")
    }
}

/// With quotes if it was written with them or needs them.
impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bare = !self.quoted
            && !self.text.is_empty()
            && !self.text.starts_with('"')
            && !self.text.contains(|c: char| c.is_whitespace() || c == '#' || c == '\u{feff}');
        match bare {
            true => f.write_str(&self.text),
            false => write!(f, "\"{}\"", self.text.replace('"', "\\\"")),
        }
    }
}
