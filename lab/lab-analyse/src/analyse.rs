//! From groups of trials to a file with everything that can be said about them.

use crate::column::{self, Column};
use crate::contrast::{self, Asked, Raw};
use crate::family;
use crate::group::Group;
use crate::limits::{GROUPS_MAX, TRIALS_MAX, VALUES_MAX};
use crate::loops::loops;
use crate::read::ReadFile;
use crate::twice;
use crate::warn::warnings;
use lab_histogram::Histogram;
use lab_result::Generator;
use lab_result::analysis::{
    AnalysedFile, AnalysedGroup, AnalysedMetric, AnalysedTrial, AnalysisFile, AnalysisSettings,
    KIND, SCHEMA, Times,
};

/// What is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Level of tests and intervals.
    pub alpha: f64,
    /// Whether seconds, intervals or readings are values, or runs are; without it, runs are unless no group
    /// has more than one.
    pub by_part: Option<bool>,
    /// Whether values of one block belong together; without it, they do where every group has each block
    /// once.
    pub paired: Option<bool>,
    /// Whether equal readings in a row count once.
    pub once: bool,
    /// The group that the others are compared with.
    pub baseline: Option<String>,
    /// The metric that is not corrected for the number of metrics.
    pub primary: Option<String>,
    /// Metrics to look at; all of them if empty.
    pub metrics: Vec<String>,
    /// Differences that do not matter, by metric.
    pub margins: Vec<(String, f64)>,
    /// Seed of what is drawn.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            alpha: 0.05,
            by_part: None,
            paired: None,
            once: false,
            baseline: None,
            primary: None,
            metrics: Vec::new(),
            margins: Vec::new(),
            seed: 1,
        }
    }
}

/// Why nothing can be said.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnalyseError {
    /// There is no such group.
    #[error("no group `{name}`, expected one of {known}")]
    Group {
        /// What was asked for.
        name: String,
        /// The groups.
        known: String,
    },
    /// No trial has such a metric.
    #[error("no trial has the metric `{name}`, expected one of {known}")]
    Metric {
        /// What was asked for.
        name: String,
        /// The metrics.
        known: String,
    },
    /// There are too many.
    #[error("{number} {what}, expected at most {most}")]
    Many {
        /// What.
        what: String,
        /// How many.
        number: usize,
        /// How many there may be.
        most: usize,
    },
    /// A run is there more than once.
    #[error("{first} and {second} have the same content, expected each run once: leave one out")]
    Twice {
        /// A file.
        first: String,
        /// Another one, or the same again.
        second: String,
    },
    /// Values do not belong together.
    #[error(
        "cannot pair {first} with {second}: {why}, expected a column `block`, or as many trials in each group"
    )]
    Pairs {
        /// A group.
        first: String,
        /// Another one.
        second: String,
        /// Why not.
        why: String,
    },
    /// A block is there more than once.
    #[error(
        "cannot pair {metric} of {group}: block `{block}` has {count} values, expected one for each block"
    )]
    Block {
        /// The metric.
        metric: String,
        /// The group.
        group: String,
        /// The block.
        block: String,
        /// How many values it has.
        count: usize,
    },
}

/// Everything that can be said about `groups`, which come from `files`.
pub fn analyse(
    files: &[ReadFile],
    groups: &[Group],
    settings: &Settings,
    generator: Generator,
) -> Result<AnalysisFile, AnalyseError> {
    let names: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
    let trials: usize = groups.iter().map(|group| group.trials.len()).sum();
    at_most("groups", groups.len(), GROUPS_MAX)?;
    at_most("trials", trials, TRIALS_MAX)?;
    twice::refuse_copies(files)?;
    let baseline = settings.baseline.as_ref().map(|name| index(name, &names)).transpose()?;
    let by_part = settings.by_part.unwrap_or_else(|| {
        let has_runs = groups.iter().any(|group| group.trials.len() > 1);
        !has_runs
            && groups.iter().all(|group| group.trials.iter().any(|trial| trial.parts.len() > 1))
    });
    let columns = columns(groups, by_part, settings)?;
    let is_paired = is_paired(groups, &columns, by_part, settings)?;
    let asked = Asked { settings, by_part, paired: is_paired };
    let metrics = metrics(&columns, &names, baseline, asked);
    let loops = loops(groups);
    let mut assumptions: Vec<String> = Vec::new();
    for text in files.iter().flat_map(|file| &file.assumptions) {
        if !assumptions.contains(text) {
            assumptions.push(text.clone());
        }
    }
    Ok(AnalysisFile {
        kind: KIND.to_owned(),
        schema: SCHEMA,
        generator,
        settings: AnalysisSettings {
            alpha: settings.alpha,
            unit: if by_part { "part" } else { "run" }.to_owned(),
            paired: is_paired,
            once: settings.once,
            baseline: settings.baseline.clone(),
            primary: settings.primary.clone(),
            seed: settings.seed,
        },
        sources: files.iter().map(source).collect(),
        assumptions,
        warnings: [twice::formats(files), warnings(groups, &metrics, &loops, by_part)].concat(),
        groups: groups.iter().map(described).collect(),
        metrics,
        loops,
    })
}

fn at_most(what: &str, number: usize, most: usize) -> Result<(), AnalyseError> {
    if number > most {
        return Err(AnalyseError::Many { what: what.to_owned(), number, most });
    }
    Ok(())
}

fn index(name: &str, names: &[&str]) -> Result<usize, AnalyseError> {
    let unknown = || AnalyseError::Group { name: name.to_owned(), known: names.join(", ") };
    names.iter().position(|other| *other == name).ok_or_else(unknown)
}

/// The columns that were asked for.
fn columns(
    groups: &[Group],
    by_part: bool,
    settings: &Settings,
) -> Result<Vec<Column>, AnalyseError> {
    let columns = column::columns(groups, by_part, settings);
    let asked = settings.metrics.iter().chain(&settings.primary);
    for name in asked.chain(settings.margins.iter().map(|(name, _)| name)) {
        if !columns.iter().any(|column| column.metric == *name) {
            let all = column::columns(groups, by_part, &Settings::default());
            let known: Vec<&str> = all.iter().map(|column| column.metric.as_str()).collect();
            return Err(AnalyseError::Metric { name: name.clone(), known: known.join(", ") });
        }
    }
    let longest = columns.iter().flat_map(|column| &column.groups).map(|group| group.all.len());
    at_most("values of a group", longest.max().unwrap_or(0), VALUES_MAX)?;
    Ok(columns)
}

/// Whether values are compared within blocks.
fn is_paired(
    groups: &[Group],
    columns: &[Column],
    by_part: bool,
    settings: &Settings,
) -> Result<bool, AnalyseError> {
    let blocks = |group: &Group| -> Option<Vec<String>> {
        let mut all: Vec<String> = group
            .trials
            .iter()
            .map(|trial| trial.labels.get("block").cloned())
            .collect::<Option<_>>()?;
        all.sort();
        Some(all)
    };
    let all: Vec<Option<Vec<String>>> = groups.iter().map(blocks).collect();
    let is_once = |blocks: &Vec<String>| blocks.windows(2).all(|pair| pair.first() != pair.last());
    let fits = all.iter().all(|blocks| blocks.as_ref().is_some_and(is_once))
        && all.windows(2).all(|pair| pair.first() == pair.last());
    let is_wanted = match settings.paired {
        None => return Ok(fits && groups.len() > 1 && !by_part),
        Some(is_wanted) => is_wanted,
    };
    if is_wanted {
        blocks_once(groups, columns)?;
    }
    let has_blocks = all.iter().all(Option::is_some);
    if !is_wanted || has_blocks {
        return Ok(is_wanted);
    }
    for column in columns {
        let present = column.groups.iter().zip(groups).filter(|(values, _)| !values.all.is_empty());
        let counts: Vec<(usize, &str)> =
            present.map(|(values, group)| (values.all.len(), group.name.as_str())).collect();
        if let Some([first, second]) = counts.windows(2).find_map(|pair| {
            let [first, second] = pair else { return None };
            (first.0 != second.0).then_some([first, second])
        }) {
            return Err(AnalyseError::Pairs {
                first: first.1.to_owned(),
                second: second.1.to_owned(),
                why: format!("{} has {} and {} values", column.metric, first.0, second.0),
            });
        }
    }
    Ok(true)
}

/// Which of the values of a block belongs to which of another group is not known if there are several.
fn blocks_once(groups: &[Group], columns: &[Column]) -> Result<(), AnalyseError> {
    for column in columns {
        for (values, group) in column.groups.iter().zip(groups) {
            let mut blocks: Vec<&String> = values.blocks.iter().flatten().collect();
            blocks.sort_unstable();
            let mut alike = blocks.chunk_by(|one, other| one == other);
            if let Some(alike @ [block, _, ..]) = alike.find(|alike| alike.len() > 1) {
                return Err(AnalyseError::Block {
                    metric: column.metric.clone(),
                    group: group.name.clone(),
                    block: (*block).clone(),
                    count: alike.len(),
                });
            }
        }
    }
    Ok(())
}

fn metrics(
    columns: &[Column],
    names: &[&str],
    baseline: Option<usize>,
    asked: Asked<'_>,
) -> Vec<AnalysedMetric> {
    let settings = asked.settings;
    let margin = |column: &Column| {
        let given = settings.margins.iter().find(|(name, _)| *name == column.metric);
        given.map_or_else(|| column::margin(&column.metric), |(_, margin)| *margin)
    };
    let mut raws: Vec<Raw> = Vec::new();
    for (at, column) in columns.iter().enumerate().filter(|(_, column)| column.is_tested()) {
        for [first, second] in pairs(&column.present(), baseline) {
            let of = |group: usize| Some((names.get(group).copied()?, column.groups.get(group)?));
            if let (Some(first), Some(second)) = (of(first), of(second)) {
                raws.push(contrast::raw((at, column), [first, second], margin(column), asked));
            }
        }
    }
    let primary = settings.primary.as_ref();
    let primary = primary.and_then(|name| columns.iter().position(|column| column.metric == *name));
    contrast::judge(&mut raws, primary, settings.alpha);
    let mut all = Vec::new();
    for (at, column) in columns.iter().enumerate() {
        let of_column = raws.iter().filter(|raw| raw.column == at);
        let contrasts = of_column.map(|raw| raw.contrast.clone()).collect();
        let families = if column.is_tested() {
            family::families(column, names, baseline, asked.paired, settings)
        } else {
            Vec::new()
        };
        let samples = column.groups.iter().zip(names).filter(|(values, _)| !values.all.is_empty());
        all.push(AnalysedMetric {
            name: column.metric.clone(),
            unit: column.unit.name().to_owned(),
            better: column.better().to_owned(),
            scale: if column.is_ratio() { "ratio" } else { "difference" }.to_owned(),
            margin: margin(column),
            samples: samples
                .map(|(values, name)| column::sample(name, values, settings.alpha))
                .collect(),
            contrasts,
            families,
            notes: notes(column, margin(column)),
        });
    }
    all
}

/// The pairs of groups that are compared: each other one with the baseline, or each with every earlier one.
fn pairs(present: &[usize], baseline: Option<usize>) -> Vec<[usize; 2]> {
    match baseline {
        Some(baseline) if present.contains(&baseline) => {
            present.iter().filter(|at| **at != baseline).map(|at| [baseline, *at]).collect()
        }
        Some(_) => Vec::new(),
        None => {
            let all = present.iter().enumerate();
            all.flat_map(|(place, second)| {
                present.iter().take(place).map(|first| [*first, *second])
            })
            .collect()
        }
    }
}

fn notes(column: &Column, margin: f64) -> Vec<String> {
    let mut notes = Vec::new();
    let resolution = column.resolution();
    let is_compared = column.groups.iter().filter(|group| group.all.len() > 1).count() > 1;
    if resolution > margin / 5.0 && (is_compared || !column.is_cut()) {
        let what = if column.is_cut() { "last digits" } else { "buckets" };
        notes.push(format!(
            "its {what} are {:.1} % wide: a margin of {:.1} % cannot be shown to be kept",
            resolution * 100.0,
            margin * 100.0
        ));
    }
    let bounds: usize = column.groups.iter().map(|group| group.bounds).sum();
    if bounds > 0 {
        notes.push(format!(
            "{bounds} of its values lie among lost queries and are at least the timeout: which are higher is \
             known, and by how much is not"
        ));
    }
    notes
}

fn source(file: &ReadFile) -> AnalysedFile {
    AnalysedFile {
        path: file.path.clone(),
        format: file.format.to_string(),
        sha256: file.sha256.clone(),
        trials: file.trials.len(),
    }
}

fn described(group: &Group) -> AnalysedGroup {
    let mut response = Histogram::new();
    let all = group.trials.iter().filter_map(|trial| trial.whole.response.as_ref());
    all.for_each(|histogram| response.merge(histogram));
    let has_any = response.recorded() + response.censored() > 0;
    let trial = |trial: &crate::trial::Trial| AnalysedTrial {
        place: trial.place(),
        started_unix_ns: trial.started_unix_ns,
        block: trial.labels.get("block").cloned(),
        parts: trial.parts.len(),
    };
    AnalysedGroup {
        name: group.name.clone(),
        trials: group.trials.iter().map(trial).collect(),
        response: has_any.then_some(Times(response)),
    }
}

#[cfg(test)]
mod tests;
