//! `file`, while its file is wrong in every way.

use crate::fixture::{Folder, Server};
use nodens_wire::Type;
use std::time::{Duration, Instant};

/// What is behind a good SOA record, and what the log says of it, with the place.
const WRONG: &[(&str, &str)] = &[
    ("x", "2:1: expected a TTL, class or type, found the end of the record"),
    ("x 1 A 1.2.3.256", "2:7: expected an IPv4 address, found `1.2.3.256`"),
    ("x 1 A 1.2.3.4 5", "2:15: expected the end of the record, found `5`"),
    ("x 1 AAAA 1.2.3.4", "2:10: expected an IPv6 address, found `1.2.3.4`"),
    ("x 1 BOGUS y", "2:5: expected a type such as AAAA, found `BOGUS`"),
    ("a..b 1 A 1.2.3.4", "2:1: expected a domain name, found `a..b`"),
    ("x 1 TXT \"a", "a quote is not closed"),
    ("x 1 TXT (a", "a parenthesis is not closed"),
    ("x 1 TXT a)", "2:9: expected the end of the record, found `)`"),
    ("x 1 TYPE65280 \\# 3 0102", "2:20: expected the number of octets, found `3`"),
    ("x 1 NS \\# 1 40", "2:13: expected a record of type NS that a message can hold"),
    ("$TTL x", "2:6: expected a TTL, found `x`"),
    ("$ORIGIN", "2:1: expected a domain name, found the end of the record"),
    ("$INCLUDE none", "2:1: failed to open `none`"),
    ("$INCLUDE zone", "expected at most 7 files within one another"),
    ("$GENERATE 1-2", "2:11: expected a record, found the end of the record"),
    ("\n\n$GENERATE 1-2 x$ 1 A 1.2.3", "4:8: expected an IPv4 address, found `1.2.3`"),
];

fn zone(serial: u32, rest: &str) -> String {
    format!("@ 60 SOA . . {serial} 2 3 4 5\n{rest}\n")
}

/// Puts a file into the place of the one before it at once, as editors do.
fn replace(folder: &Folder, text: &[u8]) {
    std::fs::write(folder.0.join("new"), text).unwrap();
    std::fs::rename(folder.0.join("new"), folder.0.join("zone")).unwrap();
}

fn address(server: &Server) -> u8 {
    let answer = server.ask("www.example.org.", Type::A);
    *answer.answer[0].rdata.last().unwrap()
}

#[test]
fn the_last_good_zone_is_served_whatever_its_file_says() {
    let folder = Folder::new("zone-files");
    replace(&folder, zone(1, "www 1 A 192.0.2.1").as_bytes());
    let server = Server::start(
        "zone-files-server",
        &format!(
            "example.org:PORT {{\n bind 127.0.0.1\n root {}\n file zone {{\n reload 1s\n }}\n}}\n",
            folder.0.display()
        ),
    );
    assert_eq!(address(&server), 1);
    let (mut serial, mut good) = (1, 1);
    let texts = WRONG.iter().map(|(rest, said)| (rest.as_bytes().to_vec(), *said));
    let octets = [0xff_u8, 0, 1, b'\n'].repeat(64);
    for (rest, said) in texts.chain([(octets, "expected")]) {
        serial += 1;
        replace(
            &folder,
            &[zone(serial, "").trim_end().as_bytes(), b"\n", &rest, b"\nwww 1 A 192.0.2.99\n"]
                .concat(),
        );
        let line = server.wait_for("Failed: parsing zone \"example.org.\": ");
        assert!(line.contains(said), "{said:?} is not in {line:?}");
        assert_eq!(address(&server), good, "{said}");
        // What is put right is taken up.
        if serial % 5 == 0 {
            (serial, good) = (serial + 1, good + 1);
            replace(&folder, zone(serial, &format!("www 1 A 192.0.2.{good}")).as_bytes());
            server.wait_for("Successfully reloaded zone \"example.org.\"");
            assert_eq!(address(&server), good);
        }
    }
    std::fs::remove_file(folder.0.join("zone")).unwrap();
    server.wait_for("Failed to open zone \"example.org.\"");
    assert_eq!(address(&server), good);
    let since = Instant::now();
    while since.elapsed() < Duration::from_millis(1500) {
        assert_eq!(address(&server), good);
    }
}
