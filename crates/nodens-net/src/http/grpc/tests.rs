use super::packet::FIELD;
use super::*;

/// A query for the root's NS records.
const ROOT: &[u8] = b"\0\0\x01\0\0\x01\0\0\0\0\0\0\0\0\x02\0\x01";

fn framed(packet: &[u8]) -> Vec<u8> {
    let mut body = vec![0];
    body.extend((packet.len() as u32).to_be_bytes());
    body.extend(packet);
    body
}

fn packet(message: &[u8]) -> Vec<u8> {
    let mut packet = vec![FIELD, message.len() as u8];
    packet.extend(message);
    packet
}

#[test]
fn a_query_is_in_its_field_whatever_is_beside_it() {
    assert_eq!(query(&framed(&packet(ROOT))), Ok(ROOT.to_vec()));
    let unknown: [&[u8]; 4] =
        [&[0x10, 0xff, 1], &[0x19, 1, 2, 3, 4, 5, 6, 7, 8], &[0x22, 2, 0, 0], &[0x2d, 1, 2, 3, 4]];
    for other in unknown {
        assert_eq!(query(&framed(&[other, &packet(ROOT)].concat())), Ok(ROOT.to_vec()));
        assert_eq!(query(&framed(&[&packet(ROOT), other].concat())), Ok(ROOT.to_vec()));
    }
    // The last one counts.
    let twice = [packet(&ROOT[..3]), packet(ROOT)].concat();
    assert_eq!(query(&framed(&twice)), Ok(ROOT.to_vec()));
}

#[test]
fn what_is_no_query_fails_with_its_code() {
    let code = |body: &[u8]| query(body).unwrap_err().code;
    let whole = framed(&packet(ROOT));
    for len in 0..whole.len() {
        assert_eq!(code(&whole[..len]), Code::Internal, "{len}");
    }
    assert_eq!(code(&[&whole[..], &[0]].concat()), Code::Internal);
    assert_eq!(code(&[&[1], &whole[1..]].concat()), Code::Internal);
    assert_eq!(code(&[&[2], &whole[1..]].concat()), Code::Internal);
    assert_eq!(code(&[0, 0xff, 0xff, 0xff, 0xff]), Code::ResourceExhausted);
    for packet in [&[][..], &packet(b""), &packet(&ROOT[..11]), &packet(&[0xff; 20])] {
        assert_eq!(code(&framed(packet)), Code::Unknown, "{packet:?}");
    }
    let long = [0xff; 11];
    for packet in [&[FIELD][..], &[FIELD, 9], &[0x0b], &[0x0c], &[2, 0], &long, &[0x11, 0]] {
        assert_eq!(code(&framed(packet)), Code::Internal, "{packet:?}");
    }
}

#[test]
fn compression_is_refused_before_the_body() {
    let begin_with = |encoding: &str| {
        let request = http::Request::builder().method("POST").uri(PATH);
        let request = request.header("content-type", MEDIA_TYPE).header("grpc-encoding", encoding);
        begin(&request.body(()).unwrap().into_parts().0).map_err(|failure| failure.code)
    };
    assert_eq!(begin_with(""), Ok(()));
    assert_eq!(begin_with("identity"), Ok(()));
    assert_eq!(begin_with("gzip"), Err(Code::Unimplemented));
}

#[test]
fn a_response_is_read_as_it_was_written() {
    for len in [0, 1, 127, 128, 16_383, 16_384, 65_535] {
        let message = vec![7; len];
        let body = response(&message).body;
        assert_eq!(body[0], 0);
        assert_eq!(u32::from_be_bytes(body[1..5].try_into().unwrap()) as usize, body.len() - 5);
        assert_eq!(packet::message(&body, len).unwrap(), message);
    }
}

#[test]
fn heads_of_other_calls_are_refused_as_by_the_library_of_go() {
    let begin_with = |method: &str, path: &str, media_type: &str| {
        let request = http::Request::builder().method(method).uri(path);
        let request = request.header("content-type", media_type).body(()).unwrap();
        begin(&request.into_parts().0).map_err(|failure| (failure.status.as_u16(), failure.text))
    };
    for media_type in ["application/grpc", "application/grpc+proto", "Application/gRPC;x=y"] {
        assert_eq!(begin_with("POST", PATH, media_type), Ok(()));
    }
    let cases = [
        ("POST", "/x.Y/Z", MEDIA_TYPE, 200, "unknown service x.Y"),
        (
            "POST",
            "/coredns.dns.DnsService/Ask",
            MEDIA_TYPE,
            200,
            "unknown method Ask for service coredns.dns.DnsService",
        ),
        ("POST", "/x", MEDIA_TYPE, 200, "malformed method name: \"/x\""),
        ("GET", PATH, MEDIA_TYPE, 405, "should be POST"),
        ("POST", PATH, "application/grpcx", 415, "content-type \"application/grpcx\""),
        ("POST", PATH, "", 415, "content-type \"\""),
    ];
    for (method, path, media_type, status, wanted) in cases {
        let (own, text) = begin_with(method, path, media_type).unwrap_err();
        assert_eq!(own, status, "{text}");
        assert!(text.contains(wanted), "{text}");
    }
}
