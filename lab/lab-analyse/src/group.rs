//! Trials that belong together.

use crate::read::ReadFile;
use crate::trial::Trial;
use std::path::Path;

/// By what trials are put into groups that were not named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// By the label `group` where files have it; else by folder, if there are several; else by file.
    #[default]
    Found,
    /// By folder.
    Folder,
    /// By file.
    File,
    /// By a label of the trials.
    Label(String),
}

/// Trials of one setting.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Its trials, in the order in which they were read.
    pub trials: Vec<Trial>,
}

/// A label that a trial lacks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: no label `{label}` to group by; it has {known}")]
pub struct NoLabel {
    place: String,
    label: String,
    known: String,
}

/// The trials of `files` in groups, in the order of their first trial. A file may come with the name of
/// its group.
pub fn groups(files: &[(Option<String>, ReadFile)], by: &By) -> Result<Vec<Group>, NoLabel> {
    let unnamed = files.iter().filter(|(name, _)| name.is_none());
    let mut folders: Vec<&Path> = unnamed.map(|(_, file)| folder(file)).collect();
    folders.sort_unstable();
    folders.dedup();
    let mut all: Vec<Group> = Vec::new();
    for (name, file) in files {
        for trial in &file.trials {
            let name = match name {
                Some(name) => name.clone(),
                None => name_of(trial, file, by, &folders)?,
            };
            match all.iter_mut().find(|group| group.name == name) {
                Some(group) => group.trials.push(trial.clone()),
                None => all.push(Group { name, trials: vec![trial.clone()] }),
            }
        }
    }
    Ok(all)
}

fn folder(file: &ReadFile) -> &Path {
    Path::new(&file.path).parent().unwrap_or(Path::new(""))
}

fn name_of(trial: &Trial, file: &ReadFile, by: &By, folders: &[&Path]) -> Result<String, NoLabel> {
    let label = |label: &str| trial.labels.get(label).cloned();
    match by {
        By::Label(name) => label(name).ok_or_else(|| {
            let known: Vec<&str> = trial.labels.keys().map(String::as_str).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            NoLabel { place: trial.place(), label: name.clone(), known }
        }),
        By::Folder => Ok(of_folder(file, folders)),
        By::File => Ok(of_file(file)),
        By::Found => Ok(match label("group") {
            Some(group) => group,
            None if folders.len() > 1 => of_folder(file, folders),
            None => of_file(file),
        }),
    }
}

/// The last part of the folder's path, or all of it where another folder ends alike.
fn of_folder(file: &ReadFile, folders: &[&Path]) -> String {
    let folder = folder(file);
    let alike = folders.iter().filter(|other| other.file_name() == folder.file_name()).count();
    match folder.file_name() {
        Some(name) if alike == 1 => name.to_string_lossy().into_owned(),
        _ if folder == Path::new("") => ".".to_owned(),
        _ => folder.display().to_string(),
    }
}

fn of_file(file: &ReadFile) -> String {
    let path = Path::new(&file.path);
    path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::Format;

    fn file(path: &str, label: Option<&str>) -> (Option<String>, ReadFile) {
        let labels =
            label.map(|group| ("group".to_owned(), group.to_owned())).into_iter().collect();
        let trials = vec![Trial { path: path.to_owned(), labels, ..Trial::default() }; 2];
        let (format, sha256) = (Format::Dnsperf, String::new());
        (None, ReadFile { path: path.to_owned(), format, sha256, trials, assumptions: Vec::new() })
    }

    fn names(files: &[(Option<String>, ReadFile)], by: &By) -> Vec<String> {
        groups(files, by).unwrap().into_iter().map(|group| group.name).collect()
    }

    #[test]
    fn groups_are_found_by_label_then_folder_then_file() {
        let found = By::Found;
        assert_eq!(names(&[file("a/1.txt", None), file("a/2.txt", None)], &found), ["1", "2"]);
        let folders = [file("a/1.txt", None), file("b/1.txt", None), file("a/2.txt", None)];
        assert_eq!(names(&folders, &found), ["a", "b"]);
        assert_eq!(names(&folders, &By::File), ["1", "2"]);
        assert_eq!(names(&[file("x/a/1", None), file("y/a/1", None)], &found), ["x/a", "y/a"]);
        assert_eq!(names(&[file("t.csv", Some("old"))], &found), ["old"]);
    }

    #[test]
    fn a_name_that_was_given_counts_first_and_a_missing_label_is_told() {
        let mut given = file("a/1.txt", Some("old"));
        given.0 = Some("new".to_owned());
        assert_eq!(names(&[given], &By::Found), ["new"]);
        let by = By::Label("cpu".to_owned());
        let error = groups(&[file("a/1.txt", Some("old"))], &by).unwrap_err().to_string();
        assert_eq!(error, "a/1.txt:0: no label `cpu` to group by; it has group");
    }
}
