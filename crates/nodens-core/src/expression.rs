//! What the expressions of `view` and `template` may ask about a question.

use crate::metadata;
use nodens_corefile::take::Cidr;
use nodens_expr::{CallError, Context, Environment, Type, Value};
use std::cell::OnceCell;
use std::net::{IpAddr, SocketAddr};

/// A number for each function; numbers from [`FUNCTIONS_END`] on are free for others.
const INCIDR: usize = 0;
const METADATA: usize = 1;
const TYPE: usize = 2;
const NAME: usize = 3;
const CLASS: usize = 4;
const PROTO: usize = 5;
const SIZE: usize = 6;
const CLIENT_IP: usize = 7;
const PORT: usize = 8;
const ID: usize = 9;
const OPCODE: usize = 10;
const DO: usize = 11;
const BUFSIZE: usize = 12;
const SERVER_IP: usize = 13;
const SERVER_PORT: usize = 14;
/// The first number that stands for no function here.
pub const FUNCTIONS_END: usize = 15;

/// The functions that every expression has.
pub fn environment() -> Environment {
    let strings = [
        ("type", TYPE),
        ("name", NAME),
        ("class", CLASS),
        ("proto", PROTO),
        ("client_ip", CLIENT_IP),
        ("port", PORT),
        ("server_ip", SERVER_IP),
        ("server_port", SERVER_PORT),
    ];
    let numbers = [("size", SIZE), ("id", ID), ("opcode", OPCODE), ("bufsize", BUFSIZE)];
    let environment = Environment::new()
        .with_function("incidr", INCIDR, &[Type::Str, Type::Str], Type::Bool)
        .with_function("metadata", METADATA, &[Type::Str], Type::Str)
        .with_function("do", DO, &[], Type::Bool);
    let add =
        |of: Type| move |all: Environment, (name, id)| all.with_function(name, id, &[], of.clone());
    let environment = strings.into_iter().fold(environment, add(Type::Str));
    numbers.into_iter().fold(environment, add(Type::Int))
}

/// The facts of one question. Text is made when it is asked for, and once.
pub struct Facts<'j> {
    source: metadata::Source<'j>,
    name: OnceCell<String>,
    client_ip: OnceCell<String>,
    port: OnceCell<String>,
    server_ip: OnceCell<String>,
    server_port: OnceCell<String>,
}

impl<'j> Facts<'j> {
    /// The facts of the current question of the source's job.
    pub fn new(source: metadata::Source<'j>) -> Self {
        let [name, client_ip, port, server_ip, server_port] = [const { OnceCell::new() }; 5];
        Self { source, name, client_ip, port, server_ip, server_port }
    }

    /// The name being looked up, in lower case, with its final dot.
    pub fn name(&self) -> &str {
        self.name.get_or_init(|| self.source.job.current.qname.to_folded().to_string())
    }

    /// The client's address.
    pub fn client_ip(&self) -> &str {
        self.client_ip.get_or_init(|| ip(self.source.job.client().peer))
    }

    /// The value of a metadata label; empty if nothing knows it.
    pub fn metadata(&self, label: &str) -> String {
        self.source.value(label).unwrap_or_default()
    }

    fn proto(&self) -> &'static str {
        self.source.job.client().transport.name()
    }

    fn bufsize(&self) -> i64 {
        let job = self.source.job;
        job.client().transport.max_message(job.query.udp_size()).into()
    }
}

impl Context for Facts<'_> {
    fn call<'a>(
        &'a self,
        function: usize,
        arguments: &[Value<'a>],
    ) -> Result<Value<'a>, CallError> {
        let (job, client) = (self.source.job, self.source.job.client());
        Ok(match function {
            INCIDR => Value::from(in_cidr(arguments)?),
            METADATA => match arguments {
                [Value::Str(label)] => Value::from(self.metadata(label)),
                _ => Value::from(""),
            },
            TYPE => match job.current.qtype.mnemonic() {
                Some(mnemonic) => Value::from(mnemonic),
                None => Value::from(job.current.qtype.to_string()),
            },
            NAME => Value::from(self.name()),
            CLASS => match job.current.qclass.unambiguous() {
                Some(mnemonic) => Value::from(mnemonic),
                None => Value::from(job.current.qclass.to_string()),
            },
            PROTO => Value::from(self.proto()),
            SIZE => Value::from(job.request.len()),
            CLIENT_IP => Value::from(self.client_ip()),
            PORT => Value::from(self.port.get_or_init(|| client.peer.port().to_string()).as_str()),
            ID => Value::from(job.query.id),
            OPCODE => Value::from(i64::from(job.current.flags.opcode().0)),
            DO => Value::from(job.current.dnssec_ok()),
            BUFSIZE => Value::from(self.bufsize()),
            SERVER_IP => Value::from(self.server_ip.get_or_init(|| ip(client.local)).as_str()),
            SERVER_PORT => {
                let port = self.server_port.get_or_init(|| client.local.port().to_string());
                Value::from(port.as_str())
            }
            other => return Err(CallError::new(format!("function {other} does not exist"))),
        })
    }
}

fn ip(address: SocketAddr) -> String {
    address.ip().to_canonical().to_string()
}

fn in_cidr(arguments: &[Value<'_>]) -> Result<bool, CallError> {
    let [Value::Str(address), Value::Str(prefix)] = arguments else {
        return Err(CallError::new("expected an address and a prefix"));
    };
    let address: IpAddr =
        address.parse().map_err(|_| CallError::new("first argument is not an IP address"))?;
    let prefix: Cidr = prefix
        .parse()
        .map_err(|error| CallError::new(format!("second argument `{}`: {error}", &**prefix)))?;
    Ok(prefix.contains(address.to_canonical()))
}
