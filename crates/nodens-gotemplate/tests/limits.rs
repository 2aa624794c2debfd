//! What is refused, where the errors point, and that nothing panics or runs away.

mod data;

use data::data;
use nodens_gotemplate::{ParseErrorKind, RenderErrorKind, Template, limits};
use proptest::prelude::*;

fn render(text: &str) -> Result<String, RenderErrorKind> {
    let template = Template::parse("answer", text).expect("the template is good");
    let mut out = String::new();
    template.render(&data(), &mut out).map(|()| out).map_err(|error| error.kind)
}

#[test]
fn parse_errors_say_where_and_what_was_expected() {
    for (text, expected) in [
        (
            "{{ .Name }}\n  {{ if .Zone }}",
            "template answer:2:17: unexpected end of text in template, expected text or {{, and {{end}} \
             for each open block",
        ),
        (
            "é {{ parseint .Group.b 16 8 }}",
            "template answer:1:6: function \"parseint\" is not defined, did you mean \"parseInt\"?",
        ),
        ("{{ .Name ", "template answer:1:10: action is not closed, expected }}"),
        ("{{ (.Name }}", "template answer:1:4: parenthesis is not closed, expected )"),
        (
            "{{ if }}x{{ end }}",
            "template answer:1:7: unexpected \"nothing\" in if, expected a value",
        ),
        (
            "{{ .Name | 3 }}",
            "template answer:1:12: unexpected \"3\" in action, expected a function, method or \
             parenthesised pipeline behind |",
        ),
        ("{{ $x }}", "template answer:1:4: variable \"$x\" is not declared"),
    ] {
        let error = Template::parse("answer", text).expect_err(text);
        assert_eq!(error.to_string(), expected, "{text}");
    }
}

#[test]
fn render_errors_say_where_and_what_was_expected() {
    for (text, expected) in [
        ("{{ .Nmae }}", "template answer:1:4: *main.Data has no field or method \"Nmae\""),
        (
            "a\n{{ parseInt .Group.missing 16 8 }}",
            "template answer:2:13: expected string, found <nil>",
        ),
        (
            "{{ parseInt \"zz\" 10 8 }}",
            "template answer:1:4: parseInt: \"zz\" is not an unsigned number of base 10",
        ),
        ("{{ .Meta }}", "template answer:1:4: Meta takes 1 arguments, found 0"),
    ] {
        let template = Template::parse("answer", text).expect(text);
        let error = template.render(&data(), &mut String::new()).expect_err(text);
        assert_eq!(error.to_string(), expected, "{text}");
    }
}

#[test]
fn output_is_bounded() {
    assert_eq!(
        render("{{ range 1000 }}{{ printf \"%100d\" . }}{{ end }}"),
        Err(RenderErrorKind::OutputLimit)
    );
    let most = format!("{{{{ printf \"%{}d\" 1 }}}}", limits::OUTPUT_BYTES);
    assert_eq!(render(&most).map(|out| out.len()), Ok(limits::OUTPUT_BYTES));
}

#[test]
fn output_before_the_rendering_does_not_count() {
    let template = Template::parse("answer", "{{ .Zone }}").expect("good");
    let mut out = "x".repeat(limits::OUTPUT_BYTES);
    template.render(&data(), &mut out).expect("room for one output");
    assert!(out.ends_with("xexample."));
}

#[test]
fn work_is_bounded() {
    for text in [
        "{{ range .Var.big }}{{ end }}",
        "{{ range 9223372036854775807 }}{{ $x := 1 }}{{ end }}",
        "{{ range 1000 }}{{ $x := printf \"%60000d\" 1 }}{{ end }}",
        "{{ range 100000 }}{{ $x := slice $.Match 0 }}{{ end }}",
        "{{ $x := printf \"%60000d\" 1 }}{{ range 100 }}{{ $x = html $x $x }}{{ end }}",
        "{{ printf \"%9999999d\" 1 }}",
        "{{ printf \"%.9999999f\" 1.5 }}",
        "{{ printf \"%*d\" 9223372036854775807 1 }}",
    ] {
        assert_eq!(render(text), Err(RenderErrorKind::WorkLimit), "{text}");
    }
}

#[test]
fn nesting_is_bounded() {
    let nested =
        |count: usize| format!("{}.{}", "{{ if true }}".repeat(count), "{{ end }}".repeat(count));
    assert_eq!(render(&nested(limits::NESTING)), Ok(".".to_owned()));
    let error = Template::parse("answer", &nested(limits::NESTING + 1)).expect_err("too deep");
    assert_eq!(error.kind, ParseErrorKind::TooDeep);

    for text in [
        format!("{{{{ {}1{} }}}}", "(".repeat(100_000), ")".repeat(100_000)),
        format!("{{{{ {}", "(".repeat(100_000)),
        format!("{{{{ if true }}}}{}{{{{ end }}}}", "{{ else if true }}".repeat(10_000)),
        "{{ if true }}".repeat(10_000),
        "{{ range . }}".repeat(10_000),
    ] {
        assert!(Template::parse("answer", &text).is_err());
    }
}

#[test]
fn calls_are_bounded_and_the_deepest_fit_the_stack() {
    let open = "{{ if true }}".repeat(limits::NESTING - 20);
    let close = "{{ end }}".repeat(limits::NESTING - 20);
    let inner = format!("{{{{ print {}.{} }}}}", "(".repeat(19), ")".repeat(19));
    let text = format!(
        "{{{{ define \"x\" }}}}{open}{inner}{{{{ template \"x\" . }}}}{close}{{{{ end }}}}{{{{ template \"x\" . }}}}"
    );
    assert_eq!(render(&text), Err(RenderErrorKind::TooDeep));
}

#[test]
fn a_long_text_is_refused() {
    let error =
        Template::parse("answer", &" ".repeat(limits::TEMPLATE_BYTES + 1)).expect_err("long");
    assert_eq!(error.kind, ParseErrorKind::TooLong(limits::TEMPLATE_BYTES + 1));
}

/// Words and signs that make up templates, so that random ones get past the first token.
fn fragments() -> impl Strategy<Value = String> {
    let fragment = prop::sample::select(vec![
        "{{",
        "}}",
        "{{-",
        "-}}",
        " ",
        "\n",
        "(",
        ")",
        "|",
        ".",
        ",",
        ":=",
        "=",
        "$",
        "$x",
        ".Name",
        ".Group.a",
        ".Match",
        ".Var",
        ".Meta",
        "if",
        "else",
        "end",
        "range",
        "with",
        "define",
        "template",
        "block",
        "break",
        "continue",
        "nil",
        "true",
        "index",
        "slice",
        "printf",
        "print",
        "eq",
        "lt",
        "and",
        "or",
        "not",
        "len",
        "html",
        "js",
        "urlquery",
        "parseInt",
        "call",
        "\"x\"",
        "\"%d %[2]*s\"",
        "\"%+#-08.3q\"",
        "`y`",
        "'a'",
        "0",
        "1",
        "-1",
        "1.5",
        "0x1f",
        "/*",
        "*/",
        "é",
        "\"",
        "'",
        "\\",
    ]);
    prop::collection::vec(fragment, 0..40).prop_map(|fragments| fragments.join(" "))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_text_parses_or_fails(text in "\\PC*") {
        let _ = Template::parse("answer", &text);
    }

    #[test]
    fn any_action_parses_or_fails(text in "[ -~\n]{0,40}") {
        let _ = Template::parse("answer", &format!("{{{{{text}}}}}"));
    }

    #[test]
    fn likely_templates_render_or_fail(text in fragments()) {
        if let Ok(template) = Template::parse("answer", &text) {
            let _ = template.render(&data(), &mut String::new());
        }
    }

    #[test]
    fn any_format_prints(pattern in "[%a-zA-Z0-9 #+*.\\[\\]-]{0,12}", number in any::<i64>()) {
        let text = format!("{{{{ printf \"{pattern}\" {number} .Zone .Var.tiny .Match }}}}");
        let template = Template::parse("answer", &text).expect("a good template");
        let _ = template.render(&data(), &mut String::new());
    }
}

#[test]
fn templates_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    shared(&Template::parse("answer", "{{ .Name }}").expect("good"));
}
