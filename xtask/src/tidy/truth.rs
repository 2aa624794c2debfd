//! Rule on the list of mutations: what it replaces is still in the code, its tests are still there,
//! and the page made from it is up to date.

use super::{Finding, Tree, finding};
use crate::mutations::list::{self, LIST, PAGE};

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let text = |path: &str| tree.file(path).map(|file| file.text.as_str());
    let Some(list) = text(LIST) else { return vec![finding(LIST, 1, "is missing")] };
    let has_test = |package: &str, name: &str| {
        let (folder, function) = (format!("lab/{package}/"), format!("fn {name}("));
        let mut files = tree.with_extension("rs").filter(|file| file.path.starts_with(&folder));
        files.any(|file| file.text.contains(&function))
    };
    let found = list::check(list, text(PAGE).unwrap_or_default(), text, has_test);
    found.into_iter().map(|(line, message)| finding(LIST, line, message)).collect()
}
