//! `chaos`: answers TXT questions of class CH about the server itself.

use crate::config::BlockBuilder;
use crate::handler::{Cx, Handle, Spec, Step};
use crate::handlers::Handler;
use nodens_corefile::{Directive, Error};
use nodens_wire::{Class, Name, NameRef, Rcode, Section, Type};

#[cfg(test)]
mod tests;

/// How the directive is read.
pub const SPEC: Spec = Spec::new("chaos", setup);

/// The longest character-string (RFC 1035 section 3.3), in octets.
const TEXT_MAX: usize = 255;

/// The directive at work.
#[derive(Debug)]
pub struct Chaos {
    authors_bind: Name,
    /// Names that ask for one text, with the RDATA of its TXT record.
    texts: Vec<(Name, Vec<u8>)>,
    /// RDATA of TXT records.
    authors: Vec<Vec<u8>>,
}

/// Reads `chaos [VERSION] [AUTHOR…]`. As in CoreDNS only the first one of a block counts.
fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    if let Some(line) = directive.lines().first() {
        return Err(line.unknown_property(&[]));
    }
    let words: Vec<_> = directive.args().iter().map(|word| word.text.as_str()).collect();
    let (version, mut authors) = match words.split_first() {
        None => (concat!("Nodens-", env!("CARGO_PKG_VERSION")), Vec::new()),
        Some((version, authors)) => (*version, authors.to_vec()),
    };
    if authors.is_empty() {
        authors.push("The Nodens authors");
    }
    authors.sort_unstable();
    authors.dedup();
    let name = |text: &str| Name::parse(text).map_err(|error| directive.invalid(error.to_string()));
    let (version, hostname) = (txt_rdata(version), txt_rdata(&block.options.hostname));
    let chaos = Chaos {
        authors_bind: name("authors.bind")?,
        texts: vec![
            (name("version.bind")?, version.clone()),
            (name("version.server")?, version),
            (name("hostname.bind")?, hostname.clone()),
            (name("id.server")?, hostname),
        ],
        authors: authors.into_iter().map(txt_rdata).collect(),
    };
    if !block.handlers.iter().any(|handler| matches!(handler, Handler::Chaos(_))) {
        block.push(chaos);
    }
    Ok(())
}

/// One character-string; what is too long for it is cut off.
fn txt_rdata(text: &str) -> Vec<u8> {
    let text = text.as_bytes();
    let text = text.get(..TEXT_MAX).unwrap_or(text);
    let mut rdata = vec![text.len() as u8];
    rdata.extend_from_slice(text);
    rdata
}

impl Handle for Chaos {
    const ANSWERS_OTHER_CLASSES: bool = true;

    fn answer(&self, cx: &mut Cx<'_>) -> Step {
        if cx.q().qclass != Class::CH || cx.q().qtype != Type::TXT {
            return Step::Next;
        }
        if cx.q().qname == self.authors_bind {
            let mut authors: Vec<_> = self.authors.iter().collect();
            cx.worker.rng.shuffle(&mut authors);
            answer_with(cx, &authors);
            return Step::Answered;
        }
        match self.texts.iter().find(|(name, _)| *name == cx.job.current.qname) {
            None => Step::Next,
            Some((_, text)) => {
                answer_with(cx, &[text]);
                Step::Answered
            }
        }
    }
}

fn answer_with(cx: &mut Cx<'_>, texts: &[&Vec<u8>]) {
    let q = cx.q();
    let qname = q.qname.clone();
    let owner: NameRef<'_> = qname.view();
    let mut builder = q.reply(Rcode::NOERROR, false);
    for text in texts {
        if builder.record(Section::Answer, owner, (Type::TXT, Class::CH, 0), text).is_err() {
            // More authors than a message holds: the rest of a random order is left out.
            break;
        }
    }
}
