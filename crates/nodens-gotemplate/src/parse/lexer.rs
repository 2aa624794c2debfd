//! Template text to tokens.

use crate::error::ParseErrorKind;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Text outside of actions.
    Text,
    /// `{{`
    Left,
    /// `}}`
    Right,
    /// `=`
    Assign,
    /// `:=`
    Declare,
    Pipe,
    Comma,
    LeftParen,
    RightParen,
    Str,
    RawStr,
    Character,
    Number,
    /// `.name`
    Field,
    /// `$name` or `$`
    Variable,
    Dot,
    /// Name of a function.
    Identifier,
    Bool,
    Nil,
    Keyword(Keyword),
    /// End of the text.
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keyword {
    Block,
    Break,
    Continue,
    Define,
    Else,
    End,
    If,
    Range,
    Template,
    With,
}

/// A token; in actions with the knowledge whether space stands before it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Token<'t> {
    pub(crate) kind: Kind,
    pub(crate) text: &'t str,
    pub(crate) offset: usize,
    pub(crate) spaced: bool,
}

const LEFT: &str = "{{";
const RIGHT: &str = "}}";
/// The marker at a right delimiter, behind a space.
const RIGHT_TRIMMED: &str = "-}}";
const COMMENT: &str = "/*";
const COMMENT_END: &str = "*/";
const SPACES: [char; 4] = [' ', '\t', '\r', '\n'];

/// Splits a template's text into tokens; the last one is [`Kind::End`]. An error comes with its offset.
pub(crate) fn tokens(text: &str) -> Result<Vec<Token<'_>>, (usize, ParseErrorKind)> {
    let mut lexer = Lexer { text, at: 0, tokens: Vec::new() };
    while lexer.text_until_action() {
        lexer.action()?;
    }
    lexer.push(Kind::End, text.len(), false);
    Ok(lexer.tokens)
}

struct Lexer<'t> {
    text: &'t str,
    at: usize,
    tokens: Vec<Token<'t>>,
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

    /// Adds the token from `start` to here.
    fn push(&mut self, kind: Kind, start: usize, spaced: bool) {
        let text = self.text.get(start..self.at).unwrap_or_default();
        self.tokens.push(Token { kind, text, offset: start, spaced });
    }

    /// Takes the text before the next action and stops behind the action's delimiter and trim marker.
    fn text_until_action(&mut self) -> bool {
        let start = self.at;
        let rest = self.rest();
        let Some(found) = rest.find(LEFT) else {
            self.at = self.text.len();
            if self.at > start {
                self.push(Kind::Text, start, false);
            }
            return false;
        };
        let after = &rest[found + LEFT.len()..];
        let trimmed = after.starts_with('-') && after[1..].starts_with(SPACES);
        let text = &rest[..found];
        let text = if trimmed { text.trim_end_matches(SPACES) } else { text };
        if !text.is_empty() {
            self.at = start + text.len();
            self.push(Kind::Text, start, false);
        }
        self.at = start + found + LEFT.len();
        self.push(Kind::Left, start + found, false);
        if trimmed {
            self.at += 2;
        }
        true
    }

    /// Takes the rest of an action or comment.
    fn action(&mut self) -> Result<(), (usize, ParseErrorKind)> {
        if self.rest().starts_with(COMMENT) {
            return self.comment();
        }
        let mut parentheses: Vec<usize> = Vec::new();
        loop {
            let before = self.at;
            self.accept_run(|next| SPACES.contains(&next));
            let spaced = self.at > before;
            if self.right_delimiter(spaced) {
                return match parentheses.pop() {
                    Some(open) => Err((open, unclosed("parenthesis", ")"))),
                    None => Ok(()),
                };
            }
            let start = self.at;
            let kind = self.token().map_err(|kind| (start, kind))?;
            match kind {
                Kind::LeftParen => parentheses.push(start),
                Kind::RightParen if parentheses.pop().is_none() => {
                    return Err((start, ParseErrorKind::Character(')')));
                }
                _ => {}
            }
            self.push(kind, start, spaced);
        }
    }

    fn right_delimiter(&mut self, spaced: bool) -> bool {
        let start = self.at;
        let trimmed = spaced && self.rest().starts_with(RIGHT_TRIMMED);
        if !trimmed && !self.rest().starts_with(RIGHT) {
            return false;
        }
        self.at += if trimmed { RIGHT_TRIMMED.len() } else { RIGHT.len() };
        self.push(Kind::Right, start, spaced);
        if trimmed {
            self.accept_run(|next| SPACES.contains(&next));
        }
        true
    }

    /// A comment is an action of its own and leaves no token.
    fn comment(&mut self) -> Result<(), (usize, ParseErrorKind)> {
        let start = self.at;
        self.tokens.pop();
        let end = self.rest()[COMMENT.len()..].find(COMMENT_END);
        let Some(end) = end else {
            return Err((start, unclosed("comment", COMMENT_END)));
        };
        self.at += COMMENT.len() + end + COMMENT_END.len();
        let rest = self.rest();
        if rest.starts_with(SPACES) && rest[1..].starts_with(RIGHT_TRIMMED) {
            self.at += 1 + RIGHT_TRIMMED.len();
            self.accept_run(|next| SPACES.contains(&next));
        } else if rest.starts_with(RIGHT) {
            self.at += RIGHT.len();
        } else {
            return Err((
                self.at,
                unclosed("action with a comment", "}} directly behind the comment"),
            ));
        }
        Ok(())
    }

    fn token(&mut self) -> Result<Kind, ParseErrorKind> {
        let start = self.at;
        let Some(first) = self.next() else {
            return Err(unclosed("action", RIGHT));
        };
        match first {
            '=' => Ok(Kind::Assign),
            ':' if self.accept(|next| next == '=') => Ok(Kind::Declare),
            '|' => Ok(Kind::Pipe),
            ',' => Ok(Kind::Comma),
            '(' => Ok(Kind::LeftParen),
            ')' => Ok(Kind::RightParen),
            '"' => self.quoted('"', Kind::Str, "string"),
            '\'' => self.quoted('\'', Kind::Character, "character"),
            '`' => self.raw(),
            '$' => self.name(Kind::Variable, Kind::Variable),
            '.' if !self.peek().is_some_and(|next| next.is_ascii_digit()) => {
                self.name(Kind::Field, Kind::Dot)
            }
            '.' | '+' | '-' | '0'..='9' => {
                self.at = start;
                self.number()
            }
            first if is_word(first) => {
                self.name(Kind::Identifier, Kind::Identifier)?;
                Ok(word(&self.text[start..self.at]))
            }
            other => Err(ParseErrorKind::Character(other)),
        }
    }

    /// The rest of a name whose sign was taken; `alone` where nothing but the sign is there.
    fn name(&mut self, kind: Kind, alone: Kind) -> Result<Kind, ParseErrorKind> {
        let start = self.at;
        self.accept_run(is_word);
        let next = self.peek();
        let ends = match next {
            None => true,
            Some(next) => {
                SPACES.contains(&next)
                    || matches!(next, '.' | ',' | '|' | ':' | ')' | '(')
                    || self.rest().starts_with(RIGHT)
            }
        };
        match next {
            Some(next) if !ends => Err(ParseErrorKind::Character(next)),
            _ if self.at == start => Ok(alone),
            _ => Ok(kind),
        }
    }

    fn quoted(
        &mut self,
        quote: char,
        kind: Kind,
        what: &'static str,
    ) -> Result<Kind, ParseErrorKind> {
        let expected = if quote == '"' { "\" on the same line" } else { "' on the same line" };
        loop {
            match self.next() {
                Some('\\') if self.accept(|next| next != '\n') => {}
                None | Some('\\' | '\n') => return Err(unclosed(what, expected)),
                Some(next) if next == quote => return Ok(kind),
                Some(_) => {}
            }
        }
    }

    fn raw(&mut self) -> Result<Kind, ParseErrorKind> {
        self.accept_run(|next| next != '`');
        if self.next().is_none() {
            return Err(unclosed("raw string", "`"));
        }
        Ok(Kind::RawStr)
    }

    /// Takes what looks like a number. Whether it is one is decided when its value is taken.
    fn number(&mut self) -> Result<Kind, ParseErrorKind> {
        let start = self.at;
        self.accept(|next| matches!(next, '+' | '-'));
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
        if self.accept(|next| next == '.') {
            self.accept_run(digit);
        }
        let exponent = match radix {
            10 => self.accept(|next| matches!(next, 'e' | 'E')),
            16 => self.accept(|next| matches!(next, 'p' | 'P')),
            _ => false,
        };
        if exponent {
            self.accept(|next| matches!(next, '+' | '-'));
            self.accept_run(|next| next == '_' || next.is_ascii_digit());
        }
        let follows = self.peek();
        if follows.is_some_and(|next| is_word(next) || matches!(next, '+' | '-')) {
            self.next();
            return Err(ParseErrorKind::Number(self.text[start..self.at].to_owned()));
        }
        Ok(Kind::Number)
    }
}

fn unclosed(what: &'static str, expected: &'static str) -> ParseErrorKind {
    ParseErrorKind::Unclosed { what, expected }
}

fn is_word(character: char) -> bool {
    character == '_' || character.is_alphanumeric()
}

fn word(text: &str) -> Kind {
    match text {
        "true" | "false" => Kind::Bool,
        "nil" => Kind::Nil,
        "block" => Kind::Keyword(Keyword::Block),
        "break" => Kind::Keyword(Keyword::Break),
        "continue" => Kind::Keyword(Keyword::Continue),
        "define" => Kind::Keyword(Keyword::Define),
        "else" => Kind::Keyword(Keyword::Else),
        "end" => Kind::Keyword(Keyword::End),
        "if" => Kind::Keyword(Keyword::If),
        "range" => Kind::Keyword(Keyword::Range),
        "template" => Kind::Keyword(Keyword::Template),
        "with" => Kind::Keyword(Keyword::With),
        _ => Kind::Identifier,
    }
}
