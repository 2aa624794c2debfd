//! Files of keys: what BIND's tools write, what CoreDNS accepts beside it, and what is refused.

use crate::tsig::key_file::parse;

/// Names and algorithms of the keys in `text`, sorted; or the error.
fn read(text: &str) -> Result<Vec<String>, String> {
    let keys = parse(text).map_err(|error| error.to_string())?;
    let mut all: Vec<_> = keys.iter().map(|key| format!("{key:?}")).collect();
    all.sort();
    Ok(all)
}

#[test]
fn keys_are_read_in_every_layout() {
    let all = "hmac-sha256 hmac-sha1 hmac-sha224 hmac-sha384 hmac-sha512";
    for (text, expected) in [
        ("", vec![]),
        ("# nothing\n// at all\n/* here\n */", vec![]),
        (
            "key \"Example.\" {\n  algorithm hmac-sha512;\n  secret \"c2VjcmV0\";\n};\n",
            vec!["Key(example. hmac-sha512)".to_owned()],
        ),
        (
            "key a{secret c2VjcmV0;algorithm hmac-sha1;};key b { secret \"c2VjcmV0\"; };",
            vec!["Key(a. hmac-sha1)".to_owned(), format!("Key(b. {all})")],
        ),
        // As CoreDNS accepts them: without the first brace and without semicolons.
        (
            "key a\n\n secret c2VjcmV0\n}\nkey b {\n secret AAAA//8= # ends\n}",
            vec![format!("Key(a. {all})"), format!("Key(b. {all})")],
        ),
        (
            "key a { secret \"c2VjcmV0\"; /* why */ algorithm hmac-md5.SIG-ALG.REG.INT; };",
            vec!["Key(a. hmac-md5)".to_owned()],
        ),
    ] {
        assert_eq!(read(text), Ok(expected), "{text}");
    }
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    for (text, expected) in [
        ("include \"x\";", "line 1: expected `key`"),
        ("\nkey", "line 2: expected the name of a key"),
        ("key {", "line 1: expected the name of a key"),
        ("key \"\" {", "line 1: expected the name of a key"),
        ("key a {\n", "line 2: expected `algorithm`, `secret` or `}`"),
        ("key a {\n secret \"c2VjcmV0\";\n", "line 3: expected `algorithm`, `secret` or `}`"),
        ("key a {\n secret \"c2Vj\ncmV0\";\n};", "line 2: expected a closing quotation mark"),
        ("key a {\n secret ;\n};", "line 2: expected a secret"),
        ("key a {\n algorithm\n};", "line 3: expected an algorithm"),
        ("key a {\n sercet \"c2VjcmV0\";\n};", "line 2: expected `algorithm`, `secret` or `}`"),
        ("\nkey a {\n};", "line 2: key \"a\" has no secret"),
        ("key a { secret b;\nsecret b; };", "line 2: `secret` stands twice in one key"),
        ("key a {\n secret \"c2Vjc\"; };", "line 1: the secret of key \"a\" is not base64"),
        ("key a { secret c2VjcmV0; algorithm hmac-sha3; };", "line 1: \"hmac-sha3\" is not an"),
        ("key a..b { secret c2VjcmV0; };", "line 1: the name of key \"a..b\" is invalid"),
        (
            "key a { secret c2VjcmV0; };\nkey A. { secret c2VjcmV0; };",
            "line 2: key \"a.\" redefined",
        ),
        ("key a { secret c2VjcmV0; }; };", "line 1: expected `key`"),
        ("/* key", "line 1: expected `*/`"),
        ("/*/", "line 1: expected `*/`"),
    ] {
        let error = read(text).unwrap_err();
        assert!(error.starts_with(expected) && !error.contains("c2V"), "{text}: {error}");
    }
}

proptest::proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "[ \\n\"{};#/*a-d=]*(key|secret)?[ \\n\"{};#/*a-d=é]*") {
        _ = parse(&text);
    }
}
