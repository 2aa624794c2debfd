//! Templates and what Go 1.26's `text/template` makes of them: `golden.json` has for each template its
//! normal form and its output, or whether parsing or rendering fails. The data below has the types and
//! contents that Go was given. Verbs that show hexadecimal floats are left out.

mod data;

use data::{Data, data};
use nodens_gotemplate::Template;
use serde_json::Value as Json;

enum Outcome {
    ParseFails,
    RenderFails,
    Output(String),
}

fn outcome(text: &str, data: &Data) -> (Outcome, Option<String>) {
    let Ok(template) = Template::parse("answer", text) else {
        return (Outcome::ParseFails, None);
    };
    let normal = template.to_string();
    let mut out = String::new();
    match template.render(data, &mut out) {
        Ok(()) => (Outcome::Output(out), Some(normal)),
        Err(_) => (Outcome::RenderFails, Some(normal)),
    }
}

fn difference(case: &Json, data: &Data) -> Option<String> {
    let text = case["template"].as_str().unwrap();
    let (outcome, normal) = outcome(text, data);
    let found = match &outcome {
        Outcome::ParseFails => "parse error".to_owned(),
        Outcome::RenderFails => "render error".to_owned(),
        Outcome::Output(output) => format!("{output:?}"),
    };
    let expected = match (case["error"].as_str(), case["output"].as_str()) {
        (Some(error), _) => format!("{error} error"),
        (None, Some(output)) => format!("{output:?}"),
        (None, None) => panic!("{text:?} has neither output nor error"),
    };
    if found != expected {
        let errors = match Template::parse("answer", text) {
            Err(error) => error.to_string(),
            Ok(template) => match template.render(data, &mut String::new()) {
                Err(error) => error.to_string(),
                Ok(()) => String::new(),
            },
        };
        return Some(format!("{text}\n  expected {expected}\n  found    {found} {errors}"));
    }
    let normal_expected = case["text"].as_str().unwrap_or_default();
    let normal = normal.unwrap_or_default();
    (normal != normal_expected).then(|| {
        format!("{text}\n  expected as text {normal_expected:?}\n  found            {normal:?}")
    })
}

#[test]
fn templates_do_what_go_does() {
    let cases: Vec<Json> = serde_json::from_str(include_str!("golden.json")).unwrap();
    assert!(cases.len() > 1000, "{} cases", cases.len());
    let data = data();
    let differences: Vec<String> =
        cases.iter().filter_map(|case| difference(case, &data)).collect();
    assert!(
        differences.is_empty(),
        "{} of {} differ:\n{}",
        differences.len(),
        cases.len(),
        differences.join("\n")
    );
}

/// The normal form is a template with the same normal form.
#[test]
fn the_normal_form_is_stable() {
    let cases: Vec<Json> = serde_json::from_str(include_str!("golden.json")).unwrap();
    for case in &cases {
        let text = case["template"].as_str().unwrap();
        // A definition is no part of the normal form.
        if text.contains("template \"") || text.contains("template `") || text.contains("block \"")
        {
            continue;
        }
        if let Ok(template) = Template::parse("answer", text) {
            let normal = template.to_string();
            // A variable that is only assigned to, or text with a delimiter in it, reads differently.
            if let Ok(again) = Template::parse("answer", &normal) {
                assert_eq!(again.to_string(), normal, "from {text:?}");
            }
        }
    }
}
