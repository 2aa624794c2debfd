//! What clients that speak HTTP may have of a server.

use super::ServerBlock;
use crate::metrics::Counter;
use crate::shared::Shared;
use crate::transport::ListenerKind;
use nodens_corefile::{Corefile, Directive, Error, Token};

/// Connections that a listener may have where nothing is said, as in CoreDNS.
const CONNECTIONS: usize = 200;
/// The same of requests under way on a connection: DNS over HTTPS, gRPC, HTTP/3.
const STREAMS: [u32; 3] = [250, 256, 256];
/// The same over HTTP/3 for 0: CoreDNS's library has this bound.
const STREAMS_OF_QUIC: u32 = 100;

/// What a block says of them. `Some(0)` stands for no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HttpBounds {
    /// `max_connections`.
    pub connections: Option<usize>,
    /// `max_streams`: requests under way on one connection.
    pub streams: Option<u32>,
}

/// What a server that speaks HTTP has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpServer {
    /// Connections that it may have at a time; none for no bound.
    pub connections: Option<usize>,
    /// Requests that may be under way on a connection; none for no bound.
    pub streams: Option<u32>,
    /// Counts its responses, where CoreDNS does.
    pub responses: Option<HttpResponses>,
}

/// A status that responses of DNS over HTTPS have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpStatus {
    /// 200: there is a DNS message, whatever its RCODE.
    Ok,
    /// 400: there is no query in the request.
    BadRequest,
    /// 404: another path than that of queries.
    NotFound,
    /// 500: the query got no response.
    NoResponse,
}

/// A counter for each status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpResponses([Counter; HttpStatus::ALL.len()]);

impl HttpBounds {
    /// Reads a directive with `max_connections NUMBER` and `max_streams NUMBER`; as CoreDNS does, with
    /// its texts.
    ///
    /// # Errors
    /// What is not that.
    pub fn read(directive: &Directive) -> Result<Self, Error> {
        Self::read_up_to(directive, Some(u32::MAX))
    }

    /// As [`HttpBounds::read`], with any number of streams.
    ///
    /// # Errors
    /// What is not that.
    pub fn read_any(directive: &Directive) -> Result<Self, Error> {
        Self::read_up_to(directive, None)
    }

    fn read_up_to(directive: &Directive, streams_max: Option<u32>) -> Result<Self, Error> {
        directive.expect_no_args()?;
        let mut bounds = Self::default();
        for property in directive.lines() {
            let name = property.name.text.as_str();
            if !["max_connections", "max_streams"].contains(&name) {
                return Err(property.unknown_property(&["max_connections", "max_streams"]));
            }
            let [value] = property.expect_args()?;
            property.expect_no_body()?;
            let number = number(name, value)?;
            let is_known = match name {
                "max_connections" => {
                    let max = usize::try_from(number).unwrap_or(usize::MAX);
                    bounds.connections.replace(max).is_some()
                }
                _ => {
                    if let Some(max) = streams_max.filter(|max| number > u64::from(*max)) {
                        let text = format!("{name} must not exceed {max}: {number}");
                        return Err(Error::invalid(value, text));
                    }
                    let max = u32::try_from(number).unwrap_or(u32::MAX);
                    bounds.streams.replace(max).is_some()
                }
            };
            if is_known {
                let text = format!("{name} already defined for this server block");
                return Err(property.invalid(text));
            }
        }
        Ok(bounds)
    }
}

fn number(name: &str, value: &Token) -> Result<u64, Error> {
    let text = &value.text;
    let Ok(number) = text.parse::<i64>() else {
        return Err(Error::invalid(value, format!("invalid {name} value '{text}'")));
    };
    u64::try_from(number).map_err(|_| {
        Error::invalid(value, format!("{name} must be a non-negative integer: {number}"))
    })
}

impl HttpServer {
    /// For the server `label` with these blocks; none if it does not speak HTTP.
    pub(super) fn of(
        kind: ListenerKind,
        label: &str,
        blocks: &[&ServerBlock],
        shared: &Shared,
    ) -> Option<Self> {
        let first = blocks.first().map(|block| &block.settings);
        let [of_https, of_grpc, of_https3] = STREAMS;
        let (connections, streams, responses) = match kind {
            ListenerKind::Https => {
                let connections = first.and_then(|own| own.https.connections);
                let streams = blocks.iter().find_map(|block| block.settings.https.streams);
                // Without a bound of our own it is that of the library, which in Go is the same.
                let streams = streams.filter(|streams| *streams > 0).or(Some(of_https));
                (connections, streams, Some(HttpResponses::new(HTTPS, label, shared)))
            }
            ListenerKind::Https3 => {
                let own = first.map(|own| own.https3).unwrap_or_default();
                let streams = match own.streams.unwrap_or(of_https3) {
                    0 => STREAMS_OF_QUIC,
                    streams => streams,
                };
                let responses = HttpResponses::new(HTTPS3, label, shared);
                (own.connections, Some(streams), Some(responses))
            }
            ListenerKind::Grpc => {
                let own = first.map(|own| own.grpc).unwrap_or_default();
                let streams = own.streams.unwrap_or(of_grpc);
                (own.connections, Some(streams).filter(|streams| *streams > 0), None)
            }
            ListenerKind::Dns | ListenerKind::Tls | ListenerKind::Quic => return None,
        };
        let connections = Some(connections.unwrap_or(CONNECTIONS)).filter(|most| *most > 0);
        Some(Self { connections, streams, responses })
    }
}

impl HttpStatus {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Ok, Self::BadRequest, Self::NotFound, Self::NoResponse];

    /// The number.
    pub const fn code(self) -> u16 {
        match self {
            Self::Ok => 200,
            Self::BadRequest => 400,
            Self::NotFound => 404,
            Self::NoResponse => 500,
        }
    }
}

/// The name and meaning of the metric of responses, as CoreDNS has them.
type Metric = (&'static str, &'static str);
const HTTPS: Metric = (
    "coredns_dns_https_responses_total",
    "Counter of DoH responses per server and http status code.",
);
const HTTPS3: Metric = (
    "coredns_dns_https3_responses_total",
    "Counter of DoH3 responses per server and http status code.",
);

impl HttpResponses {
    fn new((name, help): Metric, server: &str, shared: &Shared) -> Self {
        Self(HttpStatus::ALL.map(|status| {
            let labels = [("server", server), ("status", &*status.code().to_string())];
            shared.registry.counter(name, help, &labels)
        }))
    }

    /// The one of `status`.
    pub const fn of(&self, status: HttpStatus) -> Counter {
        // invariant: there is one for each.
        self.0[status as usize]
    }
}

/// Refuses blocks that share a server and say different things of the requests of a connection.
pub(super) fn check<'b>(
    corefile: &Corefile,
    blocks: impl Iterator<Item = (ListenerKind, &'b ServerBlock)>,
) -> Result<(), Error> {
    let mut said: Vec<(&str, u32)> = Vec::new();
    for (_, block) in blocks.filter(|(kind, _)| *kind == ListenerKind::Https) {
        let Some(streams) = block.settings.https.streams else { continue };
        let (server, streams) = (block.server.as_str(), streams);
        let first = said.iter().find(|(own, _)| *own == server).map(|(_, streams)| *streams);
        if let Some(first) = first.filter(|first| *first != streams) {
            let text = format!(
                "conflicting max_streams values for shared HTTPS listener {server}: {first} and {streams}"
            );
            let source = corefile.blocks.get(block.source);
            if let Some(key) = source.and_then(|block| block.keys.first()) {
                return Err(Error::invalid(key, text));
            }
        }
        said.push((server, streams));
    }
    Ok(())
}
