//! What a signed file was made of, in comments at its front.

use crate::authority::source::{Seen, Stamp};
use crate::limits::SIGNED_FILE_HEAD_MAX;
use nodens_zone::dnssec::Denial;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// The first words of the first line.
const TITLE: &str = "; Written by sign with ";

/// The front of a signed file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// The files that it was made of, as they were then.
    pub(super) seen: Seen,
    pub(super) denial: Denial,
}

impl Head {
    /// As comments; nothing where that cannot be said in them.
    pub(super) fn text(&self) -> String {
        let Self { seen, denial } = self;
        let mut text = format!("{TITLE}{} from {} files:\n", word(*denial), seen.len());
        for (path, stamp) in seen {
            let name = path.to_str().filter(|name| !name.contains(['\n', '\r']));
            let (Some(name), Some(stamp)) = (name, stamp) else { return String::new() };
            if writeln!(text, "; {stamp} {name}").is_err() || text.len() > SIGNED_FILE_HEAD_MAX {
                return String::new();
            }
        }
        text
    }

    /// That of a file; nothing if it has none that is whole.
    pub(super) fn read(path: &Path) -> Option<Self> {
        let file = File::open(path).ok()?.take(SIGNED_FILE_HEAD_MAX as u64);
        let mut lines = BufReader::new(file).lines().map_while(Result::ok);
        let title = lines.next()?;
        let (word_of, files) = title.strip_prefix(TITLE)?.split_once(" from ")?;
        let denial = [Denial::Nsec, Denial::Nsec3].into_iter().find(|one| word(*one) == word_of)?;
        let count: usize = files.strip_suffix(" files:")?.parse().ok()?;
        let seen: Seen = lines.take(count).map_while(|line| seen(&line)).collect();
        (seen.len() == count).then_some(Self { seen, denial })
    }
}

fn word(denial: Denial) -> &'static str {
    match denial {
        Denial::Nsec => "NSEC",
        Denial::Nsec3 => "NSEC3",
    }
}

fn seen(line: &str) -> Option<(PathBuf, Option<Stamp>)> {
    /// Words of a stamp.
    const WORDS: usize = 4;
    let line = line.strip_prefix("; ")?;
    let (end, _) = line.match_indices(' ').nth(WORDS - 1)?;
    let (stamp, path) = line.split_at_checked(end)?;
    Some((path.strip_prefix(' ')?.into(), Some(Stamp::parse(stamp)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_what_cannot_be_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let stamp = Stamp::parse("1800000000.000000001 -1.5 12 34").unwrap();
        assert_eq!(stamp.to_string(), "1800000000.000000001 -1.000000005 12 34");
        let path = folder.path().join("signed");
        let head = |name: &str, denial| Head {
            seen: vec![(name.into(), Some(stamp)), ("b".into(), Some(stamp))],
            denial,
        };
        for denial in [Denial::Nsec, Denial::Nsec3] {
            for name in ["/etc/db", "db of \"three\" words ; 1"] {
                let text = head(name, denial).text();
                assert_eq!(text.lines().count(), 3);
                std::fs::write(&path, text + "@ SOA").unwrap();
                assert_eq!(Head::read(&path), Some(head(name, denial)));
            }
        }
        assert_eq!(head("a\nb", Denial::Nsec).text(), "");
        assert_eq!(head(&"long".repeat(SIGNED_FILE_HEAD_MAX / 4), Denial::Nsec).text(), "");
        let gone = Head { seen: vec![("a".into(), None)], denial: Denial::Nsec };
        assert_eq!(gone.text(), "");
        let whole = head("a", Denial::Nsec3).text();
        // The last octet is the end of the line.
        for len in 0..whole.len() - 2 {
            std::fs::write(&path, &whole[..len]).unwrap();
            assert_eq!(Head::read(&path), None, "{len}");
        }
        for text in ["; Written by sign with NSEC4 from 0 files:\n", "@ SOA\n", "\u{0}\n"] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(Head::read(&path), None, "{text}");
        }
        assert_eq!(Head::read(folder.path()), None);
    }
}
