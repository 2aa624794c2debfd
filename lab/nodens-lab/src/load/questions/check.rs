//! Options that the queries of a load cannot have.

use super::{Built, Questions};
use anyhow::{Result, bail};

impl Questions {
    /// Refuses what has no effect on these queries: the numbers would be those of another load than was meant.
    pub(super) fn check(&self) -> Result<()> {
        let fixed = self.capture.is_some() || self.binary;
        let is_made = self.names.is_none() && self.template.is_none() && self.capture.is_none();
        let is_made_as = |built: Built| is_made && self.workload == built;
        let numbered = is_made_as(Built::Zipf) || is_made_as(Built::Uniform);
        let named = numbered || is_made_as(Built::Unique);
        let repeats = self.hit_rate.is_some() || self.warm_up;
        let counted = self.template.is_some() && repeats && self.search.is_empty();
        let edns = "queries that are made here, not read as messages";
        for (flag, is_given, is_used, expected) in [
            ("--suffix", self.suffix.is_some(), named, "-w zipf, uniform or unique"),
            (
                "--count",
                self.count.is_some(),
                numbered || counted,
                "-w zipf or uniform, or --template with --hit-rate or --warm-up",
            ),
            (
                "--qtype",
                self.qtype.is_some(),
                !is_made_as(Built::Cluster) || !self.search.is_empty(),
                "-d, --template or -w zipf, uniform or unique",
            ),
            (
                "--hit-rate",
                self.hit_rate.is_some(),
                !is_made_as(Built::Unique),
                "queries that repeat",
            ),
            ("--edns", self.edns, !fixed, edns),
            ("--edns-size", self.edns_size.is_some(), !fixed, edns),
            ("--dnssec", self.dnssec, !fixed, edns),
            ("--edns-option", !self.edns_option.is_empty(), !fixed, edns),
            ("--ecs", self.ecs.is_some(), !fixed, edns),
            ("--cookie", self.cookie, !fixed, edns),
            ("--nsid", self.nsid, !fixed, edns),
        ] {
            if is_given && !is_used {
                bail!("{flag} has no effect on {}, expected {expected}", self.kind());
            }
        }
        Ok(())
    }

    /// The queries as an error names them.
    fn kind(&self) -> &'static str {
        match (&self.capture, &self.names, &self.template) {
            _ if !self.search.is_empty() => "lookups along a search list",
            (Some(_), ..) => "the queries of a capture",
            (None, Some(_), _) => "the queries of a file",
            (None, None, Some(_)) => "a template whose names do not repeat",
            (None, None, None) => match self.workload {
                Built::Cluster => "the cluster mix",
                Built::Zipf | Built::Uniform => "names that are made",
                Built::Unique => "names that are all different",
            },
        }
    }
}
