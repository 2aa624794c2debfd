//! Lines and pages as they may arrive.

use super::*;

fn of(kind: Kind, text: &str) -> (Seen, Editor) {
    let mut editor = Editor::default();
    let of = Of { kind, form: Form::Json, source: &Source::default() };
    let seen = event(of, text.as_bytes(), &mut editor);
    (seen, editor)
}

#[test]
fn bookmarks_and_errors_are_told_from_objects_of_every_kind() {
    let kinds = [
        Kind::Namespaces,
        Kind::Services,
        Kind::Slices,
        Kind::Pods,
        Kind::Imports,
        Kind::ImportSlices,
    ];
    for kind in kinds {
        let bookmark = r#"{"type":"BOOKMARK","object":{"kind":"X","metadata":{"resourceVersion":"12","creationTimestamp":null,"annotations":{"k8s.io/initial-events-end":"true"}},"spec":{"containers":null},"status":{},"endpoints":null}}"#;
        let seen = Seen::Bookmark { version: "12".into(), list_ends: true };
        assert_eq!(of(kind, bookmark).0, seen, "{kind:?}");
        let error = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old","reason":"Expired","code":410}}"#;
        assert_eq!(of(kind, error).0, Seen::Error(Fault::Gone("too old".into())), "{kind:?}");
        let object = r#"{"type":"ADDED","object":{"metadata":{"name":"a","namespace":"n","resourceVersion":"3","labels":{"kubernetes.io/service-name":"s","multicluster.kubernetes.io/service-name":"s"}}}}"#;
        let seen = Seen::Change { version: "3".into(), trigger: None, is_new: true };
        assert_eq!(of(kind, object).0, seen, "{kind:?}");
    }
}

#[test]
fn nothing_that_arrives_can_do_more_than_be_skipped() {
    let wrong = [
        "{",
        "null",
        "7",
        r#"{"type":"ADDED"}"#,
        r#"{"type":"ADDED","object":null}"#,
        r#"{"type":"ADDED","object":{"metadata":{"name":"a"}}}"#,
        r#"{"type":"ADDED","object":{"metadata":{"name":7,"resourceVersion":{}}}}"#,
        r#"{"type":"NEWS","object":{"metadata":{"name":"a","namespace":"n"}}}"#,
        r#"{"type":"DELETED","object":{"metadata":{}}}"#,
        "\u{0}\u{1}",
    ];
    for text in wrong {
        let (seen, mut editor) = of(Kind::Services, text);
        assert!(matches!(seen, Seen::Unreadable { .. }), "{text}: {seen:?}");
        assert_eq!(editor.snapshot(1).sizes(), [0, 0, 0]);
    }
    let deep = format!("{}{}", r#"{"type":"ADDED","object":{"x":"#, "[".repeat(100_000));
    assert!(matches!(of(Kind::Services, &deep).0, Seen::Unreadable { .. }));
}

#[test]
fn texts_with_escapes_are_read_as_those_without() {
    let text = r#"{"type":"\u0041DDED","object":{"metadata":{"name":"\u0061","namespace":"n","resourceVersion":"\u0033"}}}"#;
    let (seen, mut editor) = of(Kind::Services, text);
    assert_eq!(seen, Seen::Change { version: "3".into(), trigger: None, is_new: true });
    let key = Key::new("n", "a").unwrap();
    assert!(editor.snapshot(1).service(key.as_wire()).is_some());
}

#[test]
fn a_page_is_a_list_or_an_error() {
    let empty = r#"{"kind":"ServiceList","items":null,"metadata":{"resourceVersion":"5"}}"#;
    let page = Page { version: "5".into(), next: None };
    assert_eq!(Page::read(empty.as_bytes()).unwrap(), page);
    let more = r#"{"metadata":{"continue":"x","resourceVersion":"6"},"items":[]}"#;
    let page = Page { version: "6".into(), next: Some("x".into()) };
    assert_eq!(Page::read(more.as_bytes()).unwrap(), page);
    for wrong in ["", "{}", "[]", r#"{"metadata":{}}"#, r#"{"items":[],"metadata":{}} x"#] {
        assert!(Page::read(wrong.as_bytes()).is_err(), "{wrong}");
    }
}
