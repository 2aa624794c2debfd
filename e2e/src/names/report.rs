//! What a run found, so that a person can read it.

use std::collections::BTreeMap;

use nodens_judge::answer::{Difference, Outcome};
use nodens_judge::differences::{Differences, Place};

/// Queries alike that are shown of one kind of difference.
const ALIKE: usize = 3;

/// Lines of an answer that are shown.
const LINES: usize = 14;

/// Everything that was compared.
pub(crate) struct Report {
    known: Differences,
    show: usize,
    equal: usize,
    /// How often, and the first of them.
    explained: BTreeMap<String, (usize, String)>,
    /// By case and fields that differ.
    unexplained: BTreeMap<(&'static str, Vec<&'static str>), Vec<Unexplained>>,
    rows: BTreeMap<&'static str, [usize; 3]>,
    tampered: usize,
    /// Queries that neither server answered.
    silent: Vec<String>,
    during: usize,
    broken: Vec<String>,
}

struct Unexplained {
    wave: &'static str,
    question: String,
    differences: Vec<Difference>,
    answers: [String; 2],
}

impl Report {
    pub(crate) fn new(known: Differences, show: usize) -> Self {
        Report {
            known,
            show,
            equal: 0,
            explained: BTreeMap::new(),
            unexplained: BTreeMap::new(),
            rows: BTreeMap::new(),
            tampered: 0,
            silent: Vec::new(),
            during: 0,
            broken: Vec::new(),
        }
    }

    /// Counts one query and what its answers differ in.
    pub(crate) fn record(
        &mut self,
        case: &'static str,
        wave: &'static str,
        question: String,
        differences: Vec<Difference>,
        [theirs, ours]: [&Outcome; 2],
    ) {
        if [theirs, ours] == [&Outcome::Silent; 2] {
            self.silent.push(format!("{case}: {question}"));
        }
        let row = self.rows.entry(case).or_default();
        if differences.is_empty() {
            row[0] += 1;
            self.equal += 1;
            return;
        }
        let place = Place { directive: "kubernetes", case, question: &question };
        if let Some(ids) = self.known.explain(place, &differences) {
            row[1] += 1;
            for (id, difference) in ids.iter().zip(&differences) {
                let first = || {
                    let Difference { field, coredns, nodens } = difference;
                    (0, format!("{case}: {question}\n    {field}: {coredns} | {nodens}"))
                };
                self.explained.entry((*id).to_owned()).or_insert_with(first).0 += 1;
            }
            return;
        }
        row[2] += 1;
        let fields = differences.iter().map(|difference| difference.field).collect();
        let answers = [theirs.to_string(), ours.to_string()];
        let one = Unexplained { wave, question, differences, answers };
        self.unexplained.entry((case, fields)).or_default().push(one);
    }

    /// Counts answers that were changed on purpose.
    pub(crate) fn tampered(&mut self, count: usize) {
        self.tampered += count;
    }

    /// Counts queries that were asked during a wave, and the answers that were wrong.
    pub(crate) fn during(&mut self, case: &str, asked: usize, wrong: &[String]) {
        self.during += asked;
        if let Some(first) = wrong.first() {
            let text = format!(
                "{case}: {} of {asked} answers during a wave are wrong:\n{first}",
                wrong.len()
            );
            self.broken.push(text);
        }
        if asked == 0 {
            self.broken.push(format!("{case}: no query was asked during a wave"));
        }
    }

    /// Notes faults other than answers.
    pub(crate) fn broken(&mut self, case: &str, what: &str) {
        self.broken.push(format!("{case}: {what}"));
    }

    /// Prints differences and a table.
    pub(crate) fn print(&self) {
        for ((case, fields), all) in self.unexplained.iter().take(self.show) {
            println!("\n{case}: {} ({} alike)", fields.join(", "), all.len());
            for one in all.iter().take(ALIKE) {
                println!("  {} [{}]", one.question, one.wave);
                for difference in &one.differences {
                    println!("    {:<10} coredns: {}", difference.field, difference.coredns);
                    println!("    {:<10} nodens:  {}", "", difference.nodens);
                }
            }
            if let Some(first) = all.first() {
                for (name, answer) in ["coredns", "nodens "].into_iter().zip(&first.answers) {
                    answer.lines().take(LINES).for_each(|line| println!("      {name} | {line}"));
                }
            }
        }
        if self.unexplained.len() > self.show {
            println!("… and {} kinds more (--show N)", self.unexplained.len() - self.show);
        }
        println!("\n{:<28}{:>9}{:>11}{:>13}", "Corefile", "equal", "explained", "unexplained");
        for (case, [equal, explained, unexplained]) in &self.rows {
            println!("{case:<28}{equal:>9}{explained:>11}{unexplained:>13}");
        }
        for (id, (count, first)) in &self.explained {
            println!("explained by {id}: {count}, such as {first}");
        }
        if let Some(first) = self.silent.first() {
            println!("{} queries that neither answered, such as {first}", self.silent.len());
        }
        println!("{} queries while objects changed", self.during);
        self.broken.iter().for_each(|text| println!("{text}"));
    }

    /// Prints the last line; true when all is well: nothing unexplained, or exactly what was tampered with.
    pub(crate) fn conclude(&self, tampered: bool, whole: bool) -> bool {
        if whole && !tampered {
            for id in self.known.expected() {
                if !self.explained.contains_key(id) {
                    println!(
                        "docs/differences.md: `{id}` did not occur: does the difference still exist?"
                    );
                }
            }
        }
        let unexplained: usize = self.unexplained.values().map(Vec::len).sum();
        let explained: usize = self.rows.values().map(|row| row[1]).sum();
        let failed = unexplained + self.broken.len();
        if tampered {
            // Some fall on answers that differ on purpose, and that a rule explains whatever they say.
            println!("{} answers were changed, {unexplained} differences were seen", self.tampered);
            let enough = unexplained * 10 >= self.tampered * 9 && unexplained <= self.tampered;
            return self.tampered > 0 && enough && self.broken.is_empty();
        }
        println!("{} passed, {failed} failed", self.equal + explained);
        failed == 0
    }
}
