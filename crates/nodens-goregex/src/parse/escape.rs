//! What a backslash begins.

use super::Parser;
use crate::error::{Error, ErrorKind};
use crate::node::Node;
use crate::sets;
use regex_syntax::hir::{ClassUnicode, Look};

const ESCAPES: &str = "a known escape, or a backslash before punctuation only";
const HEXADECIMAL: &str = "two hexadecimal digits, or a number up to 10FFFF in braces";

impl Parser<'_> {
    /// Outside of a class.
    pub(super) fn escaped(&mut self) -> Result<(), Error> {
        let look = match self.rest().as_bytes().get(1) {
            Some(b'A') => Look::Start,
            Some(b'z') => Look::End,
            Some(b'b') => Look::WordAscii,
            Some(b'B') => Look::WordAsciiNegate,
            Some(b'Q') => {
                self.at += 2;
                return self.quoted();
            }
            _ => return self.class_or_character(),
        };
        self.at += 2;
        self.push(Node::look(look))
    }

    fn class_or_character(&mut self) -> Result<(), Error> {
        match self.class_escape()? {
            Some(set) => self.push(Node::class(set)),
            None => {
                let code = self.escape()?;
                self.literal(code)
            }
        }
    }

    /// Behind `\Q`: plain characters to `\E` or to the end.
    fn quoted(&mut self) -> Result<(), Error> {
        while !self.eat("\\E") {
            let Some(c) = self.bump() else { break };
            self.literal(u32::from(c))?;
        }
        Ok(())
    }

    /// `\d` and its like, `\pL` and `\p{Greek}`, if one stands here.
    pub(super) fn class_escape(&mut self) -> Result<Option<ClassUnicode>, Error> {
        let begin = self.at;
        let mut chars = self.rest().chars();
        let (Some('\\'), Some(letter)) = (chars.next(), chars.next()) else { return Ok(None) };
        if matches!(letter, 'p' | 'P') {
            self.at += 2;
            return self.unicode_class(begin, letter == 'P').map(Some);
        }
        let Some(mut set) = sets::perl(letter.to_ascii_lowercase()) else { return Ok(None) };
        self.at += 2;
        self.fold(&mut set);
        if letter.is_ascii_uppercase() {
            set.negate();
        }
        Ok(Some(set))
    }

    /// Behind `\p` or `\P`.
    fn unicode_class(&mut self, begin: usize, mut negated: bool) -> Result<ClassUnicode, Error> {
        const EXPECTED: &str = "a category such as L or Lu, or a script of one word such as Greek";
        let rest = self.rest();
        let name = if let Some(braced) = rest.strip_prefix('{') {
            let Some((name, _)) = braced.split_once('}') else {
                return Err(self.error_to_end(ErrorKind::ClassRange, begin, EXPECTED));
            };
            self.at += name.len() + 2;
            name
        } else {
            self.bump();
            rest.strip_suffix(self.rest()).unwrap_or_default()
        };
        let plain = name.strip_prefix('^');
        negated ^= plain.is_some();
        let Some(mut set) = sets::unicode(plain.unwrap_or(name)) else {
            return Err(self.error(ErrorKind::ClassRange, begin, EXPECTED));
        };
        self.fold(&mut set);
        if negated {
            set.negate();
        }
        Ok(set)
    }

    /// A backslash that stands for one character, inside and outside of classes.
    pub(super) fn escape(&mut self) -> Result<u32, Error> {
        let begin = self.at;
        self.at += 1;
        let Some(c) = self.bump() else {
            let end = self.text.len();
            let expected = "a character behind the backslash";
            return Err(self.error(ErrorKind::TrailingBackslash, end, expected));
        };
        let octal = |c: Option<char>| c.and_then(|c| c.to_digit(8));
        match c {
            'a' => Ok(0x07),
            'f' => Ok(0x0c),
            'n' => Ok(0x0a),
            'r' => Ok(0x0d),
            't' => Ok(0x09),
            'v' => Ok(0x0b),
            'x' => self.hexadecimal(begin),
            // A single digit would be a reference to a group, which a linear search cannot do.
            '0'..='7' if c == '0' || octal(self.peek()).is_some() => {
                let mut code = octal(Some(c)).unwrap_or_default();
                for _ in 0..2 {
                    let Some(digit) = octal(self.peek()) else { break };
                    self.at += 1;
                    code = code * 8 + digit;
                }
                Ok(code)
            }
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => Ok(u32::from(c)),
            _ => Err(self.error(ErrorKind::Escape, begin, ESCAPES)),
        }
    }

    /// Behind `\x`.
    fn hexadecimal(&mut self, begin: usize) -> Result<u32, Error> {
        let digit = |c: Option<char>| c.and_then(|c| c.to_digit(16));
        let wrong = |parser: &Self| parser.error(ErrorKind::Escape, begin, HEXADECIMAL);
        if !self.eat("{") {
            let (high, low) = (digit(self.bump()), digit(self.bump()));
            return high.zip(low).map(|(high, low)| high * 16 + low).ok_or_else(|| wrong(self));
        }
        let mut code = None;
        loop {
            let c = self.bump();
            if let (Some('}'), Some(code)) = (c, code) {
                return Ok(code);
            }
            let digit = digit(c).ok_or_else(|| wrong(self))?;
            let larger = code.unwrap_or(0) * 16 + digit;
            if larger > u32::from(char::MAX) {
                return Err(wrong(self));
            }
            code = Some(larger);
        }
    }
}
