//! Bracket expressions. `[`, `&&`, `--`, `~~` and blanks have no meaning inside them.

use super::Parser;
use crate::error::{Error, ErrorKind};
use crate::sets;
use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};

impl Parser<'_> {
    /// From `[` to its `]`.
    pub(super) fn bracket_class(&mut self) -> Result<ClassUnicode, Error> {
        let begin = self.at;
        self.at += 1;
        let negated = self.eat("^");
        let mut ranges = Vec::new();
        let mut named = ClassUnicode::empty();
        // A `]` in front is a plain character.
        let mut first = true;
        while first || !self.eat("]") {
            first = false;
            if let Some(set) = self.posix_class()? {
                named.union(&set);
            } else if let Some(set) = self.class_escape()? {
                named.union(&set);
            } else {
                ranges.extend(self.class_range(begin)?);
            }
        }
        let mut set = ClassUnicode::new(ranges);
        self.fold(&mut set);
        set.union(&named);
        if negated {
            set.negate();
        }
        Ok(set)
    }

    /// `[:alpha:]` or `[:^alpha:]`, if one stands here. Anything between the colons is taken for a name.
    fn posix_class(&mut self) -> Result<Option<ClassUnicode>, Error> {
        let begin = self.at;
        let found = self.rest().strip_prefix("[:").and_then(|rest| rest.split_once(":]"));
        let Some((name, _)) = found else { return Ok(None) };
        self.at += name.len() + 4;
        let plain = name.strip_prefix('^');
        let Some(mut set) = sets::posix(plain.unwrap_or(name)) else {
            let expected = "a class such as [:alpha:], [:digit:] or [:word:]";
            return Err(self.error(ErrorKind::ClassRange, begin, expected));
        };
        self.fold(&mut set);
        if plain.is_some() {
            set.negate();
        }
        Ok(Some(set))
    }

    /// A character or a range; `None` if it holds nothing but surrogates, which no text has.
    fn class_range(&mut self, class: usize) -> Result<Option<ClassUnicodeRange>, Error> {
        let begin = self.at;
        let low = self.class_character(class)?;
        let mut high = low;
        // `[a-]` is `a` or `-`.
        let mut ahead = self.rest().chars();
        if ahead.next() == Some('-') && ahead.next().is_some_and(|c| c != ']') {
            self.at += 1;
            high = self.class_character(class)?;
            if high < low {
                let expected = "the lower character first";
                return Err(self.error(ErrorKind::ClassRange, begin, expected));
            }
        }
        // Towards the middle, past the surrogates.
        let low = char::from_u32(low).unwrap_or('\u{e000}');
        let high = char::from_u32(high).unwrap_or('\u{d7ff}');
        Ok((low <= high).then(|| ClassUnicodeRange::new(low, high)))
    }

    fn class_character(&mut self, class: usize) -> Result<u32, Error> {
        match self.peek() {
            None => {
                let expected = "a `]` that ends the class";
                Err(self.error(ErrorKind::MissingBracket, class, expected))
            }
            Some('\\') => self.escape(),
            Some(c) => {
                self.at += c.len_utf8();
                Ok(u32::from(c))
            }
        }
    }
}
