//! What CoreDNS 1.15.0 accepts and refuses.

use crate::testing::Bench;

const ACCEPTED: &[&str] = &[
    "rewrite name exact a b answer auto",
    "rewrite name prefix a b answer auto",
    "rewrite NAME EXACT a b",
    "rewrite name regex a b answer value x y name x y",
    "rewrite name regex a b metadata",
    "rewrite name regex a {x/y} metadata",
    "rewrite class CS ANY",
    "rewrite ttl a 5-",
    "rewrite rcode a 0 23",
    "rewrite rcode a 0 NOTIMPL",
    "rewrite rcode exact a BADSIG badkey",
    "rewrite cname a b",
    "rewrite edns0 local set 0b11 a",
    "rewrite edns0 local set 010 a",
    "rewrite edns0 local set 1 {foo/bar}",
    "rewrite edns0 local set 1 a revert",
    "rewrite edns0 local unset 1",
    "rewrite edns0 nsid set",
    "rewrite edns0 nsid set revert",
    "rewrite edns0 subnet unset",
    "rewrite stop {\n name suffix a b\n answer auto\n}",
    "rewrite {\n ttl a 5\n}",
];

/// The directive, the place below line 1, and how the message starts.
const REFUSED: &[(&str, &str)] = &[
    ("rewrite", "2:1: no rule type specified for rewrite"),
    ("rewrite continue", "2:9: continue rule must begin with a rule type"),
    ("rewrite continue {\n}", "2:9: continue rule must begin with a rule type"),
    ("rewrite foo bar baz", "2:9: expected one of type, name"),
    ("rewrite answer name a b", "2:9: response rewrites must begin with a name rule"),
    ("rewrite name a", "2:1: too few arguments for a name rule"),
    ("rewrite name a b c", "2:14: expected one of exact, prefix, suffix, substring, regex, found `a`"),
    ("rewrite name exact a b answer", "2:1: type missing for answer rule for exact rule"),
    ("rewrite name exact a b foo bar", "2:24: exceeded the number of arguments"),
    ("rewrite name suffix a b answer name (x) {1}.{2}", "2:41: the rewrite regex pattern ({1}.{2}) uses more"),
    ("rewrite name regex (a) {0}.{1}", "2:24: the rewrite regex pattern ({0}.{1}) uses more"),
    ("rewrite name regex ( b", "2:20: invalid regex matching pattern: ("),
    ("rewrite name exact example.org (example.net", "2:32: invalid regex matching pattern"),
    ("rewrite name regex a b answer auto name x y", "2:31: auto name answer rule cannot be combined"),
    ("rewrite name regex a b answer auto answer name x", "2:43: name answer rule for regex rule: 2 arguments"),
    ("rewrite name regex a b answer both x y", "2:31: expected auto, name or value"),
    ("rewrite name regex a {x} metadata", "2:22: invalid metadata label \"x\""),
    ("rewrite name regex a {1} metadata", "2:22: capture group 1 does not exist"),
    ("rewrite name regex a a} metadata", "2:22: unmatched closing brace"),
    ("rewrite name regex a {a metadata", "2:22: unclosed placeholder"),
    ("rewrite name exact a b metadata", "2:24: metadata is only supported for regex name rules"),
    ("rewrite type A", "2:1: type rules must have exactly two arguments"),
    ("rewrite type A FOO", "2:16: expected a type such as A, found `FOO`"),
    ("rewrite type a TYPE28", "2:16: expected a type such as A"),
    ("rewrite type A AAAA MX", "2:21: type rules must have exactly two arguments"),
    ("rewrite class IN", "2:1: class rules must have exactly two arguments"),
    ("rewrite class IN XX", "2:18: expected a class, IN, CH or HS, found `XX`"),
    ("rewrite ttl a", "2:1: too few (1) arguments for a ttl rule"),
    ("rewrite ttl a -", "2:15: expected a TTL such as 30, 30-300, 30- or -300, found `-`"),
    ("rewrite ttl a 10-5", "2:15: expected a TTL"),
    ("rewrite ttl a +5", "2:15: expected a TTL"),
    ("rewrite ttl a 4294967296", "2:15: expected a TTL"),
    ("rewrite ttl foo a 5", "2:13: expected one of exact, prefix, suffix, substring, regex"),
    ("rewrite ttl exact a 5 6", "2:23: too many (4) arguments for a ttl rule"),
    ("rewrite rcode a 0", "2:1: too few (2) arguments for a rcode rule"),
    ("rewrite rcode a 0 24", "2:19: expected an RCODE such as NXDOMAIN or 3, found `24`"),
    ("rewrite rcode regex ( 0 1", "2:21: invalid regex matching pattern"),
    ("rewrite rcode foo a 0 1", "2:15: expected one of exact"),
    ("rewrite cname a", "2:1: wrong number (1) of arguments for a cname rule"),
    ("rewrite cname foo a b", "2:15: expected one of exact"),
    ("rewrite cname exact a b c", "2:25: wrong number (4) of arguments for a cname rule"),
    ("rewrite cname regex ( b", "2:21: invalid regex matching pattern"),
    ("rewrite edns0 local", "2:1: too few arguments for an EDNS0 rule"),
    ("rewrite edns0 local set 0xffee", "2:1: EDNS0 local rules require"),
    ("rewrite edns0 local set 0xffee a b", "2:34: EDNS0 local rules require"),
    ("rewrite edns0 local set 0xffee 0xabc", "2:32: expected pairs of hexadecimal digits"),
    ("rewrite edns0 local set 65536 a", "2:25: expected an option code such as 0xffee"),
    ("rewrite edns0 local set a a", "2:25: expected an option code"),
    ("rewrite edns0 local set 1 {foo}", "2:27: expected one of {qname}"),
    ("rewrite edns0 local set 1 revert", "2:1: EDNS0 local rules require"),
    ("rewrite edns0 local unset 1 revert", "2:29: local unset action requires"),
    ("rewrite edns0 local flip 1 2", "2:21: expected an action, one of set, append, replace, unset"),
    ("rewrite edns0 nsid set x", "2:24: EDNS0 NSID rules take no data"),
    ("rewrite edns0 nsid unset x", "2:26: EDNS0 NSID rules take no data"),
    ("rewrite edns0 subnet set 24", "2:1: EDNS0 subnet rules require two prefix lengths"),
    ("rewrite edns0 subnet set 33 56", "2:26: expected a prefix length from 0 to 32, found `33`"),
    ("rewrite edns0 subnet set 32 129", "2:29: expected a prefix length from 0 to 128"),
    ("rewrite edns0 subnet unset 24 56", "2:28: subnet unset action takes no arguments"),
    ("rewrite edns0 foo set 1 2", "2:15: expected one of local, nsid, subnet, found `foo`"),
    ("rewrite name exact a b {\nfoo\n}", "2:1: 'rewrite' takes no block in braces"),
    ("rewrite stop {\nname exact a b {\n}\n}", "3:1: 'name' takes no block in braces"),
];

#[test]
fn what_coredns_accepts_is_accepted() {
    for directive in ACCEPTED {
        let result = Bench::try_new(&format!(".:53 {{\n{directive}\nwhoami\n}}"));
        assert!(result.is_ok(), "{directive}: {}", result.unwrap_err());
    }
}

#[test]
fn what_coredns_refuses_is_refused_at_its_place() {
    for (directive, expected) in REFUSED {
        let result = Bench::try_new(&format!(".:53 {{\n{directive}\nwhoami\n}}"));
        let error = result.expect_err(directive).to_string();
        assert!(error.starts_with(&format!("Corefile:{expected}")), "{directive}: {error}");
    }
}
