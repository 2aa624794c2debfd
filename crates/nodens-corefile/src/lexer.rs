//! Text → words.

use std::sync::Arc;

use crate::syntax::{Position, Token, Warning, WarningKind};

/// A word, and whether it is the first on its line. A quoted word that spans lines ends on its
/// last line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lexeme {
    pub(crate) token: Token,
    pub(crate) starts_line: bool,
}

/// Splits a whole file. Nothing is an error here; what looks like a mistake becomes a warning.
pub(crate) fn lex(file: &Arc<str>, text: &str, warnings: &mut Vec<Warning>) -> Vec<Lexeme> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lexer = Lexer { file, rest: text.chars(), line: 1, column: 1, warnings };
    let mut lexemes = Vec::new();
    let mut last_line = 0;
    while let Some(token) = lexer.next_token() {
        let starts_line = token.position.line > last_line;
        last_line = token.position.line + line_breaks(&token.text);
        lexemes.push(Lexeme { token, starts_line });
    }
    lexemes
}

fn line_breaks(text: &str) -> u32 {
    u32::try_from(text.matches('\n').count()).unwrap_or(u32::MAX)
}

struct Lexer<'a> {
    file: &'a Arc<str>,
    rest: std::str::Chars<'a>,
    line: u32,
    column: u32,
    warnings: &'a mut Vec<Warning>,
}

impl Lexer<'_> {
    fn next_token(&mut self) -> Option<Token> {
        loop {
            let position = self.position();
            match self.advance()? {
                c if c.is_whitespace() => {}
                '#' => self.skip_line(),
                '"' => return self.quoted(position),
                first => return Some(self.bare(first, position)),
            }
        }
    }

    /// The rest of a word whose first character is taken. A carriage return is dropped without
    /// ending the word.
    fn bare(&mut self, first: char, position: Position) -> Token {
        let mut text = String::from(first);
        loop {
            let at = self.position();
            match self.rest.clone().next() {
                None => break,
                Some('\r') => {}
                Some(c) if c.is_whitespace() => break,
                Some('#') => {
                    self.skip_glued_comment(at);
                    break;
                }
                Some(c) => text.push(c),
            }
            self.advance();
        }
        Token { text, quoted: false, position }
    }

    /// A word whose opening quote is taken. `None` if the file ends right after that quote.
    fn quoted(&mut self, position: Position) -> Option<Token> {
        let mut text = String::new();
        let mut escaped = false;
        loop {
            let Some(c) = self.advance() else {
                let kind = WarningKind::UnclosedQuote;
                self.warnings.push(Warning { position: position.clone(), kind });
                return (!text.is_empty()).then_some(Token { text, quoted: true, position });
            };
            match c {
                '\\' if !escaped => {
                    escaped = true;
                    continue;
                }
                '"' if !escaped => return Some(Token { text, quoted: true, position }),
                '"' => text.push('"'),
                // Nothing but a quote can be escaped: the backslash stands for itself.
                c if escaped => text.extend(['\\', c]),
                c => text.push(c),
            }
            escaped = false;
        }
    }

    /// CoreDNS forgets that it is in a comment when the word before it ends, and that is at the
    /// next space.
    fn skip_glued_comment(&mut self, position: Position) {
        while let Some(c) = self.rest.clone().next() {
            if c != '\r' && c.is_whitespace() {
                break;
            }
            self.advance();
        }
        let line = self.rest.as_str().split('\n').next().unwrap_or_default();
        let revived = line.split_whitespace().next();
        if revived.is_some_and(|word| !word.starts_with('#')) {
            self.warnings.push(Warning { position, kind: WarningKind::GluedComment });
        }
    }

    fn skip_line(&mut self) {
        while self.advance().is_some_and(|c| c != '\n') {}
    }

    fn advance(&mut self) -> Option<char> {
        let c = self.rest.next()?;
        if c == '\n' {
            self.line = self.line.saturating_add(1);
            self.column = 1;
        } else {
            self.column = self.column.saturating_add(1);
        }
        Some(c)
    }

    fn position(&self) -> Position {
        Position { file: Arc::clone(self.file), line: self.line, column: self.column }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words as `text@line:column`, quoted ones in `<>`; `/` before the first of a line.
    fn words(text: &str) -> (String, Vec<String>) {
        let mut warnings = Vec::new();
        let shown: Vec<String> = lex(&"F".into(), text, &mut warnings)
            .iter()
            .map(|Lexeme { token, starts_line }| {
                let line = if *starts_line { "/" } else { "" };
                let Position { line: at, column, .. } = &token.position;
                match token.quoted {
                    true => format!("{line}<{}>@{at}:{column}", token.text),
                    false => format!("{line}{}@{at}:{column}", token.text),
                }
            })
            .collect();
        (shown.join(" "), warnings.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn splits_words_as_coredns_does() {
        let table = [
            ("", ""),
            (" \t\n\n", ""),
            ("a b\nc", "/a@1:1 b@1:3 /c@2:1"),
            ("  a\n\t b", "/a@1:3 /b@2:3"),
            // Byte order mark: dropped only as the first character.
            ("\u{feff}a \u{feff}b", "/a@1:1 \u{feff}b@1:3"),
            // Carriage returns are dropped, even inside a word; quotes keep them.
            ("a\r\nb\r\n", "/a@1:1 /b@2:1"),
            ("a\rb", "/ab@1:1"),
            ("\"a\r\nb\"", "/<a\r\nb>@1:1"),
            ("\r\"a b\"", "/<a b>@1:2"),
            // Any Unicode white space separates.
            ("a\u{a0}b\u{3000}c\u{0b}d", "/a@1:1 b@1:3 c@1:5 d@1:7"),
            ("é ü", "/é@1:1 ü@1:3"),
            // Comments.
            ("# a b\nc", "/c@2:1"),
            ("a # b\nc", "/a@1:1 /c@2:1"),
            ("a #b c # d\ne", "/a@1:1 /e@2:1"),
            ("a#b\nc", "/a@1:1 /c@2:1"),
            ("a#", "/a@1:1"),
            ("\"a\"#b c\nd", "/<a>@1:1 /d@2:1"),
            ("\"#a\"", "/<#a>@1:1"),
            // Quotes.
            ("\"a b\" c", "/<a b>@1:1 c@1:7"),
            ("\"\" a", "/<>@1:1 a@1:4"),
            ("\"a\"b", "/<a>@1:1 b@1:4"),
            ("\"a\"\"b\"", "/<a>@1:1 <b>@1:4"),
            ("a\"b c\"", "/a\"b@1:1 c\"@1:5"),
            (r#""a\"b""#, "/<a\"b>@1:1"),
            (r#""a\nb""#, r"/<a\nb>@1:1"),
            (r#""a\\" b"#, r"/<a\\>@1:1 b@1:7"),
            (r#""a\\\"b""#, "/<a\\\\\"b>@1:1"),
            (r"a\ b\", r"/a\@1:1 b\@1:4"),
            // A word over several lines: what follows its end is still on its line.
            ("\"a\nb\" c\nd", "/<a\nb>@1:1 c@2:4 /d@3:1"),
            ("{} { }", "/{}@1:1 {@1:4 }@1:6"),
        ];
        for (text, expected) in table {
            assert_eq!(words(text), (expected.to_owned(), vec![]), "{text:?}");
        }
    }

    #[test]
    fn warns_about_what_is_hardly_meant() {
        let unclosed = "this quote is never closed, so the word runs to the end of the file";
        let (shown, warnings) = words("a \"b\nc");
        assert_eq!(shown, "/a@1:1 <b\nc>@1:3");
        assert_eq!(warnings, [format!("F:1:3: {unclosed}")]);
        let (shown, warnings) = words("a \"");
        assert_eq!(shown, "/a@1:1");
        assert_eq!(warnings, [format!("F:1:3: {unclosed}")]);
        let (shown, warnings) = words("errors#foo bar # baz\nlog#x #y");
        assert_eq!(shown, "/errors@1:1 bar@1:12 /log@2:1");
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].starts_with("F:1:7: a comment that starts inside a word"));
    }
}
