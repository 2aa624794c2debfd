//! Names that a user may have meant.

use crate::knob::Knob;

/// Names that hold `name` or differ from it in a few letters; the nearest first.
pub(crate) fn near(name: &str, known: &[Knob]) -> Vec<String> {
    const MOST: usize = 5;
    let short = name.rsplit('.').next().unwrap_or(name);
    let mut all: Vec<(usize, &str)> = known
        .iter()
        .filter_map(|knob| {
            let holds =
                short.len() > 2 && (knob.name.contains(short) || short.contains(&*knob.name));
            let distance = if holds { 1 } else { distance(short, &knob.name) };
            (distance <= 1 + short.len() / 4).then_some((distance, &*knob.name))
        })
        .collect();
    all.sort_unstable();
    all.into_iter().take(MOST).map(|(_, name)| name.to_owned()).collect()
}

/// How many letters have to be put in, taken out or changed (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (line, left) in a.bytes().enumerate() {
        let mut next = vec![line + 1];
        for ((right, pair), above) in b.bytes().zip(row.windows(2)).zip(row.iter().skip(1)) {
            let before = next.last().copied().unwrap_or(line);
            let changed = pair.first().copied().unwrap_or(line) + usize::from(left != right);
            next.push(changed.min(before + 1).min(above + 1));
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_those_of_levenshtein() {
        let rows =
            [("", "", 0), ("a", "", 1), ("", "ab", 2), ("kitten", "sitting", 3), ("ab", "ba", 2)];
        for (a, b, expected) in rows {
            assert_eq!(distance(a, b), expected, "{a} {b}");
            assert_eq!(distance(b, a), expected, "{b} {a}");
        }
    }
}
