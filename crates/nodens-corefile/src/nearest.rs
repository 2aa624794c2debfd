//! "Did you mean": the known word nearest to a mistyped one.

/// The word of `known` that takes the fewest edits (insert, delete, replace, swap of neighbours)
/// to reach from `word`, letter case ignored. `None` if even the best needs more than a third of
/// the letters changed. The first of several equally near words wins.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: Vec<char> = word.to_lowercase().chars().collect();
    let mut best: Option<(usize, &'a str)> = None;
    for candidate in known {
        let letters: Vec<char> = candidate.to_lowercase().chars().collect();
        let allowed = (word.len().max(letters.len()) / 3).max(1);
        if word.len().abs_diff(letters.len()) > allowed {
            continue;
        }
        let distance = edit_distance(&word, &letters);
        if distance <= allowed && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Optimal string alignment distance, three rows at a time.
fn edit_distance(a: &[char], b: &[char]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, &from) in a.iter().enumerate() {
        let mut row = Vec::with_capacity(b.len() + 1);
        row.push(i + 1);
        for (j, &to) in b.iter().enumerate() {
            let mut least =
                (last[j + 1] + 1).min(row[j] + 1).min(last[j] + usize::from(from != to));
            if i > 0 && j > 0 && from == b[j - 1] && a[i - 1] == to {
                least = least.min(before_last[j - 1] + 1);
            }
            row.push(least);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_nearest_word() {
        let known = ["cache", "chaos", "errors", "forward", "health", "log", "loop", "file"];
        let table = [
            ("cahce", Some("cache")),
            ("CACHE", Some("cache")),
            ("foward", Some("forward")),
            ("forwards", Some("forward")),
            ("erors", Some("errors")),
            ("loopp", Some("loop")),
            ("lo", Some("log")),
            ("kubernetes", None),
            ("x", None),
            ("", None),
        ];
        for (word, expected) in table {
            assert_eq!(nearest(word, known), expected, "{word}");
        }
    }
}
