//! Words → syntax tree.

mod import;
mod stream;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::environment;
use crate::error::{Error, ErrorKind};
use crate::lexer::{Lexeme, lex};
use crate::limits;
use crate::sources::Sources;
use crate::syntax::{Corefile, Directive, Position, ServerBlock, Token, Warning, WarningKind};
use stream::{Item, Stream};

/// Reads a whole Corefile with everything that it imports. `file_name` stands in positions and is
/// what relative imports are relative to.
///
/// # Errors
/// The first mistake; the tree is all or nothing.
pub fn parse(file_name: &str, text: &str, sources: &dyn Sources) -> Result<Corefile, Error> {
    let mut corefile = Corefile::default();
    let file: Arc<str> = Arc::from(file_name);
    let words = lex(&file, text, &mut corefile.warnings);
    let mut parser = Parser {
        stream: Stream::new(words.into(), PathBuf::from(file_name)),
        sources,
        snippets: HashMap::new(),
        snippet_imports: 0,
        file_imports: 0,
        corefile,
    };
    while parser.stream.peek()?.is_some() {
        parser.block()?;
    }
    Ok(parser.corefile)
}

struct Parser<'a> {
    stream: Stream,
    sources: &'a dyn Sources,
    snippets: HashMap<String, Snippet>,
    snippet_imports: usize,
    file_imports: usize,
    corefile: Corefile,
}

struct Snippet {
    declared: Position,
    words: Arc<[Lexeme]>,
}

/// What ended the keys of a server block.
enum KeysEnd {
    /// The opening brace, taken.
    Brace(Position),
    /// The first word of the next line, not taken.
    Line,
    /// The end of the text.
    Text,
}

impl Parser<'_> {
    /// A server block or a snippet.
    fn block(&mut self) -> Result<(), Error> {
        let start = self.stream.position();
        let (keys, end) = self.keys()?;
        let open = match end {
            KeysEnd::Text => {
                // Keys and nothing else: served, without any directive.
                self.push_block(start, ServerBlock { keys, directives: Vec::new(), braces: false });
                return Ok(());
            }
            KeysEnd::Brace(open) => Some(open),
            KeysEnd::Line => self.brace_on_next_line()?,
        };
        if let [key] = keys.as_slice()
            && let Some(name) = key.text.strip_prefix('(').and_then(|name| name.strip_suffix(')'))
        {
            return self.snippet(key, name, open);
        }
        let directives = self.directives(open.as_ref())?;
        self.push_block(start, ServerBlock { keys, directives, braces: open.is_some() });
        Ok(())
    }

    fn push_block(&mut self, start: Position, block: ServerBlock) {
        if !block.keys.is_empty() {
            self.corefile.blocks.push(block);
        } else if block.braces || !block.directives.is_empty() {
            self.warn(start, WarningKind::NoKeys);
            self.corefile.unserved.extend(block.directives);
        }
    }

    fn keys(&mut self) -> Result<(Vec<Token>, KeysEnd), Error> {
        let mut keys = Vec::new();
        let mut comma: Option<Position> = None;
        let mut may_start_line = true;
        loop {
            let Some(item) = self.stream.peek()? else {
                let Some(position) = comma else { return Ok((keys, KeysEnd::Text)) };
                let expected = "another key after the comma".to_owned();
                return Err(Error { position, kind: ErrorKind::UnexpectedEnd { expected } });
            };
            if item.starts_line && !may_start_line && comma.is_none() {
                return Ok((keys, KeysEnd::Line));
            }
            let mut key = self.substituted(item.token)?;
            self.stream.next()?;
            if key.text == "import" && item.starts_line {
                self.import(&key.position)?;
                may_start_line = true;
                continue;
            }
            if key.text == "{" {
                return match comma {
                    Some(_) => Err(Error::at(&key, ErrorKind::ExtraComma)),
                    None => Ok((keys, KeysEnd::Brace(key.position))),
                };
            }
            may_start_line = false;
            if key.text.is_empty() {
                continue;
            }
            comma = key.text.ends_with(',').then(|| key.position.clone());
            if comma.is_some() {
                key.text.pop();
            }
            if key.text.contains(',') {
                let kind = WarningKind::CommaInKey { key: key.text.clone() };
                self.warn(key.position.clone(), kind);
            }
            keys.push(key);
        }
    }

    fn brace_on_next_line(&mut self) -> Result<Option<Position>, Error> {
        match self.stream.peek()? {
            Some(item) if item.token.text == "{" => {
                self.stream.next()?;
                Ok(Some(item.token.position))
            }
            _ => Ok(None),
        }
    }

    /// Keeps the words of a snippet, imports in it unexpanded, until the brace that ends it.
    fn snippet(&mut self, key: &Token, name: &str, open: Option<Position>) -> Result<(), Error> {
        if let Some(Snippet { declared, .. }) = self.snippets.get(name) {
            let (name, first) = (name.to_owned(), declared.clone());
            return Err(Error::at(key, ErrorKind::SnippetRedeclared { name, first }));
        }
        let Some(open) = open else {
            let found = self.stream.peek()?.map_or_else(|| key.clone(), |item| item.token);
            let kind = ErrorKind::SnippetWithoutBody { found: found.text.clone() };
            return Err(Error::at(&found, kind));
        };
        let mut words: Vec<Lexeme> = Vec::new();
        let mut depth = 1_usize;
        while let Some(Item { token, starts_line, .. }) = self.stream.next()? {
            match token.text.as_str() {
                "{" => depth += 1,
                "}" => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                self.check_self_import(name, &words)?;
                let snippet = Snippet { declared: key.position.clone(), words: words.into() };
                self.snippets.insert(name.to_owned(), snippet);
                return Ok(());
            }
            words.push(Lexeme { token, starts_line });
        }
        Err(unclosed(open))
    }

    /// A snippet that names itself is an error even if nothing imports it.
    fn check_self_import(&self, name: &str, words: &[Lexeme]) -> Result<(), Error> {
        for (index, pair) in words.windows(2).enumerate() {
            let [import, argument] = pair else { continue };
            let at_line_start = index == 0 || import.starts_line;
            if import.token.text == "import"
                && at_line_start
                && self.substitute(&argument.token)? == name
            {
                let reason = format!("snippet '{name}' imports itself");
                return Err(Error::at(&argument.token, ErrorKind::SnippetImports { reason }));
            }
        }
        Ok(())
    }

    /// The directives of a server block and its closing brace, if it opened with one. Without
    /// braces a `}` ends the block as well as the end of the text.
    fn directives(&mut self, open: Option<&Position>) -> Result<Vec<Directive>, Error> {
        let mut directives = Vec::new();
        while let Some(item) = self.stream.next()? {
            match item.token.text.as_str() {
                "}" => return Ok(directives),
                "{" => return Err(Error::at(&item.token, ErrorKind::StrayBrace)),
                "import" => self.import(&item.token.position)?,
                _ => directives.push(self.line(item, 0)?),
            }
        }
        let Some(open) = open else { return Ok(directives) };
        // CoreDNS takes any `}` that is the last word for the one it misses.
        if directives.last().is_some_and(|directive| directive.end.is_some()) {
            self.warn(open.clone(), WarningKind::UnclosedBlock { line: open.line });
            return Ok(directives);
        }
        Err(unclosed(open.clone()))
    }

    /// The rest of a line whose first word is taken, with its body. `depth` is 0 for a directive
    /// and counts the bodies around a property.
    fn line(&mut self, first: Item, depth: usize) -> Result<Directive, Error> {
        let mut line = Directive {
            name: self.substituted(first.token)?,
            args: Vec::new(),
            body: None,
            end: None,
            imported: first.imported,
        };
        while let Some(item) = self.stream.peek()? {
            let brace = item.token.text == "{";
            match item.token.text.as_str() {
                "{" if item.starts_line => {
                    return Err(Error::at(&item.token, ErrorKind::StrayBrace));
                }
                _ if item.starts_line => break,
                "}" if depth == 0 => {
                    return Err(Error::at(&item.token, ErrorKind::UnmatchedBrace));
                }
                "}" => break,
                _ => self.stream.next()?,
            };
            if !brace {
                line.args.push(self.substituted(item.token)?);
                continue;
            }
            let (body, end) = self.body(item.token.position, depth + 1)?;
            (line.body, line.end) = (Some(body), Some(end));
            self.expect_line_end(depth)?;
            break;
        }
        Ok(line)
    }

    /// The lines up to the closing brace, and where that is.
    fn body(&mut self, open: Position, depth: usize) -> Result<(Vec<Directive>, Position), Error> {
        if depth > limits::BODY_DEPTH {
            return Err(Error { position: open, kind: ErrorKind::TooDeep });
        }
        let mut lines = Vec::new();
        while let Some(item) = self.stream.next()? {
            match item.token.text.as_str() {
                "}" => return Ok((lines, item.token.position)),
                "{" => return Err(Error::at(&item.token, ErrorKind::StrayBrace)),
                "import" if item.starts_line => self.import(&item.token.position)?,
                _ => lines.push(self.line(item, depth)?),
            }
        }
        Err(unclosed(open))
    }

    /// After the `}` of a body: nothing, or the `}` of the body around it.
    fn expect_line_end(&mut self, depth: usize) -> Result<(), Error> {
        match self.stream.peek()? {
            Some(item) if !item.starts_line => match item.token.text.as_str() {
                "}" if depth > 0 => Ok(()),
                "}" => Err(Error::at(&item.token, ErrorKind::UnmatchedBrace)),
                found => {
                    let kind = ErrorKind::AfterBrace { found: found.to_owned() };
                    Err(Error::at(&item.token, kind))
                }
            },
            _ => Ok(()),
        }
    }

    fn substituted(&self, token: Token) -> Result<Token, Error> {
        match self.substitute(&token)? {
            Cow::Borrowed(_) => Ok(token),
            Cow::Owned(text) => Ok(Token { text, ..token }),
        }
    }

    fn substitute<'t>(&self, token: &'t Token) -> Result<Cow<'t, str>, Error> {
        environment::substitute(&token.text, self.sources).map_err(|environment::Endless| {
            Error::at(token, ErrorKind::EndlessEnvironment { word: token.text.clone() })
        })
    }

    fn warn(&mut self, position: Position, kind: WarningKind) {
        self.corefile.warnings.push(Warning { position, kind });
    }
}

fn unclosed(open: Position) -> Error {
    let expected = "'}' to close the block opened here".to_owned();
    Error { position: open, kind: ErrorKind::UnexpectedEnd { expected } }
}
