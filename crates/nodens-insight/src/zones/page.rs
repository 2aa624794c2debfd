//! Zones as one HTML page without a script.

use super::{Catalog, Report, Search, Sum, Zone};
use crate::text::duration;
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("page.css");

/// What a browser may do with the page (`Content-Security-Policy`): show it, and send its form here.
pub fn policy() -> &'static str {
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'self'; \
     frame-ancestors 'none'"
}

/// The page.
pub fn render(report: &Report) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Zones of " (report.host) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { "Zones of " b { (report.host) } }
                    p { (octets(report.held)) " of memory, at most " (octets(report.held_max)) }
                }
                main {
                    (sums(&report.sums))
                    @if !report.catalogs.is_empty() { (catalogs(&report.catalogs)) }
                    (zones(report))
                }
                footer {
                    "Age: since the file was changed, or since a primary was last reached. The same as JSON: "
                    a href="/debug/zones.json" { "/debug/zones.json" }
                    ", with the parameters of this page."
                }
            }
        }
    };
    page.into_string()
}

fn sums(sums: &[Sum]) -> Markup {
    html! {
        section.sums {
            @if sums.is_empty() { p.empty { "No zones." } }
            @for sum in sums {
                div.sum {
                    h3 { (sum.source) }
                    p.value { (grouped(sum.zones)) small { " zones" } }
                    p.aside { (grouped(sum.records)) " records, " (octets(sum.octets)) }
                    @if sum.empty > 0 { p.bad { (grouped(sum.empty)) " not served" } }
                    @if sum.failed > 0 { p.bad { (grouped(sum.failed)) " failed at the last attempt" } }
                }
            }
        }
    }
}

fn catalogs(catalogs: &[Catalog]) -> Markup {
    html! {
        section {
            h2 { "Catalogs" }
            div.wide { table {
                tr.head { th { "Name" } th.number { "Serial" } th.number { "Members served" } th { "Members not served" } th { "Last attempt" } }
                @for catalog in catalogs {
                    tr {
                        td.name { (catalog.name) }
                        td.number data-label="Serial" { (serial(catalog.serial)) }
                        td.number data-label="Members served" { (grouped(catalog.members)) }
                        td data-label="Members not served" { (refused(catalog)) }
                        (attempt(catalog.failure.as_deref()))
                    }
                }
            } }
        }
    }
}

fn refused(catalog: &Catalog) -> String {
    let reasons = [
        (catalog.outside, "outside of what is accepted"),
        (catalog.clashing, "with the name of another zone"),
        (catalog.without_room, "without memory for them"),
    ];
    let said = reasons.iter().filter(|(count, _)| *count > 0);
    let said: Vec<_> =
        said.map(|(count, reason)| format!("{} {reason}", grouped(*count))).collect();
    if said.is_empty() { "none".to_owned() } else { said.join(", ") }
}

fn zones(report: &Report) -> Markup {
    let Report { search, matched, zones, first, next, .. } = report;
    html! {
        section {
            h2 { "Zones" small { (grouped(*matched as u64)) (what(search)) } }
            form method="get" action="/debug/zones" {
                input type="search" name="name" value=(search.name) placeholder="part of a name" aria-label="part of a name";
                label { input type="checkbox" name="failed" value="1" checked[search.failed]; " only with a failure" }
                button { "Search" }
            }
            @if zones.is_empty() { p.empty { "None." } } @else { div.wide { table {
                tr.head {
                    th { "Name" } th { "From" } th.number { "Serial" } th.number { "Records" } th.number { "Memory" }
                    th.number { "Age" } th.number { "Asked again" } th.number { "Expires" } th { "Last attempt" }
                }
                @for zone in zones { (row(zone)) }
            } } }
            @if first.is_some() || next.is_some() {
                p.more {
                    @if let Some(first) = first { a href=(format!("/debug/zones?{first}")) { "first page" } " " }
                    @if let Some(next) = next { a href=(format!("/debug/zones?{next}")) { "next page" } }
                }
            }
        }
    }
}

fn what(search: &Search) -> String {
    let failed = if search.failed { " with a failure" } else { "" };
    match search.name.as_str() {
        "" => failed.to_owned(),
        name => format!("{failed} with “{name}” in their names"),
    }
}

fn row(zone: &Zone) -> Markup {
    html! {
        tr {
            td.name { (zone.name) }
            td.from data-label="From" {
                span.source { (zone.source) } " " (zone.from)
                @if let Some(catalog) = &zone.catalog { br; "member of " (catalog) }
            }
            td.number data-label="Serial" { (serial(zone.serial)) }
            td.number data-label="Records" { (grouped(zone.records)) }
            td.number data-label="Memory" { (octets(zone.octets)) }
            td.number data-label="Age" { (time(zone.age_s)) }
            td.number data-label="Asked again" { (until(zone.refresh_s)) }
            td.number data-label="Expires" { (until(zone.expires_s)) }
            (attempt(zone.failure.as_deref()))
        }
    }
}

fn attempt(failure: Option<&str>) -> Markup {
    html! {
        @match failure {
            Some(failure) => { td.bad data-label="Last attempt" { "failed: " (failure) } }
            None => { td.good data-label="Last attempt" { "good" } }
        }
    }
}

fn serial(serial: Option<u32>) -> Markup {
    html! {
        @match serial {
            Some(serial) => { (serial) }
            None => { span.bad { "not served" } }
        }
    }
}

fn time(seconds: Option<i64>) -> String {
    seconds.map_or_else(String::new, |seconds| duration(u64::try_from(seconds).unwrap_or(0)))
}

fn until(seconds: Option<i64>) -> String {
    match seconds {
        None => String::new(),
        Some(..=0) => "now".to_owned(),
        seconds => format!("in {}", time(seconds)),
    }
}

/// As `12.5 MiB`.
fn octets(octets: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut unit) = (octets as f64, 0);
    while value >= 1023.5 && unit + 1 < UNITS.len() {
        (value, unit) = (value / 1024.0, unit + 1);
    }
    let unit_text = UNITS.get(unit).copied().unwrap_or_default();
    if unit == 0 || value >= 99.5 {
        format!("{value:.0} {unit_text}")
    } else {
        format!("{value:.1} {unit_text}")
    }
}

/// With a space between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_names_are_escaped() {
        assert_eq!(grouped(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!((grouped(999), grouped(0)), ("999".to_owned(), "0".to_owned()));
        assert_eq!([0, 1023, 1024, 1 << 20].map(octets), ["0 B", "1023 B", "1.0 KiB", "1.0 MiB"]);
        assert_eq!(octets(150 << 20), "150 MiB");
        assert_eq!(until(Some(-3)), "now");
        let bad = "<script>x</script>".to_owned();
        let zone = Zone { name: bad.clone(), failure: Some(bad.clone()), ..Zone::default() };
        let search = Search { name: bad.clone(), ..Search::default() };
        let catalogs = vec![Catalog { name: bad.clone(), outside: 3, ..Catalog::default() }];
        let next = Some("after=%22%3E".to_owned());
        let report = Report { zones: vec![zone], search, catalogs, next, ..Report::default() };
        let page = render(&report);
        assert!(!page.contains("<script"), "{page}");
        assert!(page.contains("not served") && page.contains("3 outside of what is accepted"));
        assert!(render(&Report::default()).contains("No zones."));
    }

    #[test]
    fn a_later_page_leads_to_the_first() {
        let first = Some("name=a+b%26%22&failed=1".to_owned());
        let page = render(&Report { first, ..Report::default() });
        let link = "href=\"/debug/zones?name=a+b%26%22&amp;failed=1\"";
        assert!(page.contains(link), "{page}");
        assert!(!render(&Report::default()).contains("first page"));
    }

    /// Narrow windows show a zone as a list, where the titles of the columns stand beside the values.
    #[test]
    fn each_value_has_the_title_of_its_column() {
        let (zones, catalogs) = (vec![Zone::default()], vec![Catalog::default()]);
        let page = render(&Report { zones, catalogs, ..Report::default() });
        for row in page.split("<tr>").skip(1) {
            let cells = row.split("</tr>").next().unwrap_or_default().matches("<td").count();
            // All but the name.
            assert_eq!(row.matches("data-label=").count() + 1, cells, "{row}");
        }
        assert_eq!(page.matches("<tr>").count(), 2);
    }
}
