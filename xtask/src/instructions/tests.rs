use super::*;

#[test]
fn what_is_over_its_budget_without_one_or_gone_is_named() {
    let budget = parse("# a comment\nsame 100\nmore 100 # another\nrewrite 100\ngone 7\n").unwrap();
    let counts = parse("same 104.9\nmore 105.1\nnew 5\nrewrite 109.9\n").unwrap();
    let wrong = over_budget(&counts, &budget);
    assert_eq!(
        wrong,
        [
            "more takes 105 instructions, expected at most 100",
            "new has no budget; it takes 5 instructions",
            "gone is not measured any more",
        ]
    );
    assert!(over_budget(&budget, &budget).is_empty());
    assert_eq!(parse(&text_of(&budget)).unwrap(), budget);
    let error = parse("a 1\nb\n").unwrap_err().to_string();
    assert_eq!(error, "line 2: expected a scenario and a number, got 'b'");
}

#[test]
fn instructions_are_counted_for_the_function_that_executes_them() {
    let profile = "events: Ir\n\nfl=(1) a.rs\nfn=(1) outer\n5 10\n+1 3\nfi=(2) b.rs\n7 4\n\
        cfn=(2) inner\ncalls=2 30\n+2 100\n* 1\nfn=(2)\n30 60\n-3 40\nfn=(1)\n9 2\ntotals: 120\n";
    assert_eq!(total(profile), Some(120));
    let costs = by_function(profile);
    assert_eq!(costs.get("outer"), Some(&20));
    assert_eq!(costs.get("inner"), Some(&100));
    assert_eq!(total("totals: 0\n"), None);
}
