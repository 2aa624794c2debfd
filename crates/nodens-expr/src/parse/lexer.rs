//! Expression text to tokens.

use crate::error::CompileErrorKind;

/// An error with its offset.
pub(super) type Failure = (usize, CompileErrorKind);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Identifier,
    Number,
    /// A string with its quotes.
    Str,
    /// A string between back quotes.
    RawStr,
    /// An operator, a sign or a word that acts as one.
    Operator,
    /// Any of `()[]{}`.
    Bracket,
    End,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Token<'t> {
    pub(super) kind: Kind,
    pub(super) text: &'t str,
    pub(super) offset: usize,
}

impl Token<'_> {
    pub(super) fn is(&self, kind: Kind, text: &str) -> bool {
        self.kind == kind && self.text == text
    }

    pub(super) fn is_operator(&self, text: &str) -> bool {
        self.is(Kind::Operator, text)
    }

    pub(super) fn is_bracket(&self, text: &str) -> bool {
        self.is(Kind::Bracket, text)
    }
}

/// The words that are operators or begin a construct.
pub(super) const WORDS: [&str; 11] = [
    "not",
    "in",
    "or",
    "and",
    "matches",
    "contains",
    "startsWith",
    "endsWith",
    "let",
    "if",
    "else",
];

/// Splits an expression into tokens; the last one is [`Kind::End`].
pub(super) fn tokens(text: &str) -> Result<Vec<Token<'_>>, Failure> {
    let mut lexer = Lexer { text, at: 0 };
    let mut tokens = Vec::new();
    loop {
        lexer.skip()?;
        let offset = lexer.at;
        let kind = lexer.token()?;
        let text = text.get(offset..lexer.at).unwrap_or_default();
        tokens.push(Token { kind, text, offset });
        if kind == Kind::End {
            return Ok(tokens);
        }
    }
}

pub(super) fn is_word(character: char) -> bool {
    matches!(character, '_' | '$') || character.is_alphanumeric()
}

struct Lexer<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Lexer<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn accept(&mut self, wanted: impl Fn(char) -> bool) -> bool {
        let accepted = self.peek().is_some_and(wanted);
        if accepted {
            self.next();
        }
        accepted
    }

    fn accept_run(&mut self, wanted: impl Fn(char) -> bool) {
        while self.accept(&wanted) {}
    }

    /// Skips space and comments.
    fn skip(&mut self) -> Result<(), Failure> {
        loop {
            self.accept_run(char::is_whitespace);
            let start = self.at;
            if self.rest().starts_with("//") {
                self.accept_run(|next| next != '\n');
            } else if self.rest().starts_with("/*") {
                let Some(length) = self.rest()[2..].find("*/") else {
                    return Err((start, unclosed("comment", "*/")));
                };
                self.at += 2 + length + 2;
            } else {
                return Ok(());
            }
        }
    }

    fn token(&mut self) -> Result<Kind, Failure> {
        let start = self.at;
        let Some(first) = self.next() else {
            return Ok(Kind::End);
        };
        match first {
            '\'' | '"' => return self.string(start, first),
            '`' => return self.raw_string(start),
            'b' | 'B' if self.peek().is_some_and(|next| matches!(next, '\'' | '"')) => {
                return Err((start, CompileErrorKind::Unsupported("a byte string".to_owned())));
            }
            '0'..='9' => return self.number(start),
            '.' if self.peek().is_some_and(|next| next.is_ascii_digit()) => {
                return self.number(start);
            }
            '.' => {
                self.accept(|next| next == '.');
            }
            '?' => {
                self.accept(|next| matches!(next, '.' | '?'));
            }
            '|' | ':' | '#' => {
                self.accept(|next| next == first);
            }
            '&' | '!' | '=' | '*' | '<' | '>' => {
                self.accept(|next| matches!(next, '&' | '=' | '*'));
            }
            '(' | ')' | '[' | ']' | '{' | '}' => return Ok(Kind::Bracket),
            '/' | ',' | ';' | '%' | '+' | '-' | '^' => {}
            first if is_word(first) => {
                self.accept_run(is_word);
                let word = self.text.get(start..self.at).unwrap_or_default();
                return Ok(if WORDS.contains(&word) { Kind::Operator } else { Kind::Identifier });
            }
            other => return Err((start, CompileErrorKind::Character(other))),
        }
        Ok(Kind::Operator)
    }

    fn string(&mut self, start: usize, quote: char) -> Result<Kind, Failure> {
        let expected = if quote == '"' { "\" on the same line" } else { "' on the same line" };
        loop {
            match self.next() {
                Some('\\') if self.accept(|next| next != '\n') => {}
                None | Some('\\' | '\n') => return Err((start, unclosed("string", expected))),
                Some(next) if next == quote => return Ok(Kind::Str),
                Some(_) => {}
            }
        }
    }

    /// Two back quotes stand for one.
    fn raw_string(&mut self, start: usize) -> Result<Kind, Failure> {
        loop {
            match self.next() {
                Some('`') if !self.accept(|next| next == '`') => return Ok(Kind::RawStr),
                Some(_) => {}
                None => return Err((start, unclosed("raw string", "`"))),
            }
        }
    }

    /// Takes what looks like a number. Whether it is one is decided when its value is taken.
    fn number(&mut self, start: usize) -> Result<Kind, Failure> {
        self.at = start;
        let mut radix = 10;
        if self.accept(|next| next == '0') {
            if self.accept(|next| matches!(next, 'x' | 'X')) {
                radix = 16;
            } else if self.accept(|next| matches!(next, 'o' | 'O')) {
                radix = 8;
            } else if self.accept(|next| matches!(next, 'b' | 'B')) {
                radix = 2;
            }
        }
        let digit = |next: char| next == '_' || next.is_digit(radix);
        self.accept_run(digit);
        if self.rest().starts_with("..") {
            return Ok(Kind::Number);
        }
        if self.accept(|next| next == '.') {
            self.accept_run(digit);
        }
        if self.accept(|next| matches!(next, 'e' | 'E')) {
            self.accept(|next| matches!(next, '+' | '-'));
            self.accept_run(digit);
        }
        if self.accept(is_word) {
            let text = self.text.get(start..self.at).unwrap_or_default().to_owned();
            return Err((start, CompileErrorKind::Number(text)));
        }
        Ok(Kind::Number)
    }
}

fn unclosed(what: &'static str, expected: &'static str) -> CompileErrorKind {
    CompileErrorKind::Unclosed { what, expected }
}
