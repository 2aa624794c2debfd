use super::*;
use std::collections::BTreeMap;
use std::io::{Cursor, Read};

/// Files by name.
struct Files(BTreeMap<&'static str, &'static str>);

impl Includes for Files {
    fn open(&mut self, path: &str, from: &str) -> io::Result<(String, Box<dyn BufRead>)> {
        let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
        let name = if folder.is_empty() { path.to_owned() } else { format!("{folder}/{path}") };
        let text = self.0.get(&*name).ok_or(io::ErrorKind::NotFound)?;
        Ok((name, Box::new(Cursor::new(text.as_bytes()))))
    }
}

fn files(text: &'static str, files: &[(&'static str, &'static str)]) -> Master {
    let origin = Name::parse("example.org.").unwrap();
    let includes = Files(files.iter().copied().collect());
    Master::new(Box::new(Cursor::new(text)), "zone", origin.view(), Box::new(includes))
}

fn octets(text: &[u8]) -> Master {
    let origin = Name::parse("example.org.").unwrap();
    Master::new(Box::new(Cursor::new(text.to_vec())), "zone", origin.view(), Box::new(NoIncludes))
}

/// Each record as `OWNER TTL CLASS TYPE hex`, or the error.
fn all(mut master: Master) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        match master.next_record() {
            Ok(Some(RecordRef { owner, ttl, class, rtype, rdata })) => {
                let hex: String = rdata.iter().map(|octet| format!("{octet:02x}")).collect();
                lines.push(format!("{owner} {ttl} {class} {rtype} {hex}"));
            }
            Ok(None) => return lines,
            Err(error) => {
                lines.push(error.to_string());
                assert_eq!(master.next_record().unwrap().map(|record| record.ttl), None);
                return lines;
            }
        }
    }
}

fn read(text: &str) -> Vec<String> {
    all(octets(text.as_bytes()))
}

#[test]
fn owners_ttls_and_classes_may_be_left_out() {
    let text = "; a comment\n\n$TTL 1h ; a comment\n@ IN SOA ns hostmaster (\n  1 ; serial\n  2h 3m 4w ( 5 ) )\n\
                \tNS ns\nns 60 A 192.0.2.1\n  IN 61 AAAA 2001:db8::1\nCLASS1.x 62 CLASS1 TYPE16 a\n\
                $origin sub\n@ A 192.0.2.2\n\tTXT \"a;b\" ; c\nabs. A 192.0.2.3\n \nA A 192.0.2.4";
    let soa = "026e7307 6578616d706c65036f726700 0a686f73746d6173746572 076578616d706c65036f726700";
    let soa = format!("{soa} 00000001 00001c20 000000b4 0024ea00 00000005").replace(' ', "");
    assert_eq!(
        read(text),
        [
            format!("example.org. 3600 IN SOA {soa}"),
            "example.org. 3600 IN NS 026e73076578616d706c65036f726700".into(),
            "ns.example.org. 60 IN A c0000201".into(),
            "ns.example.org. 61 IN AAAA 20010db8000000000000000000000001".into(),
            "CLASS1.x.example.org. 62 IN TXT 0161".into(),
            "sub.example.org. 3600 IN A c0000202".into(),
            "sub.example.org. 3600 IN TXT 03613b62".into(),
            "abs. 3600 IN A c0000203".into(),
            "A.sub.example.org. 3600 IN A c0000204".into(),
        ]
    );
}

#[test]
fn a_ttl_that_is_left_out_is_the_last_one_or_that_of_the_directive() {
    assert_eq!(read("a IN A 192.0.2.1\n A 192.0.2.2\nb 5 A 192.0.2.3\nc A 192.0.2.4").len(), 4);
    let ttls = |text: &str| -> Vec<String> {
        let ttl = |line: String| line.split(' ').nth(1).unwrap_or_default().to_owned();
        read(text).into_iter().map(ttl).collect()
    };
    assert_eq!(
        ttls("a IN A 192.0.2.1\n A 192.0.2.2\nb 5 A 192.0.2.3\nc A 192.0.2.4"),
        ["0", "0", "5", "5"]
    );
    assert_eq!(ttls("$TTL 7\na A 192.0.2.1\nb 5 A 192.0.2.3\nc A 192.0.2.4"), ["7", "5", "7"]);
    // The last field of the SOA record.
    let soa = "@ SOA a. b. 1 2 3 4 9\nb A 192.0.2.1\nc 5 A 192.0.2.2\nd A 192.0.2.3";
    assert_eq!(ttls(soa), ["9", "9", "5", "5"]);
    assert_eq!(ttls(&soa.replace("@ SOA", "@ IN SOA")), ["9", "9", "5", "5"]);
    assert_eq!(ttls(&soa.replace("@ SOA", "@ 7 SOA")), ["7", "7", "5", "5"]);
    assert_eq!(ttls(&format!("$TTL 8\n{soa}")), ["8", "8", "5", "8"]);
    assert_eq!(
        read("a A 192.0.2.1"),
        ["zone:1:3: expected a TTL, as no record and no $TTL before says one"]
    );
}

#[test]
fn names_are_relative_to_the_origin_in_all_rdata() {
    let rest = "076578616d706c65036f726700";
    for (text, rdata) in [
        ("CNAME @", rest.to_owned()),
        ("CNAME b.", "016200".into()),
        ("CNAME b\\.", format!("02622e{rest}")),
        ("MX 1 m", format!("0001016d{rest}")),
        ("SRV 1 2 3 @", format!("000100020003{rest}")),
        ("NAPTR 1 2 u s \"\" r", format!("000100020175017300{}{rest}", "0172")),
        ("NSEC b A", format!("0162{rest}000140")),
        ("HTTPS 1 t port=1", format!("00010174{rest}000300020001")),
        ("RP a @", format!("0161{rest}{rest}")),
        ("IPSECKEY 1 3 0 g", format!("0103000167{rest}")),
        ("TYPE2 \\# 3 016200", "016200".into()),
        ("A \\# 4 01020304", "01020304".into()),
    ] {
        let rtype = if text.starts_with("TYPE2") { "NS" } else { text.split(' ').next().unwrap() };
        assert_eq!(
            read(&format!("x 1 {text}")),
            [format!("x.example.org. 1 IN {rtype} {rdata}")],
            "{text}"
        );
    }
}

#[test]
fn included_files_have_an_origin_of_their_own_and_leave_none_behind() {
    let parts: &[(&str, &str)] = &[
        ("a/part", "@ A 192.0.2.1\n$ORIGIN deep\n$TTL 9\n$INCLUDE more up.\nx A 192.0.2.2\n"),
        ("a/more", "  A 192.0.2.3\nw 5 A 192.0.2.5"),
    ];
    let text = "$TTL 5\nfirst A 192.0.2.9\n$INCLUDE a/part sub\n A 192.0.2.4\n";
    assert_eq!(
        all(files(text, parts)),
        [
            "first.example.org. 5 IN A c0000209",
            "sub.example.org. 5 IN A c0000201",
            "sub.example.org. 9 IN A c0000203",
            "w.up. 5 IN A c0000205",
            "x.deep.sub.example.org. 9 IN A c0000202",
            "first.example.org. 5 IN A c0000204",
        ]
    );
    let error = "zone:1:1: failed to open `gone`: entity not found";
    assert_eq!(all(files("$INCLUDE gone", parts)), [error]);
    let error = all(files("\n$INCLUDE bad\n", &[("bad", "\n\nx 1 A\n")]));
    assert_eq!(error, ["bad:3:5: expected an IPv4 address, found the end of the record"]);
    let error = all(files("$INCLUDE zone", &[("zone", "$INCLUDE zone")]));
    assert_eq!(error, ["zone:1:1: expected at most 7 files within one another"]);
}

#[test]
fn generated_records_have_numbers() {
    assert_eq!(
        read("$TTL 5\n$GENERATE 1-5/2 h-$ IN A 192.0.2.${10}\nx A 192.0.2.1"),
        [
            "h-1.example.org. 5 IN A c000020b",
            "h-3.example.org. 5 IN A c000020d",
            "h-5.example.org. 5 IN A c000020f",
            "x.example.org. 5 IN A c0000201"
        ]
    );
    assert_eq!(
        read("$GENERATE 10-10 a${0,3,x}$${-9,2,o}${0,4,X}\\$ TXT \"\\\"$\" ; \\ c"),
        ["a00a${-9,2,o}000A$.example.org. 3600 IN TXT 03223130"]
    );
    assert_eq!(read("$GENERATE 0-65535 $ 1 A 192.0.2.1").len(), 65_536);
}

#[test]
fn generated_numbers_may_be_labels_of_hexadecimal_digits() {
    for (number, owner) in [
        ("${0,3,n}", "b.a"),
        ("${0,1,n}", "b.a"),
        ("${0,0,N}", "B.A"),
        ("${0,7,N}", "B.A.0.0"),
        ("${-171,1,n}", "0"),
        ("x${0,4,n}y", "xb.a.y"),
    ] {
        assert_eq!(
            read(&format!("$GENERATE 171-171 {number} 1 A 192.0.2.1")),
            [format!("{owner}.example.org. 1 IN A c0000201")],
            "{number}"
        );
    }
}

#[test]
fn generated_rdata_of_several_fields_may_stand_in_quotes() {
    // The manual of BIND writes it so.
    assert_eq!(
        read("$TTL 5\n$GENERATE 1-2 h$ IN MX \"$ m$.\" ; each\n$GENERATE 3-3 t$ TXT \"$ a\""),
        [
            "h1.example.org. 5 IN MX 0001026d3100",
            "h2.example.org. 5 IN MX 0002026d3200",
            "t3.example.org. 5 IN TXT 03332061"
        ]
    );
    assert_eq!(
        read("$GENERATE 1-1 h$ 1 MX \"1 m\" x"),
        ["zone:1:9: expected a number, found `1 m`"]
    );
}

#[test]
fn octets_that_are_no_text_are_taken_as_they_are() {
    let text = b"\xe9 1 TXT caf\xe9 \"\xc3\xa9\" ; \xff\n";
    assert_eq!(all(octets(text)), ["\\233.example.org. 1 IN TXT 04636166e902c3a9"]);
    assert_eq!(read("é 1 TXT é"), ["\\195\\169.example.org. 1 IN TXT 02c3a9"]);
    assert_eq!(read("a 1 TXT \"b\nc\"\r\nd 1 TXT e\r\n").len(), 2);
    // A byte order mark in front of the file is no part of a name; elsewhere it is.
    assert_eq!(read("\u{feff}a 1 TXT b\n"), ["a.example.org. 1 IN TXT 0162"]);
    assert_eq!(read("\n\u{feff} 1 TXT b\n"), ["\\239\\187\\191.example.org. 1 IN TXT 0162"]);
}

#[test]
fn what_is_no_zone_is_refused_with_its_place() {
    for (text, error) in [
        ("x", "1:1: expected a TTL, class or type, found the end of the record"),
        ("x 1 IN", "1:5: expected a TTL, class or type, found the end of the record"),
        ("x 1 A 1.2.3.256", "1:7: expected an IPv4 address, found `1.2.3.256`"),
        ("x 1 A 1.2.3.4 5", "1:15: expected the end of the record, found `5`"),
        ("x 1 AAAA 1.2.3.4", "1:10: expected an IPv6 address, found `1.2.3.4`"),
        ("x 1 BOGUS y", "1:5: expected a type such as AAAA, found `BOGUS`"),
        ("x 1 ANY y", "1:5: expected a type such as AAAA, found `ANY`"),
        ("x 1 AXFR y", "1:5: expected a type such as AAAA, found `AXFR`"),
        ("x 1 IN 2 A 1.2.3.4", "1:8: expected a type such as AAAA, found `2`"),
        ("a..b 1 A 1.2.3.4", "1:1: expected a domain name, found `a..b`"),
        ("\n\nx 1 SOA a. b. (\n1 2\n3 x 5 )", "5:3: expected a number of seconds, found `x`"),
        ("x 1 TXT", "1:5: expected text, found the end of the record"),
        ("x 1 SPF ; nothing", "1:5: expected text, found the end of the record"),
        (
            "x 1 HTTPS 1 y mandatory=port",
            "1:15: expected a list of keys that the record has, each once, found `port`",
        ),
        ("x 1 TXT \"a", "1:9: a quote is not closed"),
        ("x 1 TXT (a", "1:10: a parenthesis is not closed"),
        ("x 1 TXT a)", "1:9: expected the end of the record, found `)`"),
        ("x 1 TYPE65280 \\# 3 0102", "1:20: expected the number of octets, found `3`"),
        ("x 1 NS \\# 1 40", "1:13: expected a record of type NS that a message can hold"),
        // Octets behind the name, and a name that points somewhere.
        ("x 1 MX \\# 4 00010000", "1:13: expected a record of type MX that a message can hold"),
        ("x 1 NS \\# 2 c00c", "1:13: expected a record of type NS that a message can hold"),
        (
            "x 1 TYPE65280 abcd",
            "1:15: expected \\# and the number of octets, as the type has no other form, found `abcd`",
        ),
        (
            "x 4294967296 A 1.2.3.4",
            "1:3: expected a TTL of at most 4294967295 seconds, a class or a type, found `4294967296`",
        ),
        ("$TTL x", "1:6: expected a TTL, found `x`"),
        ("$TTL 1 2", "1:8: expected the end of the record, found `2`"),
        ("$TTL 4294967296", "1:6: expected a TTL, found `4294967296`"),
        ("$ORIGIN", "1:1: expected a domain name, found the end of the record"),
        ("$INCLUDE", "1:1: expected the path of a file, found the end of the record"),
        ("$INCLUDE x", "1:1: failed to open `x`: there are no other files"),
        (
            "$GENERATE 2-1 $ 1 A 1.2.3.4",
            "1:11: expected a range such as 1-10 or 1-10/2 of at most 65536 numbers, found `2-1`",
        ),
        (
            "$GENERATE 0-65536 $ 1 A 1.2.3.4",
            "1:11: expected a range such as 1-10 or 1-10/2 of at most 65536 numbers, found `0-65536`",
        ),
        (
            "$GENERATE 1-2/0 $ 1 A 1.2.3.4",
            "1:11: expected a range such as 1-10 or 1-10/2 of at most 65536 numbers, found `1-2/0`",
        ),
        ("$GENERATE 1-2", "1:11: expected a record, found the end of the record"),
        (
            "$GENERATE 1-2 ${0,1,q} 1 A 1.2.3.4",
            "1:11: expected a number such as $ or ${0,2,d}, found `0,1,q`",
        ),
        (
            "$GENERATE 1-2 ${-2} 1 A 1.2.3.4",
            "1:11: expected a number such as $ or ${0,2,d}, found `-2`",
        ),
        (
            "$GENERATE 1-2 ${0 1 A 1.2.3.4",
            "1:11: expected a number such as $ or ${0,2,d}, found `1-2`",
        ),
        (
            "\n$GENERATE 1-2 x${0,,} 1 A 1.2.3.4",
            "2:11: expected a number such as $ or ${0,2,d}, found `0,,`",
        ),
        ("$GENERATE 1-2 $$GENERATE 1-2 x 1 A 1.2.3.4", "1:1: expected a record, found `$GENERATE`"),
        ("\n$GENERATE 1-2 x$ 1 A 1.2.3", "2:8: expected an IPv4 address, found `1.2.3`"),
    ] {
        assert_eq!(read(text), [format!("zone:{error}")], "{text}");
    }
    let long = format!("x 1 TXT ({}", "a\n".repeat(MASTER_ENTRY_LEN_MAX));
    assert_eq!(read(&long), ["zone:1:1: expected the end of the entry within 1048576 octets"]);
    let most = format!("x 1 TXT (a{})\ny 1 TXT b", "\n".repeat(MASTER_ENTRY_LEN_MAX - 20));
    assert_eq!(read(&most).len(), 2);
}

/// Fails after the first line.
struct Broken(Cursor<&'static [u8]>);

impl Read for Broken {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self.0.read(room)? {
            0 => Err(io::Error::other("broken")),
            some => Ok(some),
        }
    }
}

#[test]
fn a_file_that_cannot_be_read_to_its_end_is_an_error() {
    let text = Box::new(io::BufReader::new(Broken(Cursor::new(b"x 1 A 192.0.2.1\n"))));
    let master = Master::new(text, "zone", NameRef::root(), Box::new(NoIncludes));
    let lines = all(master);
    assert_eq!(lines, ["x. 1 IN A c0000201", "zone:2:1: failed to read: broken"]);
}
