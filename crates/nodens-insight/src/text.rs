//! Parts of a report in words and figures, for every way to show one.

use crate::report::{Leak, LeakKind};

/// What happens, as a sentence.
pub fn why(leak: &Leak) -> String {
    let lookups = rate(leak.lookups);
    let domains = leak.domains.len();
    let and_bare = if leak.bare { " and by itself" } else { "" };
    let in_domains = match domains {
        0 => String::new(),
        1 => format!(" in a search domain{and_bare}"),
        _ => format!(" in {domains} search domains{and_bare}"),
    };
    let each = format!("{lookups} lookups/s, {} queries each", times(leak.amplification));
    match leak.kind {
        LeakKind::Name => format!("Exists nowhere, looked for{in_domains}: {each}.")
            .replace("looked for:", "asked for:"),
        LeakKind::Search => format!("Looked for{in_domains} before it is found: {each}."),
        LeakKind::Storm => format!("Ever new names that do not exist{in_domains}: {each}."),
        LeakKind::Failure => format!("Answered {}: {each}.", leak.rcode),
    }
}

/// What a kind of leak is called.
pub fn kind_text(kind: LeakKind) -> &'static str {
    match kind {
        LeakKind::Name => "leak",
        LeakKind::Search => "search path",
        LeakKind::Storm => "storm",
        LeakKind::Failure => "failure",
    }
}

/// A rate with as many digits as say something.
pub fn rate(rate: f64) -> String {
    match rate {
        rate if rate >= 9_999_500.0 => format!("{:.0} M", rate / 1e6),
        rate if rate >= 999_500.0 => format!("{:.1} M", rate / 1e6),
        rate if rate >= 9999.5 => format!("{:.0} k", rate / 1e3),
        rate if rate >= 99.5 => format!("{rate:.0}"),
        rate if rate >= 9.95 => format!("{rate:.0}"),
        rate if rate < 0.005 => "0".to_owned(),
        rate => format!("{rate:.1}"),
    }
}

/// A factor.
pub fn times(times: f64) -> String {
    if times >= 9.95 { format!("{times:.0}") } else { format!("{times:.1}") }
}

/// A part of a whole.
pub fn percent(part: f64, whole: f64) -> String {
    let percent = 100.0 * part / whole.max(1e-9);
    match percent.min(100.0) {
        percent if percent < 0.05 => "0 %".to_owned(),
        percent if percent < 9.95 => format!("{percent:.1} %"),
        percent => format!("{percent:.0} %"),
    }
}

/// A wait.
pub fn milliseconds(ms: f64) -> String {
    match ms {
        ms if ms >= 999.5 => format!("{:.1} s", ms / 1e3),
        ms if ms >= 9.95 => format!("{ms:.0} ms"),
        ms => format!("{ms:.1} ms"),
    }
}

/// A time people say.
pub fn duration(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}
