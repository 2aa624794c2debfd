//! `auto [ZONES…] { directory DIR [REGEXP ORIGIN_TEMPLATE]; reload DURATION }`.

use super::folder::Folder;
use super::pattern::Pattern;
use super::{Auto, NAME, Settings};
use crate::config::BlockBuilder;
use crate::go_regex::compile;
use crate::handlers::Handler;
use crate::log::Level;
use crate::zones::Zones;
use nodens_corefile::{Directive, Error, Token, take};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const OPTIONS: [&str; 3] = ["directory", "reload", "upstream"];
const PATTERN_DEFAULT: &str = r"db\.(.*)";
const RELOAD_DEFAULT: Duration = Duration::from_secs(60);

/// Reads the directive; a repeated one replaces the zones and the options that it names.
pub(super) fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    let zones = Zones::of(directive.args(), &block.zones)?;
    let before = match block.handlers.pop() {
        Some(Handler::Auto(auto)) => Some(auto.settings),
        other => {
            block.handlers.extend(other);
            None
        }
    };
    let mut settings = match before {
        Some(settings) => settings,
        None => {
            let pattern = compile(PATTERN_DEFAULT);
            let pattern = pattern.map_err(|error| directive.invalid(error.to_string()))?;
            let pattern = Pattern::new(pattern, "{1}");
            Settings { directory: None, pattern, reload: RELOAD_DEFAULT }
        }
    };
    for line in directive.lines() {
        line.expect_no_body()?;
        match line.name.text.as_str() {
            "directory" => match line.expect_args_within(1..=3)? {
                [folder] => settings.directory = Some(directory(folder, block)?),
                [folder, pattern, template] => {
                    settings.directory = Some(directory(folder, block)?);
                    settings.pattern = self::pattern(pattern, template)?;
                }
                _ => {
                    return Err(
                        line.invalid("expected a template for the origin behind the pattern")
                    );
                }
            },
            "reload" => {
                // Words behind it are ignored, as CoreDNS does.
                let [duration, ..] = line.args() else {
                    return Err(line.invalid("reload duration value is expected"));
                };
                settings.reload = take::parse_go_duration(duration)?;
            }
            // It has no meaning any more.
            "upstream" => {}
            _ => return Err(line.unknown_property(&OPTIONS)),
        }
    }
    // Zones are looked for when all occurrences have been read.
    block.push(Auto { zones, settings, folder: Arc::new(Folder::default()) });
    Ok(())
}

/// A folder that may not be there yet.
fn directory(token: &Token, block: &BlockBuilder<'_>) -> Result<PathBuf, Error> {
    let path = block.path(&token.text);
    match std::fs::metadata(&path) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let text = format!("Directory does not exist: {}", path.display());
            block.shared.sink.line(Level::Warning, NAME, text);
        }
        Err(error) => {
            let text = format!("unable to access root path '{}': {error}", path.display());
            return Err(Error::invalid(token, text));
        }
    }
    Ok(path)
}

fn pattern(pattern: &Token, template: &Token) -> Result<Pattern, Error> {
    let regex =
        compile(&pattern.text).map_err(|error| Error::invalid(pattern, error.to_string()))?;
    if regex.captures_len() < 2 {
        return Err(Error::invalid(pattern, "need at least one sub expression"));
    }
    Ok(Pattern::new(regex, &template.text))
}
