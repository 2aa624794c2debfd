//! The lookup beside the algorithm of RFC 1034 section 4.3.2 written step by step over a list of
//! records, with random zones, questions and changes. `NODENS_ZONE_CASES` is how many zones (150).

use super::*;
use crate::zone::Advance;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Zones by default.
const CASES: u32 = 150;

/// Labels from left to right, in lower case, without those of the origin.
type Labels = Vec<&'static str>;

/// A record: its owner, its type, and which of two values it has.
pub(super) type Line = (Labels, Type, bool);

const TYPES: [Type; 9] = [
    Type::A,
    Type::NS,
    Type::CNAME,
    Type::TXT,
    Type::DS,
    Type::DNAME,
    Type::NSEC,
    Type::RRSIG,
    Type::AAAA,
];

fn labels(longest: usize) -> impl Strategy<Value = Labels> {
    // One label is the beginning of another, one sorts before letters and one behind them.
    let label = prop::sample::select(vec!["a", "b", "aa", "*", "*", "\\000", "~"]);
    prop::collection::vec(label, 0..longest)
}

pub(super) fn line() -> impl Strategy<Value = Line> {
    let rtype = prop::sample::select(vec![
        Type::A,
        Type::A,
        Type::A,
        Type::NS,
        Type::CNAME,
        Type::TXT,
        Type::DS,
        Type::DNAME,
        Type::NSEC,
        Type::RRSIG,
    ]);
    (labels(5), rtype, any::<bool>())
}

fn full_name(labels: &Labels) -> Name {
    name(
        &labels
            .iter()
            .map(|label| format!("{label}."))
            .chain(["z.".to_owned()])
            .collect::<String>(),
    )
}

pub(super) fn to_record((labels, rtype, second): &Line) -> Record {
    let target = name(if *second { "t2." } else { "t1." });
    let rdata = match *rtype {
        Type::RRSIG => {
            [&[0, if *second { 1 } else { 16 }][..], &[0; 16], target.as_wire()].concat()
        }
        Type::A => vec![192, 0, 2, u8::from(*second)],
        Type::NSEC => [target.as_wire(), &[0, 1, 0x40]].concat(),
        Type::TXT | Type::DS => vec![1, if *second { b'2' } else { b'1' }],
        _ => target.as_wire().to_vec(),
    };
    Record { owner: full_name(labels), rtype: *rtype, class: Class::IN, ttl: 60, rdata }
}

/// The plain model.
struct Model<'l> {
    lines: &'l BTreeSet<Line>,
}

impl Model<'_> {
    fn has(&self, at: &[&'static str], rtype: Type) -> usize {
        self.lines.iter().filter(|(owner, other, _)| owner == at && *other == rtype).count()
    }

    fn exists(&self, at: &[&'static str]) -> bool {
        at.is_empty() || self.lines.iter().any(|(owner, _, _)| owner.ends_with(at))
    }

    fn is_apex(at: &[&'static str]) -> bool {
        at.is_empty()
    }

    /// Whether a name above belongs to others or is another name.
    fn is_hidden(&self, at: &[&'static str]) -> bool {
        (1..=at.len()).any(|labels| {
            let above = &at[labels..];
            self.has(above, Type::DNAME) > 0
                || !Self::is_apex(above) && self.has(above, Type::NS) > 0
        })
    }

    fn answer(&self, qname: &[&'static str], qtype: Type) -> String {
        let full = |at: &[&'static str]| full_name(&at.to_vec());
        let target = |at: &[&'static str], rtype: Type| {
            let has = |second: bool| self.lines.contains(&(at.to_vec(), rtype, second));
            // Of two it is the one that was added first.
            ["t1.", "t2.", "t?."][usize::from(has(true)) + usize::from(has(true) && has(false))]
        };
        // Step 3: match down, label by label.
        for depth in 0..=qname.len() {
            let at = &qname[qname.len() - depth..];
            let is_last = depth == qname.len();
            let ns = self.has(at, Type::NS);
            // 3b.
            if !Self::is_apex(at) && ns > 0 && !(is_last && qtype == Type::DS) {
                let ds = self.has(at, Type::DS) > 0;
                return format!("referral {} NSx{ns} DS {ds}", full(at));
            }
            // 3a.
            if is_last {
                return self.at(at, qtype, "", &target);
            }
            // 3c, with RFC 6672 section 3.2.
            if self.has(at, Type::DNAME) > 0 {
                return format!("{} DNAME {}", full(at), target(at, Type::DNAME));
            }
            if !self.exists(&qname[qname.len() - depth - 1..]) {
                let wildcard = [&["*"], at].concat();
                if !self.exists(&wildcard) {
                    return format!("NXDOMAIN below {}", full(at));
                }
                return self.at(&wildcard, qtype, &format!(" by {}", full(&wildcard)), &target);
            }
        }
        unreachable!()
    }

    fn at(
        &self,
        at: &[&'static str],
        qtype: Type,
        by: &str,
        target: &dyn Fn(&[&'static str], Type) -> &'static str,
    ) -> String {
        if qtype == Type::ANY {
            let here = |rtype: Type| usize::from(rtype != Type::RRSIG && self.has(at, rtype) > 0);
            let signatures = self.has(at, Type::RRSIG);
            let soa = usize::from(Self::is_apex(at));
            let sets = TYPES.into_iter().map(here).sum::<usize>() + signatures + soa;
            return if sets == 0 { format!("NODATA{by}") } else { format!("{sets} sets{by}") };
        }
        if qtype == Type::RRSIG {
            let signatures = self.has(at, Type::RRSIG);
            return if signatures == 0 {
                format!("NODATA{by}")
            } else {
                format!("{signatures} sets{by}")
            };
        }
        let alias = self.has(at, Type::CNAME) > 0;
        let is_server = qtype == Type::NS && Self::is_apex(at) && self.has(at, qtype) > 0;
        if alias && !is_server && !matches!(qtype, Type::CNAME | Type::NSEC) {
            return format!("CNAME {}{by}", target(at, Type::CNAME));
        }
        match self.has(at, qtype) {
            0 => format!("NODATA{by}"),
            count => format!("{} {qtype}x{count}{by}", full_name(&at.to_vec())),
        }
    }

    /// The last name up to this one that has an NSEC record and is answered from it.
    fn nsec(&self, name: &Name) -> Option<String> {
        let with_nsec = self.lines.iter().filter(|(owner, rtype, _)| {
            *rtype == Type::NSEC && !self.is_hidden(owner) && full_name(owner) <= *name
        });
        with_nsec.map(|(owner, _, _)| full_name(owner)).max().map(|owner| owner.to_string())
    }
}

pub(super) fn build<'l>(lines: impl IntoIterator<Item = &'l Line>) -> Data {
    let mut edit = Edit::new(name("z.").view(), Class::IN);
    edit.add((&record("@ SOA ns.z. host.z. 1 2 3 4 300")).into()).unwrap();
    for line in lines {
        assert!(edit.add((&to_record(line)).into()).unwrap());
    }
    edit.finish().unwrap()
}

/// As [`ask`], with names in order of what the model knows.
fn found(data: &Data, qname: &Labels, qtype: Type) -> String {
    let text = ask(data, &full_name(qname).to_string(), qtype);
    if !matches!(qtype, Type::ANY | Type::RRSIG)
        || !matches!(data.lookup(full_name(qname).view(), qtype), Found::Several { .. })
    {
        return text;
    }
    let (types, by) = text
        .split_once(" by")
        .map_or((&text[..], String::new()), |(types, by)| (types, format!(" by{by}")));
    format!("{} sets{by}", types.split('+').count())
}

/// Every record, in order.
fn all(data: &Data) -> Vec<String> {
    let mut cursor = data.cursor();
    let mut all = Vec::new();
    loop {
        match cursor.advance() {
            Advance::Record => {
                let record = cursor.record().unwrap();
                let (owner, rtype, ttl) = (record.owner, record.rtype, record.ttl);
                all.push(format!("{owner} {ttl} {rtype} {:?}", record.rdata));
            }
            Advance::Nothing => assert!(cursor.record().is_none()),
            Advance::End => return all,
        }
    }
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}

pub(super) fn cases(divisor: u32) -> ProptestConfig {
    let cases = std::env::var("NODENS_ZONE_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig::with_cases(cases.unwrap_or(CASES).div_ceil(divisor))
}

/// Names in the zone, beside it, above and below.
fn questions(lines: &BTreeSet<Line>, more: &[Labels]) -> BTreeSet<Labels> {
    let mut names: BTreeSet<Labels> = more.iter().cloned().collect();
    for (owner, _, _) in lines {
        names.insert(owner.clone());
        for label in ["a", "*", "\\255"] {
            names.insert([&[label], &owner[..]].concat());
            names.insert([&[label], owner.get(1..).unwrap_or_default()].concat());
        }
    }
    names
}

fn compare(data: &Data, lines: &BTreeSet<Line>, more: &[Labels]) -> Result<(), TestCaseError> {
    let model = Model { lines };
    for qname in questions(lines, more) {
        for qtype in TYPES.into_iter().chain([Type::ANY]) {
            let expected = model.answer(&qname, qtype);
            let mut found = found(data, &qname, qtype);
            if expected.contains("t?.") {
                found = found.replace("t1.", "t?.").replace("t2.", "t?.");
            }
            prop_assert_eq!(found, expected, "{:?} {}", qname, qtype);
        }
        let name = full_name(&qname);
        let nsec = data.nsec_before(name.view()).map(|set| set.owner().to_string());
        if !model.is_hidden(&qname) {
            prop_assert_eq!(nsec, model.nsec(&name), "{:?}", qname);
        }
    }
    let names: BTreeSet<_> = lines.iter().map(|(owner, _, _)| owner).collect();
    let apex = u64::from(!names.contains(&Labels::new()));
    prop_assert_eq!(data.names(), names.len() as u64 + apex);
    prop_assert_eq!(data.records(), lines.len() as u64 + 1);
    let expected = lines.iter().map(|line| {
        let Record { owner, rtype, ttl, rdata, .. } = to_record(line);
        format!("{owner} {ttl} {rtype} {rdata:?}")
    });
    prop_assert_eq!(sorted(all(data)), sorted(expected.collect()));
    Ok(())
}

proptest! {
    #![proptest_config(cases(1))]

    #[test]
    fn random_zones_are_answered_as_the_rfcs_say(
        lines in prop::collection::btree_set(line(), 0..14),
        more in prop::collection::vec(labels(6), 0..10),
    ) {
        compare(&build(&lines), &lines, &more)?;
    }
}

proptest! {
    #![proptest_config(cases(8))]

    #[test]
    fn changed_zones_are_like_new_ones_and_old_versions_stay(
        lines in prop::collection::btree_set(line(), 0..14),
        steps in prop::collection::vec(prop::collection::vec((any::<[bool; 3]>(), line()), 1..5), 1..5),
        more in prop::collection::vec(labels(6), 0..5),
    ) {
        let mut now = lines;
        let mut data = build(&now);
        for step in steps {
            let (old, old_lines) = (data.clone(), now.clone());
            let mut edit = data.edit();
            for (kind, line) in step {
                let record = to_record(&line);
                let (owner, rtype) = (record.owner.view(), record.rtype);
                let before = now.len();
                let is_apex = line.0.is_empty();
                let changed = match kind {
                    [true, _, _] => {
                        now.insert(line.clone());
                        edit.add((&record).into()).unwrap()
                    }
                    [_, true, _] => {
                        now.remove(&line);
                        edit.remove((&record).into())
                    }
                    [_, _, true] => {
                        now.retain(|other| (&other.0, other.1) != (&line.0, line.1));
                        edit.remove_rrset(owner, rtype)
                    }
                    _ if is_apex => false,
                    _ => {
                        now.retain(|other| other.0 != line.0);
                        edit.remove_name(owner)
                    }
                };
                prop_assert_eq!(changed, now.len() != before);
            }
            data = edit.finish().unwrap();
            // Names that existed, and those above them.
            let gone = old_lines.iter().map(|(owner, _, _)| owner.clone());
            let gone = gone.chain(old_lines.iter().map(|(owner, _, _)| owner[owner.len().min(1)..].to_vec()));
            let more: Vec<_> = gone.chain(more.iter().cloned()).collect();
            compare(&data, &now, &more)?;
            compare(&old, &old_lines, &more)?;
            let difference = Difference::between(&old, &data);
            prop_assert_eq!(difference.removed.len(), old_lines.difference(&now).count());
            prop_assert_eq!(difference.added.len(), now.difference(&old_lines).count());
            compare(&old.apply(&difference).unwrap(), &now, &[])?;
            prop_assert!(difference.records() == 2 || data.apply(&difference).is_err());
        }
        prop_assert_eq!(all(&data).len(), now.len());
    }
}
