//! `tls { acme ... }`: certificates of an ACME server, and answers to its challenges.

use crate::challenges::Challenges;
use crate::config::{AcmeService, BlockBuilder, Config};
use crate::directives::DIRECTIVES;
use crate::handler::{Cx, Handle, Step};
use crate::handlers::Handler;
use crate::shared::Shared;
use nodens_corefile::{Directive, Error};
use nodens_tls::{AcmeOptions, Authorities, Managed, Server};
use nodens_wire::{Class, Rcode, Section, Type};
use std::path::Path;
use std::sync::Arc;

/// Answers the challenges, in every chain of the configuration.
#[derive(Debug)]
pub struct Tls {
    challenges: Arc<Challenges>,
}

impl Handle for Tls {
    fn answer(&self, cx: &mut Cx<'_>) -> Step {
        let q = cx.q();
        if q.qtype != Type::TXT || q.qclass != Class::IN {
            return Step::Next;
        }
        let texts = self.challenges.texts(&q.qname);
        if texts.is_empty() {
            return Step::Next;
        }
        let qname = q.qname.clone();
        let mut reply = q.reply(Rcode::NOERROR, true);
        for text in texts {
            let mut rdata = vec![u8::try_from(text.len()).unwrap_or(u8::MAX)];
            rdata.extend(text.bytes().take(usize::from(u8::MAX)));
            let fields = (Type::TXT, Class::IN, 0);
            if reply.record(Section::Answer, qname.view(), fields, &rdata).is_err() {
                break;
            }
        }
        Step::Answered
    }
}

/// Reads `tls { acme DOMAIN...; email E; ca URL; storage DIRECTORY; ca_root FILE; resolver ADDRESS }`.
pub(super) fn setup(
    directive: &Directive,
    block: &mut BlockBuilder<'_>,
) -> Result<Arc<Server>, Error> {
    let options = read(directive, block)?;
    let invalid = |text: String| Err(directive.invalid(text));
    let known = || block.services.kept.all::<Arc<Server>>();
    let acme = |server: &Arc<Server>| server.acme().cloned();
    if let Some(server) = known().find(|own| acme(own).is_some_and(|own| own.options().is_same(&options))) {
        return Ok(server.clone());
    }
    let taken = |domain: &&String| {
        known().filter_map(acme).any(|own| own.options().domains.contains(domain))
    };
    if let Some(domain) = options.domains.iter().find(taken) {
        return invalid(format!("ACME domain \"{domain}\" is configured with conflicting options"));
    }
    let managed = Arc::new(Managed::new(options));
    for domain in &managed.options().domains {
        // So that a reload has what is there before the first handshake. Whoever obtains them says what is wrong.
        _ = managed.load(domain);
    }
    let server = Server::managed(managed.clone());
    let server = Arc::new(server.map_err(|error| directive.invalid(error.to_string()))?);
    block.services.kept.add(server.clone());
    block.services.acme.get_or_insert_with(AcmeService::default).managed.push(managed);
    Ok(server)
}

fn read(directive: &Directive, block: &BlockBuilder<'_>) -> Result<AcmeOptions, Error> {
    let mut options = AcmeOptions {
        domains: Vec::new(),
        email: None,
        ca: AcmeOptions::CA.to_owned(),
        storage: absolute(block, ".coredns/acme"),
        ca_root: None,
        resolver: None,
    };
    let mut seen = Vec::new();
    for property in directive.lines() {
        let name = property.name.text.as_str();
        if seen.contains(&name) {
            let text = format!("ACME option \"{name}\" can only be specified once");
            return Err(property.invalid(text));
        }
        seen.push(name);
        property.expect_no_body()?;
        if name == "acme" {
            let words = property.expect_args_within(1..=usize::MAX)?;
            options.domains = words.iter().map(|word| word.text.clone()).collect();
            continue;
        }
        let value = || property.expect_args().map(|[value]| value.text.clone());
        match name {
            "email" => options.email = Some(value()?).filter(|email| !email.is_empty()),
            "ca" => options.ca = value()?,
            "storage" => options.storage = absolute(block, &value()?),
            "ca_root" => options.ca_root = Some(absolute(block, &value()?)),
            "resolver" => options.resolver = Some(value()?).filter(|host| !host.is_empty()),
            _ => return Err(property.invalid(format!("unknown ACME option \"{name}\""))),
        }
    }
    validate(&mut options).map_err(|text| directive.invalid(text))?;
    Ok(options)
}

/// `path` below `root`, independent of the working directory if there is one.
fn absolute(block: &BlockBuilder<'_>, path: &str) -> std::path::PathBuf {
    let path = block.path(path);
    std::path::absolute(&path).unwrap_or(path)
}

/// The texts are CoreDNS's.
fn validate(options: &mut AcmeOptions) -> Result<(), String> {
    if options.domains.is_empty() {
        return Err("ACME requires at least one domain".to_owned());
    }
    let mut domains: Vec<String> = Vec::new();
    for domain in &options.domains {
        let domain = AcmeOptions::domain(domain).map_err(|error| error.to_string())?;
        if !domains.contains(&domain) {
            domains.push(domain);
        }
    }
    options.domains = domains;
    if !is_url(&options.ca) {
        return Err(format!("invalid ACME CA URL \"{}\"", options.ca));
    }
    options.resolver.as_deref().map_or(Ok(()), resolver)?;
    options.ca_root.as_deref().map_or(Ok(()), ca_root)
}

fn is_url(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let is_known = ["https", "http"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    is_known && !host.is_empty() && text.bytes().all(|octet| octet.is_ascii_graphic())
}

fn resolver(text: &str) -> Result<(), String> {
    let invalid = |why: &str| Err(format!("invalid ACME resolver \"{text}\": {why}"));
    let Some((host, port)) = text.rsplit_once(':') else {
        return invalid("missing port in address");
    };
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    if inner.is_none() && host.contains(':') {
        return invalid("too many colons in address");
    }
    if inner.unwrap_or(host).is_empty() {
        return invalid("host is empty");
    }
    match port.parse::<u16>() {
        Ok(1..) => Ok(()),
        _ => Err(format!("invalid ACME resolver port \"{port}\"")),
    }
}

fn ca_root(path: &Path) -> Result<(), String> {
    let at = path.display();
    let octets =
        std::fs::read(path).map_err(|error| format!("reading ACME CA root \"{at}\": {error}"))?;
    if Authorities::in_text(&octets).is_empty() {
        return Err(format!("ACME CA root \"{at}\" contains no certificates"));
    }
    Ok(())
}

/// Where one block has certificates of an ACME server, the chains of all answer its challenges: it asks at
/// port 53, whatever the listener of the certificate.
pub(super) fn complete(config: &mut Config, _: &Shared) {
    let Some(acme) = &config.services.acme else { return };
    let place = |name: &str| DIRECTIVES.iter().position(|spec| spec.name == name);
    let own = place(super::SPEC.name);
    for block in &mut config.blocks {
        let later = block.handlers.iter().position(|handler| place(handler.name()) > own);
        let at = later.unwrap_or(block.handlers.len());
        let handler = Tls { challenges: acme.challenges.clone() };
        block.handlers.insert(at, Handler::Tls(handler));
    }
}
