//! Patterns and what Go's package `regexp` makes of them: `golden.json` has for each pattern the error, or the
//! names of its groups and where they match in some texts. The program in `generate` writes it.

use nodens_goregex::Regex;
use serde_json::Value as Json;

/// What is different, in words.
fn difference(case: &Json) -> Option<String> {
    let pattern = case["pattern"].as_str().unwrap();
    let compiled = match (Regex::new(pattern), case["error"].as_str()) {
        (Err(error), Some(expected)) => {
            let found = error.to_string();
            let differs = !found.starts_with(&format!("{expected}, at character "));
            return differs.then(|| format!("{pattern:?}: {found}\n  expected {expected}"));
        }
        (Ok(_), Some(expected)) => {
            return Some(format!("{pattern:?}: accepted\n  expected {expected}"));
        }
        (Err(error), None) => return Some(format!("{pattern:?}: refused: {error}")),
        (Ok(compiled), None) => compiled,
    };
    let names: Vec<_> =
        case["names"].as_array().unwrap().iter().map(|name| name.as_str()).collect();
    let found: Vec<_> = compiled.capture_names().map(|name| name.or(Some(""))).collect();
    if names != found || compiled.captures_len() != names.len() {
        return Some(format!("{pattern:?}: groups {found:?}\n  expected {names:?}"));
    }
    let matches = case["matches"].as_array().unwrap();
    matches.iter().find_map(|one| of_text(&compiled, &one["text"], &one["at"]))
}

fn of_text(compiled: &Regex, text: &Json, at: &Json) -> Option<String> {
    let text = text.as_str().unwrap();
    let expected: Option<Vec<Option<(usize, usize)>>> = at.as_array().map(|at| {
        let ends = at.chunks(2).map(|ends| (ends[0].as_u64(), ends[1].as_u64()));
        ends.map(|(start, end)| Some((start? as usize, end? as usize))).collect()
    });
    let found = compiled.captures(text).map(|captures| {
        let groups = 0..compiled.captures_len();
        let ranges = groups.map(|group| captures.range(group));
        ranges.map(|range| range.map(|range| (range.start, range.end))).collect()
    });
    let agrees = found == expected && compiled.is_match(text) == found.is_some();
    (!agrees)
        .then(|| format!("{:?} in {text:?}: {found:?}\n  expected {expected:?}", compiled.as_str()))
}

/// A larger table can be named in the environment.
#[test]
fn patterns_do_what_go_does() {
    let table = match std::env::var_os("NODENS_GOREGEX_CASES") {
        Some(path) => std::fs::read_to_string(path).unwrap(),
        None => include_str!("golden.json").to_owned(),
    };
    let cases: Vec<Json> = serde_json::from_str(&table).unwrap();
    assert!(cases.len() > 1000, "{} cases", cases.len());
    let differences: Vec<_> = cases.iter().filter_map(difference).collect();
    let (found, all, text) = (differences.len(), cases.len(), differences.join("\n"));
    assert!(differences.is_empty(), "{found} of {all} differ:\n{text}");
}
