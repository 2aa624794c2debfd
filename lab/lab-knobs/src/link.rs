//! What an interface and the route through it have: as `tc` and `ip` show and change it.

use crate::place::Place;
use crate::tools;

/// The queueing discipline at the root of an interface.
pub(crate) struct Root {
    /// Its kind and its options.
    pub(crate) words: Vec<String>,
    /// False if the kernel has chosen it.
    pub(crate) by_hand: bool,
    /// The kinds below the root, one for each queue of an interface that has several.
    below: Vec<String>,
}

impl Root {
    pub(crate) fn read(place: &Place, device: &str) -> Result<Self, String> {
        let text = tools::tc(place.namespace(), &["qdisc", "show", "dev", device])?;
        Self::parse(&text).ok_or_else(|| format!("{device} has no queueing discipline"))
    }

    /// From lines such as `qdisc KIND HANDLE: root refcnt 2 OPTIONS`; those below have `parent :1` for `root`.
    fn parse(text: &str) -> Option<Self> {
        let (mut root, mut below) = (None, Vec::new());
        for line in text.lines() {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            match words.as_slice() {
                ["qdisc", kind, handle, "root", rest @ ..] => {
                    let words = std::iter::once(kind).chain(rest).map(|word| (*word).to_owned());
                    root = Some((words.collect(), *handle != "0:"));
                }
                ["qdisc", kind, _, "parent", ..] => below.push((*kind).to_owned()),
                _ => {}
            }
        }
        root.map(|(words, by_hand)| Self { words, by_hand, below })
    }

    /// A kind that the kernel chose, and would not choose again while `net.core.default_qdisc` is `default`.
    /// Interfaces without a queue of their own have `noqueue` whatever that is.
    pub(crate) fn unlike(&self, default: &str) -> Option<&str> {
        let own = self.words.get(..1).unwrap_or_default();
        let chosen = if self.kind() == "mq" { &*self.below } else { own };
        chosen.iter().map(String::as_str).find(|kind| *kind != default && *kind != "noqueue")
    }

    pub(crate) fn kind(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }
}

/// Whether `tc` shows a word that it was given: numbers get units, and units capital letters.
pub(crate) fn same_word(shown: &str, given: &str) -> bool {
    let (shown, given) = (shown.to_ascii_lowercase(), given.to_ascii_lowercase());
    let unit = shown.strip_prefix(&given);
    let number = given.ends_with(|letter: char| letter.is_ascii_digit());
    unit.is_some_and(|unit| {
        unit.is_empty() || (number && unit.chars().all(|letter| letter.is_ascii_alphabetic()))
    })
}

/// Gives an interface another queueing discipline; `saved` is the kernel's own choice.
pub(crate) fn write_qdisc(
    place: &Place,
    device: &str,
    value: &str,
    saved: &str,
) -> Result<(), String> {
    for step in steps(&Root::read(place, device)?, value, saved) {
        let (verb, words) = step;
        let command = [&["qdisc", verb, "dev", device, "root"][..], &words].concat();
        tools::tc(place.namespace(), &command)?;
    }
    Ok(())
}

/// What gets from `root` to `value`: verbs of `tc qdisc`, and the words after `root`.
fn steps<'a>(root: &Root, value: &'a str, saved: &str) -> Vec<(&'static str, Vec<&'a str>)> {
    const DELETE: (&str, Vec<&str>) = ("del", Vec::new());
    let chosen = value == saved;
    let mut steps = Vec::new();
    if root.by_hand {
        steps.push(DELETE);
    } else if chosen && root.kind() != saved {
        // The kernel chose when the default was another one. It chooses again when one that was
        // configured is deleted, and this one cannot be.
        steps.extend([("add", vec!["pfifo"]), DELETE]);
    }
    if !chosen {
        steps.push(("add", value.split(' ').collect()));
    }
    steps
}

/// The words of the route to the other namespace.
pub(crate) fn route(place: &Place, device: &str) -> Result<Vec<String>, String> {
    let Some(namespace) = place.namespace() else {
        return Err("routes of the host are not changed".to_owned());
    };
    let text = tools::ip(&["-n", namespace, "-4", "route", "show", "dev", device])?;
    let line = text.lines().find(|line| line.contains("scope link"));
    let line = line.ok_or_else(|| format!("no route leads to {device}"))?;
    Ok(line.split_ascii_whitespace().map(str::to_owned).collect())
}

/// Gives the route an attribute, or takes it away (`none`).
pub(crate) fn write_route(
    place: &Place,
    device: &str,
    attribute: &str,
    value: &str,
) -> Result<(), String> {
    let Some(namespace) = place.namespace() else {
        return Err("routes of the host are not changed".to_owned());
    };
    let mut words = route(place, device)?;
    if let Some(at) = words.iter().position(|word| word == attribute) {
        words.drain(at..words.len().min(at + 2));
    }
    let mut command = vec!["-n", namespace, "-4", "route", "replace"];
    command.extend(words.iter().map(String::as_str));
    command.extend(["dev", device]);
    if value != "none" {
        command.extend([attribute, value]);
    }
    tools::ip(&command).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_chooses_again_where_its_choice_is_not_the_one_that_was_saved() {
        let root =
            |kind: &str, by_hand| Root { words: vec![kind.to_owned()], by_hand, below: Vec::new() };
        let del = || ("del", Vec::new());
        let add = |words: &[&'static str]| ("add", words.to_vec());
        for (root, value, expected) in [
            (root("fq", false), "pfifo_fast", vec![add(&["pfifo"]), del()]),
            (root("fq", true), "pfifo_fast", vec![del()]),
            (root("pfifo_fast", true), "pfifo_fast", vec![del()]),
            (root("pfifo_fast", false), "pfifo_fast", vec![]),
            (root("pfifo_fast", false), "fq limit 9", vec![add(&["fq", "limit", "9"])]),
            (root("fq", true), "sfq", vec![del(), add(&["sfq"])]),
        ] {
            assert_eq!(steps(&root, value, "pfifo_fast"), expected, "{value}");
        }
    }

    #[test]
    fn what_the_kernel_chose_by_another_default_is_told_also_below_the_root() {
        let one = "qdisc fq_codel 0: root refcnt 2 limit 10240p flows 1024";
        let several = "qdisc mq 0: root\nqdisc fq_codel 0: parent :2 limit 10240p\nqdisc fq_codel 0: parent :1";
        for text in [one, several] {
            let root = Root::parse(text).unwrap();
            assert!(!root.by_hand, "{text}");
            assert_eq!(root.unlike("fq_codel"), None, "{text}");
            assert_eq!(root.unlike("pfifo_fast"), Some("fq_codel"), "{text}");
        }
        let mixed =
            Root::parse("qdisc mq 0: root\nqdisc fq 0: parent :2\nqdisc sfq 0: parent :1").unwrap();
        assert_eq!((mixed.kind(), mixed.unlike("fq")), ("mq", Some("sfq")));
        let none = Root::parse("qdisc noqueue 0: root refcnt 2").unwrap();
        assert_eq!(none.unlike("fq_codel"), None);
        assert!(Root::parse("").is_none() && Root::parse("qdisc fq 8001: root").unwrap().by_hand);
    }
}
