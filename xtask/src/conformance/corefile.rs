//! Just enough of the Corefile's grammar to change ports, addresses and files in one: words with their place in the
//! text, the server blocks' keys, and which directive a word belongs to. The server's own parser is not used: what
//! judges must not share its mistakes.

use std::ops::Range;

/// A word of a Corefile and its role.
#[derive(Debug, Clone)]
pub(crate) struct Word {
    /// The word as written, without the quotes.
    pub(crate) text: String,
    /// Where it stands in the text, quotes included.
    pub(crate) span: Range<usize>,
    pub(crate) line: usize,
}

/// A line inside a server block or snippet.
#[derive(Debug, Clone)]
pub(crate) struct Directive {
    pub(crate) name: Word,
    pub(crate) arguments: Vec<Word>,
    /// The lines of the block in braces that may follow, at any depth, each as its words.
    pub(crate) options: Vec<Vec<Word>>,
}

/// A server block, or a snippet when its only key is in parentheses.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    pub(crate) keys: Vec<Word>,
    pub(crate) directives: Vec<Directive>,
}

impl Block {
    pub(crate) fn is_snippet(&self) -> bool {
        self.keys.first().is_some_and(|key| key.text.starts_with('('))
    }
}

/// A Corefile taken apart.
#[derive(Debug, Clone)]
pub(crate) struct Corefile {
    pub(crate) blocks: Vec<Block>,
}

impl Corefile {
    /// Takes `text` apart. What is not well-formed leads to fewer blocks, not to an error: the servers are to judge it.
    pub(crate) fn parse(text: &str) -> Self {
        let words = words(text);
        let mut lines = words.chunk_by(|a, b| a.line == b.line).peekable();
        let mut blocks = Vec::new();
        let mut keys = Vec::new();
        while let Some(line) = lines.next() {
            // Top level: an import stands alone, everything else is keys until the brace.
            if keys.is_empty() && line[0].text == "import" {
                continue;
            }
            keys.extend(line.iter().filter(|word| word.text != "{").cloned());
            if line.last().is_some_and(|word| word.text == "{") {
                let directives = directives(&mut lines);
                blocks.push(Block { keys: std::mem::take(&mut keys), directives });
            }
        }
        Corefile { blocks }
    }

    pub(crate) fn directives(&self) -> impl Iterator<Item = &Directive> {
        self.blocks.iter().flat_map(|block| &block.directives)
    }

    /// Keys of the server blocks as scheme, zone and port.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Key<'_>> {
        self.blocks.iter().filter(|block| !block.is_snippet()).flat_map(|block| {
            block.keys.iter().flat_map(|word| word.text.split(',')).filter_map(Key::parse)
        })
    }
}

/// A server block's key: `[SCHEME://]ZONE[:PORT]`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Key<'a> {
    pub(crate) scheme: &'a str,
    pub(crate) zone: &'a str,
    pub(crate) port: Option<u16>,
}

impl<'a> Key<'a> {
    /// `None` for an empty text (after a trailing comma).
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        if text.is_empty() {
            return None;
        }
        let (scheme, rest) = text.split_once("://").unwrap_or(("dns", text));
        let port = rest.rsplit_once(':').and_then(|(zone, port)| Some((zone, port.parse().ok()?)));
        Some(match port {
            Some((zone, port)) => Key { scheme, zone, port: Some(port) },
            None => Key { scheme, zone: rest, port: None },
        })
    }
}

/// The directives up to the closing brace of the block.
fn directives<'a>(lines: &mut impl Iterator<Item = &'a [Word]>) -> Vec<Directive> {
    let mut directives: Vec<Directive> = Vec::new();
    let mut depth = 0usize;
    for line in lines {
        if line[0].text == "}" {
            if depth == 0 {
                break;
            }
            depth -= 1;
            continue;
        }
        let opens = line.last().is_some_and(|word| word.text == "{");
        let words = if opens { &line[..line.len() - 1] } else { line };
        match (depth, directives.last_mut()) {
            (0, _) | (_, None) => {
                let Some((name, arguments)) = words.split_first() else { continue };
                let arguments = arguments.to_vec();
                directives.push(Directive { name: name.clone(), arguments, options: Vec::new() });
            }
            (_, Some(directive)) => directive.options.push(words.to_vec()),
        }
        depth += usize::from(opens);
    }
    directives
}

/// Splits a Corefile into words as CoreDNS's lexer does: quotes only at the start of a word, `#` starts a comment.
fn words(text: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut line = 1;
    let mut chars = text.char_indices().peekable();
    while let Some((start, first)) = chars.next() {
        match first {
            '\n' => line += 1,
            c if c.is_whitespace() => {}
            '#' => while chars.next_if(|(_, c)| *c != '\n').is_some() {},
            '"' => {
                let at = line;
                let mut word = String::new();
                let mut end = text.len();
                while let Some((index, c)) = chars.next() {
                    match c {
                        '"' => {
                            end = index + 1;
                            break;
                        }
                        '\\' if chars.peek().is_some_and(|(_, c)| *c == '"') => {
                            word.push('"');
                            chars.next();
                        }
                        c => {
                            line += usize::from(c == '\n');
                            word.push(c);
                        }
                    }
                }
                words.push(Word { text: word, span: start..end, line: at });
            }
            _ => {
                let mut end = start + first.len_utf8();
                while let Some((index, c)) = chars.next_if(|(_, c)| !c.is_whitespace() && *c != '#')
                {
                    end = index + c.len_utf8();
                }
                words.push(Word { text: text[start..end].to_owned(), span: start..end, line });
            }
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_a_corefile_apart() {
        let text = "# c\n(snip) {\n log\n}\nexample.org:1053, dns://10.0.0.0/24 \\\n";
        let text = format!(
            "{text}{{\n forward . 8.8.8.8 {{\n  except a b\n }}\n log \"x {{y}}\" #z\n}}\n"
        );
        let corefile = Corefile::parse(&text.replace(" \\\n", " "));
        let keys: Vec<Key> = corefile.keys().collect();
        assert_eq!(keys[0], Key { scheme: "dns", zone: "example.org", port: Some(1053) });
        assert_eq!(keys[1], Key { scheme: "dns", zone: "10.0.0.0/24", port: None });
        let names: Vec<&str> = corefile.directives().map(|d| d.name.text.as_str()).collect();
        assert_eq!(names, ["log", "forward", "log"]);
        let forward = corefile.directives().nth(1).unwrap();
        assert_eq!(forward.arguments[1].text, "8.8.8.8");
        assert_eq!(forward.options[0][2].text, "b");
        let log = corefile.directives().nth(2).unwrap();
        assert_eq!(log.arguments[0].text, "x {y}");
    }
}
