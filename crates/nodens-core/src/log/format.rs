//! Log formats: text with placeholders, read once, filled in per line.

use super::QueryRecord;
use nodens_wire::Flags;
use std::fmt::Write;
use std::net::SocketAddr;

/// `{common}`, and what is used where no format is given.
pub const COMMON: &str = "{remote}:{port} - {>id} \"{type} {class} {name} {proto} {size} {>do} {>bufsize}\" {rcode} {>rflags} {rsize} {duration}";
/// What `{combined}` has more than `{common}`.
const COMBINED_TAIL: &str = " \"{>opcode}\"";
/// Stands for a value there is none of.
pub const EMPTY: &str = "-";

/// A format, taken apart.
#[derive(Debug)]
pub struct Format {
    segments: Vec<Segment>,
}

#[derive(Debug)]
enum Segment {
    Literal(String),
    Field(Field),
    /// `{/label}`: a metadata label.
    Metadata(String),
}

#[derive(Clone, Copy, Debug)]
enum Field {
    Type,
    Name,
    Class,
    Proto,
    Size,
    Remote,
    Port,
    Local,
    Id,
    Opcode,
    Do,
    Bufsize,
    Rcode,
    ResponseSize,
    Duration,
    ResponseFlags,
}

const FIELDS: &[(&str, Field)] = &[
    ("{type}", Field::Type),
    ("{name}", Field::Name),
    ("{class}", Field::Class),
    ("{proto}", Field::Proto),
    ("{size}", Field::Size),
    ("{remote}", Field::Remote),
    ("{port}", Field::Port),
    ("{local}", Field::Local),
    ("{>id}", Field::Id),
    ("{>opcode}", Field::Opcode),
    ("{>do}", Field::Do),
    ("{>bufsize}", Field::Bufsize),
    ("{rcode}", Field::Rcode),
    ("{rsize}", Field::ResponseSize),
    ("{duration}", Field::Duration),
    ("{>rflags}", Field::ResponseFlags),
];

impl Format {
    /// Takes `text` apart. What is in braces and no placeholder stays as it is.
    pub fn new(text: &str) -> Self {
        let combined = format!("{COMMON}{COMBINED_TAIL}");
        let text = text.replace("{common}", COMMON).replace("{combined}", &combined);
        let mut segments = Vec::new();
        let mut literal = String::new();
        let mut rest = text.as_str();
        while let Some(close) = rest.find('}') {
            let (head, tail) = rest.split_at(close + 1);
            rest = tail;
            let open = head.rfind('{').unwrap_or(head.len());
            let (before, placeholder) = head.split_at(open);
            let Some(segment) = placeholder_segment(placeholder) else {
                literal.push_str(head);
                continue;
            };
            literal.push_str(before);
            if !literal.is_empty() {
                segments.push(Segment::Literal(std::mem::take(&mut literal)));
            }
            segments.push(segment);
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            segments.push(Segment::Literal(literal));
        }
        Self { segments }
    }

    /// The same for what is no answer: what would be about one is `-`.
    pub fn of_question(text: &str) -> Self {
        let mut format = Self::new(text);
        for segment in &mut format.segments {
            let of_answer = matches!(
                segment,
                Segment::Field(
                    Field::Rcode | Field::ResponseSize | Field::Duration | Field::ResponseFlags
                )
            );
            if of_answer {
                *segment = Segment::Literal(EMPTY.to_owned());
            }
        }
        format
    }

    /// The labels of the `{/label}` placeholders.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Metadata(label) => Some(label.as_str()),
            _ => None,
        })
    }

    pub(super) fn render(&self, record: &QueryRecord) -> String {
        let mut out = String::with_capacity(128);
        let mut metadata = record.metadata.iter();
        for segment in &self.segments {
            match segment {
                Segment::Literal(text) => out.push_str(text),
                Segment::Field(field) => render_field(&mut out, *field, record),
                Segment::Metadata(_) => {
                    out.push_str(metadata.next().map_or(EMPTY, String::as_str));
                }
            }
        }
        out
    }
}

fn placeholder_segment(text: &str) -> Option<Segment> {
    if let Some((_, field)) = FIELDS.iter().find(|(name, _)| *name == text) {
        return Some(Segment::Field(*field));
    }
    let label = text.strip_prefix("{/")?.strip_suffix('}')?;
    Some(Segment::Metadata(label.to_owned()))
}

fn render_field(out: &mut String, field: Field, record: &QueryRecord) {
    // Writing to a String cannot fail.
    _ = match field {
        Field::Type => write!(out, "{}", record.qtype),
        Field::Name => write!(out, "{}", record.qname.to_folded()),
        Field::Class => write!(out, "{}", record.class()),
        Field::Proto => write!(out, "{}", record.protocol()),
        Field::Size => write!(out, "{}", record.size),
        Field::Remote => write_host(out, record.peer),
        Field::Port => write!(out, "{}", record.peer.port()),
        Field::Local => write_host(out, record.local),
        Field::Id => write!(out, "{}", record.id),
        Field::Opcode => write!(out, "{}", record.opcode.0),
        Field::Do => write!(out, "{}", record.dnssec_ok),
        Field::Bufsize => write!(out, "{}", record.bufsize),
        Field::Rcode => {
            write!(out, "{}", record.response_code().unwrap_or_else(|| EMPTY.to_owned()))
        }
        Field::ResponseSize => write!(out, "{}", record.response_size),
        Field::Duration => write!(out, "{}s", record.took.as_secs_f64()),
        Field::ResponseFlags => match record.response {
            Some((_, flags)) => write_flags(out, flags),
            None => write!(out, "{EMPTY}"),
        },
    };
}

/// An IPv6 address stands in brackets, so that a port may follow.
fn write_host(out: &mut String, address: SocketAddr) -> std::fmt::Result {
    match address.ip().to_canonical() {
        std::net::IpAddr::V4(ip) => write!(out, "{ip}"),
        std::net::IpAddr::V6(ip) => write!(out, "[{ip}]"),
    }
}

fn write_flags(out: &mut String, flags: Flags) -> std::fmt::Result {
    const NAMES: [(u16, &str); 8] = [
        (Flags::QR, "qr"),
        (Flags::AA, "aa"),
        (Flags::TC, "tc"),
        (Flags::RD, "rd"),
        (Flags::RA, "ra"),
        (Flags::Z, "z"),
        (Flags::AD, "ad"),
        (Flags::CD, "cd"),
    ];
    let mut comma = "";
    for (_, name) in NAMES.iter().filter(|(mask, _)| flags.has(*mask)) {
        write!(out, "{comma}{name}")?;
        comma = ",";
    }
    Ok(())
}
