//! Values of pipelines, commands and operands.

use super::State;
use super::Stop;
use super::builtin::Builtin;
use crate::ast::{Command, Number, Operand, OperandKind, Pipeline};
use crate::error::RenderErrorKind;
use crate::format::Limited;
use crate::value::{Object, Parameter, Shape, Value};

impl<'a> State<'a, '_> {
    /// The last command's value, which the pipeline's variables take.
    pub(super) fn pipeline(
        &mut self,
        dot: &Value<'a>,
        pipeline: &'a Pipeline,
    ) -> Result<Value<'a>, Stop> {
        let mut value = None;
        for command in &pipeline.commands {
            let next = self.command(dot, command, value.take())?;
            value = Some(if matches!(next, Value::Nil) { Value::Missing } else { next });
        }
        let value = value.unwrap_or_default();
        for variable in &pipeline.variables {
            if pipeline.assigns {
                self.assign(pipeline.offset, variable, value.clone())?;
            } else {
                self.variables.push((variable, value.clone()));
            }
        }
        Ok(value)
    }

    /// `last` is the value of the command before, which becomes the last argument.
    fn command(
        &mut self,
        dot: &Value<'a>,
        command: &'a Command,
        last: Option<Value<'a>>,
    ) -> Result<Value<'a>, Stop> {
        let first = &command.first;
        let arguments = Arguments { operands: &command.arguments, last };
        self.call(dot, first, arguments)
    }

    /// An operand's value without arguments of its own.
    fn operand(&mut self, dot: &Value<'a>, operand: &'a Operand) -> Result<Value<'a>, Stop> {
        self.call(dot, operand, Arguments { operands: &[], last: None })
    }

    fn call(
        &mut self,
        dot: &Value<'a>,
        operand: &'a Operand,
        arguments: Arguments<'a>,
    ) -> Result<Value<'a>, Stop> {
        let offset = operand.offset;
        self.work(offset, 1)?;
        match &operand.kind {
            OperandKind::Function(function) => self.function(dot, offset, *function, arguments),
            OperandKind::Field(fields) => self.fields(dot, offset, dot.clone(), fields, arguments),
            OperandKind::Variable { name, fields } if !fields.is_empty() => {
                let of = self.variable(offset, name)?;
                self.fields(dot, offset, of, fields, arguments)
            }
            OperandKind::Chain { of, fields } => {
                let of = self.operand(dot, of)?;
                self.fields(dot, offset, of, fields, arguments)
            }
            _ if !arguments.is_empty() => {
                Err((offset, RenderErrorKind::TakesNoArguments(operand.to_string())))
            }
            OperandKind::Variable { name, .. } => self.variable(offset, name),
            OperandKind::Pipeline(pipeline) => {
                self.enter(offset)?;
                let value = self.pipeline(dot, pipeline)?;
                self.depth -= 1;
                Ok(value)
            }
            OperandKind::Dot => Ok(dot.clone()),
            OperandKind::Nil => Err((offset, RenderErrorKind::BareNil)),
            OperandKind::Bool(value) => Ok(Value::Bool(*value)),
            OperandKind::Number(number) => untyped(offset, number),
            OperandKind::Str { value, .. } => Ok(Value::from(value.as_str())),
        }
    }

    fn variable(&self, offset: usize, name: &str) -> Result<Value<'a>, Stop> {
        match self.variables.iter().rev().find(|(known, _)| *known == name) {
            Some((_, value)) => Ok(value.clone()),
            None => Err((offset, RenderErrorKind::UnknownVariable(name.to_owned()))),
        }
    }

    /// Fields of fields; the last one, if it is a method, gets the arguments.
    fn fields(
        &mut self,
        dot: &Value<'a>,
        offset: usize,
        of: Value<'a>,
        fields: &'a [String],
        arguments: Arguments<'a>,
    ) -> Result<Value<'a>, Stop> {
        let mut value = of;
        let mut arguments = Some(arguments);
        for (position, field) in fields.iter().enumerate() {
            let last = position + 1 == fields.len();
            let given = if last { arguments.take() } else { None };
            self.work(offset, 1)?;
            value = self.field(dot, offset, value, field, given.unwrap_or_default())?;
        }
        Ok(value)
    }

    fn field(
        &mut self,
        dot: &Value<'a>,
        offset: usize,
        of: Value<'a>,
        field: &'a str,
        arguments: Arguments<'a>,
    ) -> Result<Value<'a>, Stop> {
        match of {
            Value::Missing => return Ok(Value::Missing),
            Value::Nil | Value::NilObject => {
                return Err((offset, RenderErrorKind::FieldOfNil(field.to_owned())));
            }
            Value::Object(object) => {
                if let Some(parameters) = object.method(field) {
                    return self.method(dot, offset, object, field, parameters, arguments);
                }
            }
            _ => {}
        }
        let value = match &of {
            Value::Map(values) => values.get(field).cloned(),
            Value::Object(object) => object.field(field),
            _ => None,
        };
        if value.is_none() && of.shape() != Some(Shape::Map) {
            let type_name = of.type_name().to_owned();
            let field = field.to_owned();
            return Err((offset, RenderErrorKind::UnknownField { field, type_name }));
        }
        if !arguments.is_empty() {
            return Err((offset, RenderErrorKind::TakesNoArguments(format!("field .{field}"))));
        }
        Ok(value.unwrap_or_default())
    }

    fn method(
        &mut self,
        dot: &Value<'a>,
        offset: usize,
        object: &'a dyn Object,
        name: &'a str,
        parameters: &[Parameter],
        arguments: Arguments<'a>,
    ) -> Result<Value<'a>, Stop> {
        let count = arguments.count();
        if count != parameters.len() {
            return Err((offset, wrong_count(name, parameters.len().to_string(), count)));
        }
        let values =
            self.arguments(dot, offset, arguments, |position| parameters.get(position).copied())?;
        object.call(name, &values).map_err(|error| (offset, refused(name, error.0)))
    }

    fn function(
        &mut self,
        dot: &Value<'a>,
        offset: usize,
        function: Builtin,
        arguments: Arguments<'a>,
    ) -> Result<Value<'a>, Stop> {
        let name = function.name();
        let (least, most) = function.arity();
        let count = arguments.count();
        if count < least || most.is_some_and(|most| count > most) {
            let expected = match most {
                Some(most) if most == least => least.to_string(),
                Some(most) => format!("{least} to {most}"),
                None => format!("at least {least}"),
            };
            return Err((offset, wrong_count(name, expected, count)));
        }
        if let Builtin::And | Builtin::Or = function {
            return self.and_or(dot, function == Builtin::Or, arguments);
        }
        let values =
            self.arguments(dot, offset, arguments, |position| Some(function.parameter(position)))?;
        let mut text = String::new();
        let mut room = Limited::new(&mut text, self.work_left);
        let result = function.call(&values, &mut room);
        let full = room.is_full();
        let value = match result {
            Ok(Some(value)) => value,
            Ok(None) => {
                self.work(offset, text.len())?;
                return Ok(Value::from(text));
            }
            Err(_) if full => return Err((offset, RenderErrorKind::WorkLimit)),
            Err(error) => return Err((offset, refused(name, error.0))),
        };
        if let Value::List(values) = &value {
            self.work(offset, values.len())?;
        }
        Ok(value)
    }

    /// The first value that decides, or the last one; what follows is not evaluated.
    fn and_or(
        &mut self,
        dot: &Value<'a>,
        or: bool,
        arguments: Arguments<'a>,
    ) -> Result<Value<'a>, Stop> {
        let mut value = Value::Missing;
        for operand in arguments.operands {
            value = self.argument(dot, operand, Parameter::Any)?;
            if value.is_true() == or {
                return Ok(value);
            }
        }
        Ok(arguments.last.unwrap_or(value))
    }

    fn arguments(
        &mut self,
        dot: &Value<'a>,
        offset: usize,
        arguments: Arguments<'a>,
        parameter: impl Fn(usize) -> Option<Parameter>,
    ) -> Result<Vec<Value<'a>>, Stop> {
        let mut values = Vec::with_capacity(arguments.count());
        for operand in arguments.operands {
            let parameter = parameter(values.len()).unwrap_or(Parameter::Any);
            values.push(self.argument(dot, operand, parameter)?);
        }
        if let Some(last) = arguments.last {
            let parameter = parameter(values.len()).unwrap_or(Parameter::Any);
            values.push(typed(offset, last, parameter)?);
        }
        Ok(values)
    }

    /// An operand as an argument. Literals take the parameter's type where they can.
    fn argument(
        &mut self,
        dot: &Value<'a>,
        operand: &'a Operand,
        parameter: Parameter,
    ) -> Result<Value<'a>, Stop> {
        match (&operand.kind, parameter) {
            (OperandKind::Nil, Parameter::Any) => Ok(Value::Missing),
            (OperandKind::Number(number), Parameter::Int) => match number.int {
                Some(value) => Ok(Value::Int(value)),
                None => Err(wrong_type(operand.offset, parameter, operand.to_string())),
            },
            (OperandKind::Nil | OperandKind::Number(_), Parameter::Str)
            | (OperandKind::Nil, Parameter::Int) => {
                Err(wrong_type(operand.offset, parameter, operand.to_string()))
            }
            _ => {
                let value = self.operand(dot, operand)?;
                typed(operand.offset, value, parameter)
            }
        }
    }
}

/// What a command gives to its first operand.
#[derive(Default)]
struct Arguments<'a> {
    operands: &'a [Operand],
    /// The value from the pipeline.
    last: Option<Value<'a>>,
}

impl Arguments<'_> {
    fn count(&self) -> usize {
        self.operands.len() + usize::from(self.last.is_some())
    }

    fn is_empty(&self) -> bool {
        self.count() == 0
    }
}

/// A number literal where no type is asked for.
fn untyped<'a>(offset: usize, number: &Number) -> Result<Value<'a>, Stop> {
    match (number.is_float, number.float, number.int) {
        (true, Some(value), _) => Ok(Value::Float(value)),
        (_, _, Some(value)) => Ok(Value::Int(value)),
        _ => Err((offset, RenderErrorKind::Overflow(number.text.clone()))),
    }
}

fn typed<'a>(offset: usize, value: Value<'a>, parameter: Parameter) -> Result<Value<'a>, Stop> {
    match (parameter, &value) {
        (Parameter::Any, _) | (Parameter::Str, Value::Str(_)) | (Parameter::Int, Value::Int(_)) => {
            Ok(value)
        }
        _ => Err(wrong_type(offset, parameter, value.type_name().to_owned())),
    }
}

fn wrong_type(offset: usize, parameter: Parameter, found: String) -> Stop {
    (offset, RenderErrorKind::ArgumentType { expected: parameter.name(), found })
}

fn wrong_count(function: &str, expected: String, found: usize) -> RenderErrorKind {
    RenderErrorKind::ArgumentCount { function: function.to_owned(), expected, found }
}

fn refused(function: &str, reason: String) -> RenderErrorKind {
    RenderErrorKind::Call { function: function.to_owned(), reason }
}
