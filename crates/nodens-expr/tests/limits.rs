//! What is refused, where the errors point, and that nothing panics or runs away.

mod environment;

use environment::{Query, environment};
use nodens_expr::{CompileErrorKind, EvalErrorKind, Program, Value, is_reserved, limits};
use proptest::prelude::*;

fn compile_error(text: &str) -> CompileErrorKind {
    Program::compile(text, &environment()).expect_err("a bad expression").kind
}

fn eval_error(text: &str) -> EvalErrorKind {
    let program = Program::compile(text, &environment()).expect(text);
    program.evaluate(&Query).expect_err(text).kind
}

#[test]
fn compile_errors_say_where_and_what_was_expected() {
    for (text, expected) in [
        ("nam() == 'a'", "expression 1:1: name \"nam\" is not known, did you mean \"name\"?"),
        (
            "type == 'A'",
            "expression 1:1: unexpected function type, expected a call with parentheses",
        ),
        ("name() == 1", "expression 1:8: operator == does not take string and int"),
        ("incidr(1, 'x')", "expression 1:8: expected string, found int"),
        ("incidr('1.2.3.4')", "expression 1:1: incidr: 1 arguments, expected 2"),
        ("true &&\n  (false", "expression 2:9: unexpected end of expression, expected )"),
        ("now().Hour() > 8", "expression 1:1: the function now is not supported"),
        ("any([1], # > 'a')", "expression 1:12: operator > does not take int and string"),
        (
            "name() matches '('",
            "expression 1:8: bad regular expression: error parsing regexp: missing closing ): `(`, \
             at character 1, expected a `)` for each `(`",
        ),
    ] {
        let error = Program::compile(text, &environment()).expect_err(text);
        assert_eq!(error.to_string(), expected, "{text}");
    }
}

#[test]
fn eval_errors_say_where_and_what_was_expected() {
    for (text, expected) in [
        ("incidr('x', '1.2.3.0/24')", "expression 1:1: incidr: expected an address and a network"),
        ("split(name(), '.')[9]", "expression 1:19: index 9 out of range, the length is 5"),
    ] {
        let program = Program::compile(text, &environment()).expect(text);
        let error = program.evaluate(&Query).expect_err(text);
        assert_eq!(error.to_string(), expected, "{text}");
    }
}

#[test]
fn only_true_is_true() {
    let is_true = |text: &str| Program::compile(text, &environment()).expect(text).is_true(&Query);
    assert!(is_true("type() == 'A'"));
    assert!(!is_true("type() == 'AAAA'"));
    assert!(!is_true("name()"));
    assert!(!is_true("1"));
    assert!(!is_true("incidr('x', 'y')"));
}

#[test]
fn reserved_names() {
    for name in ["len", "true", "nil", "in", "let", "not", "$env", "", "1a", "a-b", "now", "type"] {
        assert!(is_reserved(name), "{name}");
    }
    for name in ["ip", "parts", "_x", "name"] {
        assert!(!is_reserved(name), "{name}");
    }
}

#[test]
fn nesting_is_bounded() {
    for (open, close) in [("(", ")"), ("[", "]"), ("not (", ")"), ("len([", "])"), ("{a: ", "}")] {
        let text = format!("{}1{}", open.repeat(20_000), close.repeat(20_000));
        assert!(
            Program::compile(&text[..limits::EXPRESSION_BYTES.min(text.len())], &environment())
                .is_err()
        );
    }
    for unit in
        ["not ", "-", "1 ** ", "1 ?? ", "true ? 1 : ", "let x = ", "if true { ", "#", "(", "a?."]
    {
        let text = format!("{}1", unit.repeat(5000));
        assert!(Program::compile(&text, &environment()).is_err(), "{unit}");
    }
    assert_eq!(compile_error(&format!("{}1", "1 + ".repeat(500))), CompileErrorKind::TooDeep);
    let deepest = format!("{}1", "1 + ".repeat(limits::NESTING - 1));
    let program = Program::compile(&deepest, &environment()).expect("as deep as allowed");
    assert!(matches!(program.evaluate(&Query), Ok(Value::Int(100))));
}

#[test]
fn the_deepest_expressions_fit_the_stack() {
    let count = limits::NESTING - 2;
    for (open, close) in
        [("any([1], ", ")"), ("all([1], {let x", ")"), ("(true and ", ")"), ("[", "]")]
    {
        let mut text = String::new();
        for level in 0..count / 2 {
            text.push_str(open);
            if open.ends_with('x') {
                text.push_str(&format!("{level} = #; true and "));
            }
        }
        text.push_str("true");
        for _ in 0..count / 2 {
            text.push_str(if open.ends_with('x') { "})" } else { close });
        }
        if let Ok(program) = Program::compile(&text, &environment()) {
            let _ = program.evaluate(&Query);
        }
    }
    let parentheses = format!("{}1{}", "(".repeat(count), ")".repeat(count));
    assert!(Program::compile(&parentheses, &environment()).is_ok());
}

#[test]
fn long_chains_are_not_deep() {
    let text = vec!["name() == 'x'"; 1000].join(" or ");
    let program = Program::compile(&text, &environment()).expect("a long chain");
    assert!(matches!(program.evaluate(&Query), Ok(Value::Bool(false))));
}

#[test]
fn size_is_bounded() {
    let long = format!("'{}'", "x".repeat(limits::EXPRESSION_BYTES));
    assert_eq!(compile_error(&long), CompileErrorKind::TooLong(limits::EXPRESSION_BYTES + 2));
    assert_eq!(
        compile_error(&format!("[{}]", "1,".repeat(20_000))),
        CompileErrorKind::TooManyNodes
    );
    assert!(matches!(
        compile_error("name() matches '((a{100}){100}){100}'"),
        CompileErrorKind::Regex(_)
    ));
}

#[test]
fn work_is_bounded() {
    for text in [
        "any(1..9223372036854775807, # < 0)",
        "sum(-9223372036854775807..9223372036854775807)",
        "len(map(1..1000000, map(1..1000000, #)))",
        "repeat('x', 1000000000)",
        "repeat('', 9223372036854775807)",
        "reduce(1..100000, #acc + #acc, 'x')",
        "reduce(1..100000, [#acc, #acc], [])",
        "reduce(1..100000, [#acc], [])",
        "reduce(1..100000, ({a: #acc}), {a: 1})",
        "reduce(1..100000, concat(#acc, #acc), [1])",
        "replace(repeat('x', 100000), 'x', repeat('y', 100000))",
        "join(map(1..1000, ''), repeat('y', 100000))",
        "join(map(1..1000, repeat('y', 1000)), '')",
        "uniq(1..100000)",
        "sort(1..100000000)",
        "reverse(1..9223372036854775807)",
        "(1..9223372036854775807)[0:9223372036854775807]",
        "string(1..9223372036854775807)",
        "(1..9223372036854775807) == (1..9223372036854775807)",
        "1 in map(1..100000000, 0)",
        "name() matches repeat('a?', 10000)",
        "name() matches (repeat('(', 5000) + repeat(')', 5000))",
        "let a = [1, 1, 1, 1, 1, 1, 1, 1]; let b = [a, a, a, a, a, a, a, a]; let c = [b, b, b, b, b, b, b, b];
         let d = [c, c, c, c, c, c, c, c]; let e = [d, d, d, d, d, d, d, d]; let f = [e, e, e, e, e, e, e, e];
         let g = [f, f, f, f, f, f, f, f]; let h = [g, g, g, g, g, g, g, g]; len(flatten(h))",
    ] {
        let kind = eval_error(text);
        let bounded =
            matches!(kind, EvalErrorKind::WorkLimit | EvalErrorKind::TooDeep | EvalErrorKind::Regex(_));
        assert!(bounded, "{text}: {kind}");
    }
}

#[test]
fn a_range_is_not_gone_through() {
    for text in [
        "5 in 1..9223372036854775807",
        "(1..9223372036854775807)[-1] == 9223372036854775807",
        "size() not in -9223372036854775807..0",
        "any(1..9223372036854775807, # == 3)",
    ] {
        let program = Program::compile(text, &environment()).expect(text);
        assert!(matches!(program.evaluate(&Query), Ok(Value::Bool(true))), "{text}");
    }
}

/// Words and signs that make up expressions, so that random ones get past the first token.
fn fragments() -> impl Strategy<Value = String> {
    let fragment = prop::sample::select(vec![
        "name()",
        "type()",
        "size()",
        "do()",
        "ip",
        "words",
        "things",
        "group(",
        "incidr(",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ";",
        ":",
        "?",
        "?.",
        "??",
        ".",
        "..",
        "|",
        "#",
        "#acc",
        "+",
        "-",
        "*",
        "/",
        "%",
        "**",
        "==",
        "!=",
        "<",
        ">=",
        "and",
        "or",
        "not",
        "!",
        "in",
        "matches",
        "contains",
        "startsWith",
        "let",
        "x",
        "=",
        "if",
        "else",
        "true",
        "nil",
        "1",
        "-1",
        "2.5",
        "0x1f",
        "9223372036854775807",
        "'a'",
        "\"(\"",
        "`b`",
        "any(",
        "map(",
        "reduce(",
        "sortBy(",
        "filter(",
        "len(",
        "split(",
        "repeat(",
        "join(",
        "slice(",
        "max(",
        "take(",
        "bitshl(",
        "uniq(",
        "flatten(",
        "get(",
        "é",
        "$",
        "/*",
        "*/",
        "'",
        "\\",
    ]);
    prop::collection::vec(fragment, 0..30).prop_map(|fragments| fragments.join(" "))
}

/// Expressions that are mostly good.
fn expressions() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "1",
        "0",
        "-7",
        "2.5",
        "'abc'",
        "''",
        "true",
        "nil",
        "[]",
        "[3, 1]",
        "['b', 'a']",
        "name()",
        "size()",
        "words",
        "things",
        "things[0]",
        "things[1]",
        "things[2]",
        "{a: 1}",
        "1..3",
        "#",
    ])
    .prop_map(str::to_owned);
    leaf.prop_recursive(5, 40, 3, |inner| {
        let operator = prop::sample::select(vec![
            "+",
            "-",
            "*",
            "/",
            "%",
            "**",
            "==",
            "!=",
            "<",
            "<=",
            "in",
            "not in",
            "contains",
            "matches",
            "startsWith",
            "endsWith",
            "and",
            "or",
            "??",
            "..",
        ]);
        let function = prop::sample::select(vec![
            "len", "abs", "ceil", "round", "int", "float", "string", "trim", "upper", "lower",
            "max", "min", "mean", "median", "first", "last", "keys", "values", "reverse", "uniq",
            "flatten", "sort", "sum", "count", "bitnot", "join", "not", "-",
        ]);
        let two = prop::sample::select(vec![
            "any",
            "all",
            "none",
            "one",
            "map",
            "filter",
            "count",
            "sum",
            "find",
            "findIndex",
            "findLast",
            "sortBy",
            "reduce",
            "split",
            "splitAfter",
            "repeat",
            "take",
            "get",
            "concat",
            "join",
            "bitand",
            "bitshl",
            "bitshr",
            "bitushr",
            "indexOf",
            "trimPrefix",
            "hasSuffix",
        ]);
        prop_oneof![
            (inner.clone(), operator, inner.clone())
                .prop_map(|(a, op, b)| format!("({a} {op} {b})")),
            (function, inner.clone()).prop_map(|(f, a)| format!("{f}({a})")),
            (two, inner.clone(), inner.clone()).prop_map(|(f, a, b)| format!("{f}({a}, {b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a}[{b}]")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a}[{b}:]")),
            (inner.clone(), inner.clone(), inner)
                .prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_text_compiles_or_fails(text in "\\PC*") {
        let _ = Program::compile(&text, &environment());
    }

    #[test]
    fn any_ascii_compiles_or_fails(text in "[ -~\n]{0,40}") {
        let _ = Program::compile(&text, &environment());
    }

    #[test]
    fn likely_tokens_compile_or_fail(text in fragments()) {
        if let Ok(program) = Program::compile(&text, &environment()) {
            let _ = program.evaluate(&Query);
        }
    }

    #[test]
    fn likely_expressions_have_a_value_or_fail(text in expressions()) {
        if let Ok(program) = Program::compile(&text, &environment()) {
            let _ = program.evaluate(&Query);
        }
    }
}

#[test]
fn programs_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    shared(&Program::compile("name() in ['a', 'b']", &environment()).expect("good"));
}
