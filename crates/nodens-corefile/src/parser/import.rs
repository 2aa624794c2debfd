//! `import`: snippets, files and globs.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::Parser;
use super::stream::Origin;
use crate::error::{Error, ErrorKind};
use crate::lexer::{Lexeme, lex};
use crate::limits;
use crate::nearest::nearest;
use crate::syntax::{Position, Token, WarningKind};

impl Parser<'_> {
    /// The argument of an `import` whose first word is taken. What it names is read next.
    pub(super) fn import(&mut self, statement: &Position) -> Result<(), Error> {
        let Some(argument) = self.stream.next_on_line()? else {
            let position = statement.clone();
            return Err(Error { position, kind: ErrorKind::ImportNothing });
        };
        let argument = self.substituted(argument)?;
        if argument.text.is_empty() {
            return Err(Error::at(&argument, ErrorKind::ImportNothing));
        }
        if let Some(second) = self.stream.next_on_line()? {
            let kind = ErrorKind::ImportMany { found: second.text.clone() };
            return Err(Error::at(&second, kind));
        }
        match self.snippets.get(&argument.text).map(|snippet| Arc::clone(&snippet.words)) {
            Some(words) => self.import_snippet(statement, &argument, words),
            None => self.import_files(statement, &argument),
        }
    }

    fn import_snippet(
        &mut self,
        statement: &Position,
        argument: &Token,
        words: Arc<[Lexeme]>,
    ) -> Result<(), Error> {
        let name = &argument.text;
        let origin = Origin::Snippet(name.clone());
        let fail = |reason| Err(Error::at(argument, ErrorKind::SnippetImports { reason }));
        if self.stream.is_reading(&origin) {
            return fail(format!("snippet '{name}' imports itself"));
        }
        if self.snippet_imports >= limits::SNIPPET_IMPORTS {
            return fail("too many imports".to_owned());
        }
        self.snippet_imports += 1;
        self.stream.push(statement, vec![(words, origin)]);
        Ok(())
    }

    fn import_files(&mut self, statement: &Position, argument: &Token) -> Result<(), Error> {
        let pattern = resolve(&statement.file, &argument.text);
        check_pattern(argument, &pattern)?;
        if self.file_imports >= limits::FILE_IMPORTS {
            let reason = "too many imports".to_owned();
            return Err(Error::at(argument, ErrorKind::FileImports { reason }));
        }
        self.file_imports += 1;
        let paths = self.sources.glob(&pattern).map_err(|error| {
            let kind = ErrorKind::ImportFailed { path: pattern.clone(), reason: error.to_string() };
            Error::at(argument, kind)
        })?;
        if paths.is_empty() {
            return self.nothing_found(argument, &pattern);
        }
        let mut files = Vec::with_capacity(paths.len());
        for path in paths {
            files.push((self.read(argument, &path)?, Origin::File(path)));
        }
        self.stream.push(statement, files);
        Ok(())
    }

    fn read(&mut self, argument: &Token, path: &Path) -> Result<Arc<[Lexeme]>, Error> {
        if self.stream.is_reading(&Origin::File(path.to_owned())) {
            let reason = format!("file {} imports itself", path.display());
            return Err(Error::at(argument, ErrorKind::FileImports { reason }));
        }
        let text = self.sources.read(path).map_err(|error| {
            let (path, reason) = (path.display().to_string(), error.to_string());
            Error::at(argument, ErrorKind::ImportFailed { path, reason })
        })?;
        if !self.corefile.imported_files.iter().any(|known| known == path) {
            self.corefile.imported_files.push(path.to_owned());
        }
        let file: Arc<str> = path.to_string_lossy().into();
        Ok(lex(&file, &text, &mut self.corefile.warnings).into())
    }

    /// Wildcards may match nothing; a plain name must exist.
    fn nothing_found(&mut self, argument: &Token, pattern: &str) -> Result<(), Error> {
        let name = argument.text.clone();
        if pattern.contains(['*', '?', '[', ']']) {
            let kind = WarningKind::NothingImported { pattern: name };
            self.warn(argument.position.clone(), kind);
            return Ok(());
        }
        let snippets = self.snippets.keys().map(String::as_str);
        let nearest = nearest(&name, snippets).map(str::to_owned);
        Err(Error::at(argument, ErrorKind::ImportNotFound { pattern: name, nearest }))
    }
}

/// More than one wildcard could make a search that takes very long.
fn check_pattern(argument: &Token, pattern: &str) -> Result<(), Error> {
    let many = |wildcard| pattern.matches(wildcard).count() > 1;
    let class = pattern.contains('[') && pattern.contains(']');
    if many('*') || many('?') || class {
        let kind = ErrorKind::ImportPattern { pattern: pattern.to_owned() };
        return Err(Error::at(argument, kind));
    }
    Ok(())
}

/// `pattern` as seen from the folder of the file that imports it; `.` and `..` are worked out in
/// the text, without following links, as CoreDNS does.
pub(super) fn resolve(importing_file: &str, pattern: &str) -> String {
    if Path::new(pattern).is_absolute() {
        return pattern.to_owned();
    }
    let folder = Path::new(importing_file).parent().unwrap_or(Path::new(""));
    let mut clean = PathBuf::new();
    for component in folder.join(pattern).components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if clean.file_name().is_some_and(|name| name != "..") => {
                clean.pop();
            }
            Component::ParentDir if clean.has_root() => {}
            component => clean.push(component),
        }
    }
    clean.to_string_lossy().into_owned()
}
