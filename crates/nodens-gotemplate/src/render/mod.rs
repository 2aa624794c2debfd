//! Walking a template's tree and writing its output.

pub(crate) mod builtin;
mod compare;
mod escape;
mod eval;
mod index;

use crate::ast::{Branch, List, Node};
use crate::error::{RenderError, RenderErrorKind};
use crate::format::{self, Limited};
use crate::limits;
use crate::position::Position;
use crate::template::Template;
use crate::value::{Object, Shape, Value};

/// An error with its offset in the text.
type Stop = (usize, RenderErrorKind);

/// See [`Template::render`].
pub(crate) fn render(
    template: &Template,
    data: &dyn Object,
    out: &mut String,
) -> Result<(), RenderError> {
    let end = out.len().saturating_add(limits::OUTPUT_BYTES);
    let dot = Value::Object(data);
    let mut state = State {
        template,
        out: Limited::new(out, end),
        work_left: limits::WORK,
        variables: vec![("$", dot.clone())],
        depth: 0,
    };
    let walked = template.list(template.name()).map(|list| state.walk(&dot, list));
    match walked {
        Some(Err((offset, kind))) => Err(RenderError {
            name: template.name().to_owned(),
            position: Position::of(template.text(), offset),
            kind,
        }),
        Some(Ok(_)) | None => Ok(()),
    }
}

/// How a list was left.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    Through,
    Break,
    Continue,
}

struct State<'a, 'o> {
    template: &'a Template,
    out: Limited<'o>,
    work_left: usize,
    /// The variables in sight, the innermost last.
    variables: Vec<(&'a str, Value<'a>)>,
    /// How many lists and pipelines are being worked on inside each other.
    depth: usize,
}

impl<'a> State<'a, '_> {
    fn work(&mut self, offset: usize, cost: usize) -> Result<(), Stop> {
        match self.work_left.checked_sub(cost) {
            Some(left) => {
                self.work_left = left;
                Ok(())
            }
            None => Err((offset, RenderErrorKind::WorkLimit)),
        }
    }

    /// Goes one level deeper; the caller comes back up by `depth`, unless the rendering stops.
    fn enter(&mut self, offset: usize) -> Result<(), Stop> {
        if self.depth >= limits::RENDER_DEPTH {
            return Err((offset, RenderErrorKind::TooDeep));
        }
        self.depth += 1;
        Ok(())
    }

    fn walk(&mut self, dot: &Value<'a>, list: &'a List) -> Result<Flow, Stop> {
        for node in list {
            let flow = match node {
                Node::Text(text) => {
                    self.work(0, 1)?;
                    self.write(0, |out| out.write_str(text))?;
                    Flow::Through
                }
                Node::Action(pipeline) => {
                    let value = self.pipeline(dot, pipeline)?;
                    if pipeline.variables.is_empty() {
                        self.write(pipeline.offset, |out| format::action(&value, out))?;
                    }
                    Flow::Through
                }
                Node::If(branch) => self.condition(dot, branch, false)?,
                Node::With(branch) => self.condition(dot, branch, true)?,
                Node::Range(branch) => self.range(dot, branch)?,
                Node::Template { offset, name, pipeline } => {
                    let value = match pipeline {
                        Some(pipeline) => self.pipeline(dot, pipeline)?,
                        None => Value::Missing,
                    };
                    self.call_template(*offset, name, value)?;
                    Flow::Through
                }
                Node::Break => Flow::Break,
                Node::Continue => Flow::Continue,
            };
            if flow != Flow::Through {
                return Ok(flow);
            }
        }
        Ok(Flow::Through)
    }

    fn write(
        &mut self,
        offset: usize,
        write: impl FnOnce(&mut dyn std::fmt::Write) -> std::fmt::Result,
    ) -> Result<(), Stop> {
        write(&mut self.out).map_err(|_| (offset, RenderErrorKind::OutputLimit))
    }

    /// `if`, or `with`, which makes the value dot.
    fn condition(&mut self, dot: &Value<'a>, branch: &'a Branch, with: bool) -> Result<Flow, Stop> {
        let visible = self.variables.len();
        self.enter(branch.pipeline.offset)?;
        let value = self.pipeline(dot, &branch.pipeline)?;
        let flow = if value.is_true() {
            self.walk(if with { &value } else { dot }, &branch.list)?
        } else {
            self.otherwise(dot, branch)?
        };
        self.variables.truncate(visible);
        self.depth -= 1;
        Ok(flow)
    }

    fn otherwise(&mut self, dot: &Value<'a>, branch: &'a Branch) -> Result<Flow, Stop> {
        match &branch.otherwise {
            Some(list) => self.walk(dot, list),
            None => Ok(Flow::Through),
        }
    }

    fn range(&mut self, dot: &Value<'a>, branch: &'a Branch) -> Result<Flow, Stop> {
        let visible = self.variables.len();
        let offset = branch.pipeline.offset;
        self.enter(offset)?;
        let over = self.pipeline(dot, &branch.pipeline)?;
        let count = match &over {
            Value::Missing | Value::Nil => 0,
            Value::Int(_) | Value::Uint(_) if branch.pipeline.variables.len() > 1 => {
                let what = format!("{} with two variables", over.type_name());
                return Err((offset, RenderErrorKind::NotIterable(what)));
            }
            Value::Int(count) => u64::try_from(*count).unwrap_or(0),
            Value::Uint(count) => *count,
            _ => match over.shape() {
                Some(Shape::List | Shape::Map) => over.len().unwrap_or(0) as u64,
                Some(Shape::Struct) | None => {
                    let what = over.type_name().to_owned();
                    return Err((offset, RenderErrorKind::NotIterable(what)));
                }
            },
        };
        let flow = if count == 0 {
            self.otherwise(dot, branch)?
        } else {
            self.iterate(&over, count, branch)?;
            Flow::Through
        };
        self.variables.truncate(visible);
        self.depth -= 1;
        Ok(flow)
    }

    fn iterate(&mut self, over: &Value<'a>, count: u64, branch: &'a Branch) -> Result<(), Stop> {
        let visible = self.variables.len();
        for position in 0..count {
            self.work(branch.pipeline.offset, 1)?;
            let (key, value) = match over {
                Value::Uint(_) => (Value::Missing, Value::Uint(position)),
                Value::Int(_) => {
                    (Value::Missing, Value::Int(i64::try_from(position).unwrap_or(i64::MAX)))
                }
                _ => match usize::try_from(position).ok().and_then(|at| over.element(at)) {
                    Some(element) => element,
                    // An object that says it is longer than it is.
                    None => break,
                },
            };
            self.bind(branch, key, value.clone())?;
            let flow = self.walk(&value, &branch.list)?;
            self.variables.truncate(visible);
            if flow == Flow::Break {
                break;
            }
        }
        Ok(())
    }

    /// Gives the variables of a range the key and value of one round.
    fn bind(&mut self, branch: &'a Branch, key: Value<'a>, value: Value<'a>) -> Result<(), Stop> {
        let pipeline = &branch.pipeline;
        match pipeline.variables.as_slice() {
            [one] => self.assign(pipeline.offset, one, value),
            [first, second] => {
                self.assign(pipeline.offset, first, key)?;
                self.assign(pipeline.offset, second, value)
            }
            _ => Ok(()),
        }
    }

    fn assign(&mut self, offset: usize, name: &str, value: Value<'a>) -> Result<(), Stop> {
        match self.variables.iter_mut().rev().find(|(known, _)| *known == name) {
            Some((_, known)) => {
                *known = value;
                Ok(())
            }
            None => Err((offset, RenderErrorKind::UnknownVariable(name.to_owned()))),
        }
    }

    /// Walks another template, which sees no variables but `$`.
    fn call_template(&mut self, at: usize, name: &str, dot: Value<'a>) -> Result<(), Stop> {
        let template: &'a Template = self.template;
        let Some(list) = template.list(name) else {
            return Err((at, RenderErrorKind::UnknownTemplate(name.to_owned())));
        };
        self.work(at, 1)?;
        self.enter(at)?;
        let outer = std::mem::replace(&mut self.variables, vec![("$", dot.clone())]);
        self.walk(&dot, list)?;
        self.variables = outer;
        self.depth -= 1;
        Ok(())
    }
}
