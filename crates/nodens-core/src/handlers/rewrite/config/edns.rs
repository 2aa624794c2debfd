//! Reads `rewrite edns0`.

use super::{Words, is_label};
use crate::handlers::rewrite::edns::{Data, EdnsRule, How, NSID, SUBNET};
use crate::handlers::rewrite::rules::Action;
use nodens_corefile::{Error, Token};

pub(super) fn rule(words: &Words<'_>) -> Result<Action, Error> {
    let [kind, action, rest @ ..] = words.as_slice() else {
        return Err(words.wrong(2, "too few arguments for an EDNS0 rule: expected a type and an action"));
    };
    let how = match action.text.to_ascii_lowercase().as_str() {
        "set" => How::Set,
        "append" => How::Append,
        "replace" => How::Replace,
        "unset" => How::Unset,
        _ => return Err(Error::expected(action, "an action, one of set, append, replace, unset")),
    };
    let (revert, rest) = match rest.split_last() {
        Some((last, rest)) if last.text == "revert" && how != How::Unset => (true, rest),
        _ => (false, rest),
    };
    let (code, data) = match (kind.text.to_ascii_lowercase().as_str(), how, rest) {
        ("local", How::Unset, [code]) => (option_code(code)?, Data::Octets(Vec::new())),
        ("local", How::Unset, _) => {
            return Err(words.wrong(3, "local unset action requires exactly one option code"));
        }
        ("local", _, [code, data]) => (option_code(code)?, local_data(data)?),
        ("local", ..) => {
            return Err(words.wrong(4, "EDNS0 local rules require an option code and data"));
        }
        ("nsid", _, []) => (NSID, Data::Octets(Vec::new())),
        ("nsid", ..) => return Err(words.wrong(2, "EDNS0 NSID rules take no data")),
        ("subnet", How::Unset, []) => (SUBNET, Data::Octets(Vec::new())),
        ("subnet", How::Unset, _) => {
            return Err(words.wrong(2, "subnet unset action takes no arguments"));
        }
        ("subnet", _, [v4, v6]) => {
            let (v4, v6) = (bits(v4, 32)?, bits(v6, 128)?);
            (SUBNET, Data::Subnet { v4, v6 })
        }
        ("subnet", ..) => {
            return Err(words.wrong(4, "EDNS0 subnet rules require two prefix lengths"));
        }
        _ => return Err(Error::expected(kind, "one of local, nsid, subnet")),
    };
    Ok(Action::Edns(EdnsRule { code, how, data, revert }))
}

fn option_code(word: &Token) -> Result<u16, Error> {
    go_number(&word.text).ok_or_else(|| Error::expected(word, "an option code such as 0xffee"))
}

fn bits(word: &Token, most: u8) -> Result<u8, Error> {
    let number = go_number(&word.text).and_then(|number| u8::try_from(number).ok());
    number
        .filter(|number| *number <= most)
        .ok_or_else(|| Error::expected(word, format!("a prefix length from 0 to {most}")))
}

/// A number as Go's source code has it: decimal, `0x`, `0b`, `0o` or a leading zero for octal.
fn go_number(text: &str) -> Option<u16> {
    let lower = text.to_ascii_lowercase();
    let (digits, radix) = match lower.strip_prefix('0') {
        Some("") | None => (lower.as_str(), 10),
        Some(rest) => match rest.split_at_checked(1) {
            Some(("x", digits)) => (digits, 16),
            Some(("b", digits)) => (digits, 2),
            Some(("o", digits)) => (digits, 8),
            _ => (rest, 8),
        },
    };
    if digits.starts_with('+') {
        return None;
    }
    u16::from_str_radix(digits, radix).ok()
}

fn local_data(word: &Token) -> Result<Data, Error> {
    let text = word.text.as_str();
    if let Some(variable) = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) {
        return Ok(match variable {
            "qname" => Data::Qname,
            "qtype" => Data::Qtype,
            "client_ip" => Data::ClientIp,
            "client_port" => Data::ClientPort,
            "protocol" => Data::Protocol,
            "server_ip" => Data::ServerIp,
            "server_port" => Data::ServerPort,
            label if is_label(label) => Data::Label(label.to_owned()),
            _ => {
                let expected = "one of {qname}, {qtype}, {client_ip}, {client_port}, {protocol}, \
                    {server_ip}, {server_port} or a metadata label such as {view/name}";
                return Err(Error::expected(word, expected));
            }
        });
    }
    match text.strip_prefix("0x") {
        None => Ok(Data::Octets(text.as_bytes().to_vec())),
        Some(hex) => {
            let octets = (0..hex.len()).step_by(2).map(|at| {
                let pair = hex.get(at..at + 2).filter(|p| p.bytes().all(|b| b.is_ascii_hexdigit()));
                pair.and_then(|pair| u8::from_str_radix(pair, 16).ok())
            });
            let octets: Option<Vec<u8>> = octets.collect();
            let expected = "pairs of hexadecimal digits behind 0x";
            octets.map(Data::Octets).ok_or_else(|| Error::expected(word, expected))
        }
    }
}
