//! Template text to tree.

mod lexer;
pub(crate) mod literal;
mod pipeline;

use crate::ast::{Branch, List, Node};
use crate::error::{ParseError, ParseErrorKind};
use crate::limits;
use crate::position::Position;
use lexer::{Keyword, Kind, Token};
use std::collections::BTreeMap;

/// An error with its offset in the text.
type Failure = (usize, ParseErrorKind);

/// Parses a text into its own list, under `name`, and those it defines.
pub(crate) fn parse(name: &str, text: &str) -> Result<BTreeMap<String, List>, ParseError> {
    parse_lists(name, text).map_err(|(offset, kind)| ParseError {
        name: name.to_owned(),
        position: Position::of(text, offset),
        kind,
    })
}

fn parse_lists(name: &str, text: &str) -> Result<BTreeMap<String, List>, Failure> {
    if text.len() > limits::TEMPLATE_BYTES {
        return Err((0, ParseErrorKind::TooLong(text.len())));
    }
    let mut parser = Parser {
        tokens: lexer::tokens(text)?,
        at: 0,
        scope: Scope::default(),
        depth: 0,
        lists: BTreeMap::new(),
    };
    let list = parser.top_level()?;
    parser.define(name, 0, list)?;
    Ok(parser.lists)
}

struct Parser<'t> {
    tokens: Vec<Token<'t>>,
    at: usize,
    scope: Scope<'t>,
    /// How many blocks and parentheses are open.
    depth: usize,
    lists: BTreeMap<String, List>,
}

/// What a template's text may refer to; each `define` and `block` starts afresh.
struct Scope<'t> {
    variables: Vec<&'t str>,
    ranges: usize,
}

impl Default for Scope<'_> {
    fn default() -> Self {
        Self { variables: vec!["$"], ranges: 0 }
    }
}

/// What ended a list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    End,
    /// `else`, closed or with `if` or `with` still to be read.
    Else,
}

/// The constructs with a pipeline and a list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Control {
    If,
    With,
    Range,
}

impl Control {
    fn name(self) -> &'static str {
        match self {
            Self::If => "if",
            Self::With => "with",
            Self::Range => "range",
        }
    }

    fn node(self, branch: Branch) -> Node {
        match self {
            Self::If => Node::If(branch),
            Self::With => Node::With(branch),
            Self::Range => Node::Range(branch),
        }
    }
}

/// One element of a list, or what ended it.
enum Item {
    Node(Node),
    /// A `define`, which leaves nothing in its place.
    Ended(Ended, usize),
}

impl<'t> Parser<'t> {
    fn peek(&self) -> Token<'t> {
        let end = Token { kind: Kind::End, text: "", offset: 0, spaced: false };
        self.tokens.get(self.at).or(self.tokens.last()).copied().unwrap_or(end)
    }

    fn next(&mut self) -> Token<'t> {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn accept(&mut self, kind: Kind) -> bool {
        let accepted = self.peek().kind == kind;
        self.at += usize::from(accepted);
        accepted
    }

    fn expect_right(&mut self, context: &'static str) -> Result<(), Failure> {
        let token = self.next();
        if token.kind == Kind::Right {
            return Ok(());
        }
        Err(unexpected(token, context, "}}"))
    }

    fn deeper<T>(
        &mut self,
        offset: usize,
        inner: impl FnOnce(&mut Self) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        if self.depth >= limits::NESTING {
            return Err((offset, ParseErrorKind::TooDeep));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    fn top_level(&mut self) -> Result<List, Failure> {
        let mut list = List::new();
        while self.peek().kind != Kind::End {
            let define = self.tokens.get(self.at + 1).map(|token| token.kind);
            if self.peek().kind == Kind::Left && define == Some(Kind::Keyword(Keyword::Define)) {
                self.at += 2;
                self.definition()?;
                continue;
            }
            match self.item()? {
                Item::Node(node) => list.push(node),
                Item::Ended(ended, offset) => return Err(stray(ended, offset, "template")),
            }
        }
        Ok(list)
    }

    /// `define NAME}} list {{end}}`, behind its keyword.
    fn definition(&mut self) -> Result<(), Failure> {
        let offset = self.peek().offset;
        let name = self.template_name("define")?;
        self.expect_right("define")?;
        let list = self.separate_list(offset, "define")?;
        self.define(&name, offset, list)
    }

    /// A list up to its `end` that sees neither the variables nor the ranges around it.
    fn separate_list(&mut self, offset: usize, context: &'static str) -> Result<List, Failure> {
        let outer = std::mem::take(&mut self.scope);
        let (list, ended, end) = self.deeper(offset, Self::list)?;
        self.scope = outer;
        match ended {
            Ended::End => Ok(list),
            Ended::Else => Err(stray(ended, end, context)),
        }
    }

    /// Keeps a list under its name. Of two lists with one name, one must be empty.
    fn define(&mut self, name: &str, offset: usize, list: List) -> Result<(), Failure> {
        match self.lists.get(name) {
            Some(known) if !is_blank(known) => {
                if is_blank(&list) {
                    return Ok(());
                }
                Err((offset, ParseErrorKind::Redefined(name.to_owned())))
            }
            _ => {
                self.lists.insert(name.to_owned(), list);
                Ok(())
            }
        }
    }

    /// Elements up to `end` or `else`.
    fn list(&mut self) -> Result<(List, Ended, usize), Failure> {
        let mut list = List::new();
        loop {
            match self.item()? {
                Item::Node(node) => list.push(node),
                Item::Ended(ended, offset) => return Ok((list, ended, offset)),
            }
        }
    }

    fn item(&mut self) -> Result<Item, Failure> {
        let token = self.next();
        match token.kind {
            Kind::Text => Ok(Item::Node(Node::Text(token.text.to_owned()))),
            Kind::Left => self.action(),
            _ => Err(unexpected(token, "template", "text or {{, and {{end}} for each open block")),
        }
    }

    fn action(&mut self) -> Result<Item, Failure> {
        let token = self.peek();
        let Kind::Keyword(keyword) = token.kind else {
            return Ok(Item::Node(Node::Action(self.pipeline("action", Kind::Right)?)));
        };
        self.at += 1;
        let node = match keyword {
            Keyword::If => self.control(Control::If, token.offset)?,
            Keyword::With => self.control(Control::With, token.offset)?,
            Keyword::Range => self.control(Control::Range, token.offset)?,
            Keyword::Template => self.template(token.offset)?,
            Keyword::Block => self.block(token.offset)?,
            Keyword::Break => self.leave_range("break", token.offset, Node::Break)?,
            Keyword::Continue => self.leave_range("continue", token.offset, Node::Continue)?,
            Keyword::End => {
                self.expect_right("end")?;
                return Ok(Item::Ended(Ended::End, token.offset));
            }
            Keyword::Else => {
                let next = self.peek().kind;
                if !matches!(next, Kind::Keyword(Keyword::If | Keyword::With)) {
                    self.expect_right("else")?;
                }
                return Ok(Item::Ended(Ended::Else, token.offset));
            }
            Keyword::Define => {
                return Err(unexpected(token, "block", "define outside of blocks"));
            }
        };
        Ok(Item::Node(node))
    }

    fn control(&mut self, control: Control, offset: usize) -> Result<Node, Failure> {
        let visible = self.scope.variables.len();
        let branch = self.deeper(offset, |parser| parser.branch(control))?;
        self.scope.variables.truncate(visible);
        Ok(control.node(branch))
    }

    fn branch(&mut self, control: Control) -> Result<Branch, Failure> {
        let pipeline = self.pipeline(control.name(), Kind::Right)?;
        self.scope.ranges += usize::from(control == Control::Range);
        let (list, ended, _) = self.list()?;
        self.scope.ranges -= usize::from(control == Control::Range);
        if ended == Ended::End {
            return Ok(Branch { pipeline, list, otherwise: None });
        }
        // One `end` closes a whole chain of `else if` or `else with`.
        let next = self.peek();
        let otherwise = match (control, next.kind) {
            (Control::If, Kind::Keyword(Keyword::If)) => {
                self.at += 1;
                vec![self.control(Control::If, next.offset)?]
            }
            (Control::With, Kind::Keyword(Keyword::With)) => {
                self.at += 1;
                vec![self.control(Control::With, next.offset)?]
            }
            _ => {
                let (list, ended, offset) = self.list()?;
                if ended == Ended::Else {
                    return Err(stray(ended, offset, "else"));
                }
                list
            }
        };
        Ok(Branch { pipeline, list, otherwise: Some(otherwise) })
    }

    fn leave_range(&mut self, name: &'static str, at: usize, node: Node) -> Result<Node, Failure> {
        self.expect_right(name)?;
        if self.scope.ranges == 0 {
            return Err((at, ParseErrorKind::OutsideRange(name)));
        }
        Ok(node)
    }

    fn template_name(&mut self, context: &'static str) -> Result<String, Failure> {
        let token = self.next();
        match token.kind {
            Kind::Str | Kind::RawStr => string(token),
            _ => Err(unexpected(token, context, "the template's name as a string")),
        }
    }

    fn template(&mut self, offset: usize) -> Result<Node, Failure> {
        let name = self.template_name("template")?;
        let pipeline = if self.accept(Kind::Right) {
            None
        } else {
            Some(self.pipeline("template", Kind::Right)?)
        };
        Ok(Node::Template { offset, name, pipeline })
    }

    /// `block` is a `define` that is called where it stands.
    fn block(&mut self, offset: usize) -> Result<Node, Failure> {
        let name = self.template_name("block")?;
        let pipeline = Some(self.pipeline("block", Kind::Right)?);
        let list = self.separate_list(offset, "block")?;
        self.define(&name, offset, list)?;
        Ok(Node::Template { offset, name, pipeline })
    }
}

/// Whether a list has nothing but space.
fn is_blank(list: &List) -> bool {
    list.iter().all(|node| matches!(node, Node::Text(text) if text.trim().is_empty()))
}

fn string(token: Token<'_>) -> Result<String, Failure> {
    literal::string(token.text).ok_or_else(|| bad(token))
}

fn bad(token: Token<'_>) -> Failure {
    (token.offset, ParseErrorKind::Literal(token.text.to_owned()))
}

fn stray(ended: Ended, offset: usize, context: &'static str) -> Failure {
    let (found, expected) = match ended {
        Ended::End => ("{{end}}", "an open block before it"),
        Ended::Else => ("{{else}}", "{{end}}, or an open if, with or range before it"),
    };
    (offset, ParseErrorKind::Unexpected { found: found.to_owned(), context, expected })
}

fn unexpected(token: Token<'_>, context: &'static str, expected: &'static str) -> Failure {
    let found = match token.kind {
        Kind::End => "end of text".to_owned(),
        _ => format!("{:?}", token.text),
    };
    (token.offset, ParseErrorKind::Unexpected { found, context, expected })
}
