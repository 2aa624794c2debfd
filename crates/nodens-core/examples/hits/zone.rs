//! The zone that is asked for.

/// Names with an address; those asked for are among them.
const NAMES: usize = 10_000;
/// Zones that it delegates.
const CUTS: usize = 1_000;

/// A zone with names that have an address, and with zones that it delegates to four servers, two of them below the
/// cut. Signatures are as long as real ones; nobody verifies them.
pub(crate) fn text(is_signed: bool) -> String {
    let mut zone = Zone { text: "$TTL 60\n".to_owned(), owners: Vec::new(), is_signed };
    let soa = "ns hostmaster 1 7200 1800 86400 30";
    zone.add("@", &[("SOA", soa), ("NS", "ns"), ("DNSKEY", "257 3 13 AAEC")]);
    zone.add("ns", &[("A", "10.0.0.1")]);
    for n in 0..NAMES {
        let address = format!("10.0.{}.{}", n / 256, n % 256);
        zone.add(&format!("service-{n}.team-{}", n % 7), &[("A", &address)]);
    }
    for n in 0..CUTS {
        let own = ["a", "b"].map(|host| format!("{host}.ns.below-{n}"));
        let [a, b] = &own;
        let others = [("NS", "c.ns.example.net."), ("NS", "d.ns.example.net.")];
        zone.add(&format!("below-{n}"), &[[("NS", a.as_str()), ("NS", b)], others].concat());
        for host in &own {
            zone.text += &format!("{host} A 10.1.0.1\n{host} AAAA 2001:db8::1\n");
        }
    }
    if is_signed {
        zone.chain();
    }
    zone.text
}

struct Zone {
    text: String,
    owners: Vec<String>,
    is_signed: bool,
}

impl Zone {
    fn add(&mut self, owner: &str, records: &[(&str, &str)]) {
        self.owners.push(owner.to_owned());
        for (rtype, rdata) in records {
            self.text += &format!("{owner} {rtype} {rdata}\n");
            self.sign(owner, rtype);
        }
    }

    fn sign(&mut self, owner: &str, rtype: &str) {
        if self.is_signed {
            let dates = "20300101000000 20200101000000 1 svc.cluster.local.";
            let signature = "A".repeat(86) + "==";
            self.text += &format!("{owner} RRSIG {rtype} 13 5 60 {dates} {signature}\n");
        }
    }

    /// The chain of NSEC records, in canonical order (RFC 4034 section 6.1).
    fn chain(&mut self) {
        let mut owners = std::mem::take(&mut self.owners);
        let labels = |name: &String| name.rsplit('.').map(str::to_owned).collect::<Vec<_>>();
        owners.sort_by_cached_key(labels);
        for (owner, next) in owners.iter().zip(owners.iter().cycle().skip(1)) {
            self.text += &format!("{owner} NSEC {next} A RRSIG NSEC\n");
            self.sign(owner, "NSEC");
        }
    }
}
