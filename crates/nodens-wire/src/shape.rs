//! The last step of a response: its OPT record, the client's size limit, and TC.

use crate::HEADER_LEN;
use crate::builder::Builder;
use crate::edns::OPT_LEN;
use crate::header::{Flags, Header};
use crate::message::{Message, Question};
use crate::reader::{Reader, WireError, is_same_name};
use crate::record::{RecordView, Records, Section};
use crate::types::{Rcode, Type};

/// What the OPT record of a response is to say.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResponseEdns<'o> {
    /// Largest UDP payload to announce, in octets.
    pub udp_size: u16,
    /// DO and reserved bits.
    pub flags: u16,
    /// Options as they stand in RDATA.
    pub options: &'o [u8],
}

/// Gives `response` its final form.
///
/// An OPT record it carries is removed; `edns` is appended if the client spoke EDNS. If the
/// result is longer than `limit` octets, whole records are dropped from the end and TC is set
/// (RFC 2181 section 9), but for addresses of servers elsewhere in a referral. The RCODE is `rcode`,
/// whose upper bits need `edns`.
#[inline]
pub fn shape(
    response: &mut Vec<u8>,
    rcode: Rcode,
    edns: Option<ResponseEdns<'_>>,
    limit: usize,
) -> Result<(), WireError> {
    shape_as(response, rcode, edns, limit, Traits::default())
}

/// What is known of a response without reading it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traits {
    /// It has no OPT record, so that none is looked for.
    pub without_opt: bool,
    /// How many octets writing it anew gains at most, where that is known: its names are compressed but for these.
    pub gain_max: Option<u8>,
    /// It has answers of a zone. The zone's servers and all additional records beside them may be left
    /// out for want of room: TC says that something required is missing (RFC 2181 section 9).
    pub optional_extras: bool,
}

/// As [`shape`], with what is known of the response.
pub fn shape_as(
    response: &mut Vec<u8>,
    rcode: Rcode,
    edns: Option<ResponseEdns<'_>>,
    limit: usize,
    traits: Traits,
) -> Result<(), WireError> {
    let mut header = Header::read(response)?;
    header.flags = header.flags.with_rcode(rcode);
    if header.counts[3] > 0 && !traits.without_opt {
        remove_opt(response, &mut header)?;
    }
    let opt_len = edns.map_or(0, |edns| OPT_LEN + edns.options.len());
    if response.len() + opt_len > limit {
        fit(response, &mut header, limit.saturating_sub(opt_len), traits)?;
    }
    if let Some(edns) = edns {
        push_opt(response, rcode, edns);
        header.counts[3] = header.counts[3].saturating_add(1);
    }
    header.write_to(response);
    Ok(())
}

fn remove_opt(response: &mut Vec<u8>, header: &mut Header) -> Result<(), WireError> {
    let mut opt = None;
    let mut found = 0;
    for record in Records::of(response)? {
        let record = record?;
        if record.rtype == Type::OPT && record.section == Section::Additional {
            opt = Some(record.owner_at..record.end());
            found += 1;
        }
    }
    let Some(opt) = opt else { return Ok(()) };
    if found == 1 && opt.end == response.len() {
        header.counts[3] = header.counts[3].saturating_sub(1);
        response.truncate(opt.start);
        return Ok(());
    }
    // Records behind the OPT may point at each other, so they cannot just be moved.
    let mut message = Message::parse(response)?;
    message.additional.retain(|record| record.rtype != Type::OPT);
    message.write(response)?;
    header.counts = Header::read(response)?.counts;
    Ok(())
}

/// Makes a response that is too long fit. It is written anew where that may make it whole, and its last records
/// are dropped otherwise.
#[cold]
fn fit(
    response: &mut Vec<u8>,
    header: &mut Header,
    limit: usize,
    traits: Traits,
) -> Result<(), WireError> {
    // Its counts must be those of the records that are left.
    header.write_to(response);
    if let Some(gain) = traits.gain_max {
        let cut = Cut::at(limit, response, header, traits)?;
        // Most that are too long are so by far.
        let may_be_whole = !cut.is_whole
            && gain > 0
            && Cut::at(limit + usize::from(gain), response, header, traits)?.is_whole;
        if !may_be_whole {
            return cut.make(response, header);
        }
    }
    compress(response, limit, traits)?;
    *header = Header::read(response)?;
    if response.len() <= limit {
        return Ok(());
    }
    Cut::at(limit, response, header, traits)?.make(response, header)
}

/// Writes the response anew with name compression, so that as much as possible fits: it may have
/// come from an upstream that does not compress. Ends with the first record that does not fit; if that is
/// optional, with the next one that is not, as TC goes by it. What comes after that is not looked at.
fn compress(response: &mut Vec<u8>, limit: usize, traits: Traits) -> Result<(), WireError> {
    let header = Header::read(response)?;
    let mut compressed = Vec::with_capacity(response.len().min(limit));
    let mut builder = Builder::new(&mut compressed, header.id, header.flags);
    let mut reader = Reader::new(response, HEADER_LEN);
    for _ in 0..header.counts[0] {
        let question = Question::read(&mut reader)?;
        builder.question(question.qname.view(), question.qtype, question.qclass);
    }
    let (mut before, mut after) = (reader.at(), builder.len());
    for record in Records::new(response, before, header.counts) {
        let record = record?;
        let (is_full, is_optional) =
            (after > limit, traits.optional_extras && is_extra(response, &record));
        if is_full && is_optional {
            continue;
        }
        let is_out = builder.push(record.section, &record.to_record(response)?).is_err();
        if !is_full {
            (before, after) = (record.end(), builder.len());
        }
        if is_out || after > limit && !is_optional {
            break;
        }
    }
    if after < before {
        *response = compressed;
    }
    Ok(())
}

/// Where a response is cut.
struct Cut {
    kept: Kept,
    dropped: Option<RecordView>,
    /// The response is whole without what is dropped.
    is_whole: bool,
}

impl Cut {
    /// In front of the first record that ends behind `limit`.
    fn at(
        limit: usize,
        response: &[u8],
        header: &Header,
        traits: Traits,
    ) -> Result<Self, WireError> {
        let (kept, dropped) = Kept::until(response, header, |record| record.end() > limit)?;
        let is_whole = match &dropped {
            Some(dropped) => is_whole_without(response, header, dropped, traits)?,
            None => true,
        };
        Ok(Self { kept, dropped, is_whole })
    }

    /// Drops the records; the question stays.
    fn make(self, response: &mut Vec<u8>, header: &mut Header) -> Result<(), WireError> {
        let mut kept = self.kept;
        match self.dropped {
            // Only a response with TC may have a part of an RRset.
            Some(dropped) if self.is_whole => {
                kept = Kept::before_set_of(response, header, &dropped)?;
            }
            Some(_) => header.flags = header.flags.with(Flags::TC, true),
            None => {}
        }
        response.truncate(kept.end.max(HEADER_LEN));
        header.counts = kept.counts;
        Ok(())
    }
}

/// Whether the response is whole without the record and all behind it.
fn is_whole_without(
    response: &[u8],
    header: &Header,
    first: &RecordView,
    traits: Traits,
) -> Result<bool, WireError> {
    let [_, answers, ..] = header.counts;
    match answers {
        0 => is_spare_in_referral(response, first),
        _ if traits.optional_extras => are_extras(response, first),
        _ => Ok(false),
    }
}

/// Whether a referral is whole without the record: the address of a server that is not below the
/// zone that the client is referred to (RFC 9471 section 3.2).
fn is_spare_in_referral(response: &[u8], record: &RecordView) -> Result<bool, WireError> {
    if record.section != Section::Additional {
        return Ok(false);
    }
    let first = Records::of(response)?.next().transpose()?;
    let Some(server) = first.filter(|first| first.rtype == Type::NS) else { return Ok(false) };
    let (server, zone) = (record.owner(response)?, server.owner(response)?);
    Ok(!server.view().is_in_domain(zone.view()))
}

/// Whether the record and all behind it are servers of the zone, with signatures, and additional
/// records. Proofs stand in the authority section as well, and are required.
fn are_extras(response: &[u8], first: &RecordView) -> Result<bool, WireError> {
    for record in Records::of(response)? {
        let record = record?;
        if record.owner_at >= first.owner_at && !is_extra(response, &record) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_extra(response: &[u8], record: &RecordView) -> bool {
    match record.section {
        Section::Answer => false,
        Section::Authority => covered(response, record) == Type::NS,
        Section::Additional => true,
    }
}

/// The type of the record, or that of the RRset which it signs.
fn covered(response: &[u8], record: &RecordView) -> Type {
    match response.get(record.rdata.clone()) {
        Some([high, low, ..]) if record.rtype == Type::RRSIG => {
            Type(u16::from_be_bytes([*high, *low]))
        }
        _ => record.rtype,
    }
}

/// The first records of a response.
struct Kept {
    end: usize,
    counts: [u16; 4],
}

impl Kept {
    /// Those in front of the first one that `is_dropped`, which is given as well.
    fn until(
        response: &[u8],
        header: &Header,
        mut is_dropped: impl FnMut(&RecordView) -> bool,
    ) -> Result<(Self, Option<RecordView>), WireError> {
        let [questions, ..] = header.counts;
        let records = Records::of(response)?;
        let mut kept = Self { end: records.at(), counts: [questions, 0, 0, 0] };
        for record in records {
            let record = record?;
            if is_dropped(&record) {
                return Ok((kept, Some(record)));
            }
            kept.end = record.end();
            if let Some(count) = kept.counts.get_mut(record.section.count_index()) {
                *count += 1;
            }
        }
        Ok((kept, None))
    }

    /// Those in front of the RRset of `dropped`.
    fn before_set_of(
        response: &[u8],
        header: &Header,
        dropped: &RecordView,
    ) -> Result<Self, WireError> {
        let (kept, _) = Self::until(response, header, |record| {
            let is_of_set = (record.section, record.rtype) == (dropped.section, dropped.rtype)
                && is_same_name(response, record.owner_at, dropped.owner_at);
            is_of_set || record.owner_at == dropped.owner_at
        })?;
        Ok(kept)
    }
}

pub(crate) fn push_opt(response: &mut Vec<u8>, rcode: Rcode, edns: ResponseEdns<'_>) {
    let options = edns.options.get(..usize::from(u16::MAX)).unwrap_or(edns.options);
    response.push(0);
    response.extend(Type::OPT.0.to_be_bytes());
    response.extend(edns.udp_size.to_be_bytes());
    response.extend([(rcode.0 >> 4) as u8, 0]);
    response.extend(edns.flags.to_be_bytes());
    response.extend((options.len() as u16).to_be_bytes());
    response.extend_from_slice(options);
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{Class, Name, Record};
    use proptest::prelude::*;

    const WITHOUT_OPT: Traits =
        Traits { without_opt: true, gain_max: None, optional_extras: false };

    /// A response with so many records, without OPT.
    pub(crate) fn response(records: u8) -> Vec<u8> {
        let mut out = Vec::new();
        let owner = Name::parse("example.org").unwrap();
        let mut builder = Builder::new(&mut out, 1, Flags(0x8180));
        builder.question(owner.view(), Type::A, Class::IN);
        for last in 0..records {
            let fields = (Type::A, Class::IN, 60);
            builder.record(Section::Answer, owner.view(), fields, &[192, 0, 2, last]).unwrap();
        }
        out
    }

    #[test]
    fn a_response_that_fits_only_gets_its_opt() {
        let mut bytes = response(2);
        let plain = bytes.clone();
        shape(&mut bytes, Rcode::NOERROR, None, 512).unwrap();
        assert_eq!(bytes, plain);
        let edns = ResponseEdns { udp_size: 1232, flags: 0x8000, options: &[] };
        shape(&mut bytes, Rcode::BADVERS, Some(edns), 512).unwrap();
        let message = Message::parse(&bytes).unwrap();
        let (read, _) = message.edns().unwrap();
        assert_eq!((read.extended_rcode, read.udp_size, read.dnssec_ok()), (1, 1232, true));
        // A second pass replaces the record and does not add another.
        shape(&mut bytes, Rcode::NOERROR, Some(edns), 512).unwrap();
        assert_eq!(Message::parse(&bytes).unwrap().additional.len(), 1);
        shape(&mut bytes, Rcode::NOERROR, None, 512).unwrap();
        assert_eq!(bytes, plain);
    }

    #[test]
    fn a_response_without_an_opt_record_is_shaped_as_others_are() {
        let edns = ResponseEdns { udp_size: 1232, ..ResponseEdns::default() };
        for (records, edns) in [(2, None), (2, Some(edns)), (40, Some(edns))] {
            let (mut one, mut other) = (response(records), response(records));
            shape(&mut one, Rcode::NXDOMAIN, edns, 512).unwrap();
            shape_as(&mut other, Rcode::NXDOMAIN, edns, 512, WITHOUT_OPT).unwrap();
            assert_eq!(one, other);
        }
    }

    #[test]
    fn a_response_that_does_not_fit_is_cut_at_a_record_and_says_so() {
        let mut bytes = response(40);
        let edns = ResponseEdns { udp_size: 1232, ..ResponseEdns::default() };
        shape(&mut bytes, Rcode::NOERROR, Some(edns), 512).unwrap();
        assert!(bytes.len() <= 512 && bytes.len() > 512 - 16);
        let message = Message::parse(&bytes).unwrap();
        assert!(message.flags.has(Flags::TC));
        assert_eq!(message.answer.len(), 29);
        assert_eq!(message.additional.len(), 1);
    }

    #[test]
    fn every_opt_in_the_additional_section_is_removed_and_none_elsewhere() {
        let mut bytes = response(1);
        let plain = Message::parse(&bytes).unwrap();
        shape(&mut bytes, Rcode::NOERROR, Some(ResponseEdns::default()), 512).unwrap();
        let opt = Message::parse(&bytes).unwrap().additional.remove(0);
        let mut message = plain.clone();
        message.additional = vec![opt.clone(), opt.clone()];
        message.write(&mut bytes).unwrap();
        shape(&mut bytes, Rcode::NOERROR, None, 512).unwrap();
        assert_eq!(Message::parse(&bytes).unwrap(), plain);
        message.answer.push(opt.clone());
        message.additional = vec![opt];
        message.write(&mut bytes).unwrap();
        shape(&mut bytes, Rcode::NOERROR, None, 512).unwrap();
        let shaped = Message::parse(&bytes).unwrap();
        assert_eq!((shaped.answer.len(), shaped.additional.len()), (2, 0));
    }

    #[test]
    fn names_are_compressed_before_anything_is_cut() {
        let mut bytes = response(0);
        let question_end = bytes.len();
        let owner = bytes[HEADER_LEN..question_end - 4].to_vec();
        for last in 0..20 {
            bytes.extend(&owner);
            bytes.extend([0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, last]);
        }
        bytes[7] = 20;
        assert!(bytes.len() > 512);
        shape(&mut bytes, Rcode::NOERROR, None, 512).unwrap();
        let message = Message::parse(&bytes).unwrap();
        assert!(!message.flags.has(Flags::TC) && message.answer.len() == 20);
    }

    #[test]
    fn a_response_that_is_compressed_is_not_written_anew() {
        let compressed = Traits { gain_max: Some(0), ..WITHOUT_OPT };
        let (mut one, mut other) = (response(40), response(40));
        shape(&mut one, Rcode::NOERROR, None, 512).unwrap();
        shape_as(&mut other, Rcode::NOERROR, None, 512, compressed).unwrap();
        assert_eq!(one, other);
    }

    /// An answer and as many servers of a zone, with compression or not, and a denial behind them.
    fn proven(compress: bool, servers: u8) -> Vec<u8> {
        let mut message = Message::parse(&response(1)).unwrap();
        let record = |rtype, rdata: &[u8]| Record {
            owner: Name::parse("a.long.name.of.a.zone").unwrap(),
            rtype,
            rdata: rdata.to_vec(),
            ..message.answer[0].clone()
        };
        let servers = (0..servers).map(|_| record(Type::NS, b"\x02ns\0"));
        message.authority = servers.chain([record(Type::NSEC, b"\x01b\0\0\x01\x40")]).collect();
        let mut bytes = Vec::new();
        message.write(&mut bytes).unwrap();
        if !compress {
            let (counts, end) = (bytes[..HEADER_LEN].to_vec(), response(0).len());
            bytes.truncate(end);
            bytes[..HEADER_LEN].copy_from_slice(&counts);
            for record in message.answer.iter().chain(&message.authority) {
                bytes.extend(record.owner.as_wire());
                bytes.extend([record.rtype.0.to_be_bytes(), [0, 1], [0, 0], [0, 60]].concat());
                bytes.extend((record.rdata.len() as u16).to_be_bytes());
                bytes.extend(&record.rdata);
            }
        }
        bytes
    }

    #[test]
    fn tc_says_that_a_proof_behind_optional_records_is_missing() {
        let optional_extras = Traits { optional_extras: true, ..Traits::default() };
        for (compress, limit) in [(true, 120), (false, 120), (false, 90), (false, 200)] {
            let mut bytes = proven(compress, 20);
            shape_as(&mut bytes, Rcode::NOERROR, None, limit, optional_extras).unwrap();
            let message = Message::parse(&bytes).unwrap();
            assert!(bytes.len() <= limit && message.flags.has(Flags::TC), "{compress} {limit}");
            let is_server = |record: &Record| record.rtype == Type::NS;
            assert!(message.authority.iter().all(is_server), "{compress} {limit}");
        }
    }

    #[test]
    fn what_is_compressed_but_for_some_octets_is_written_anew_if_these_are_enough() {
        let (whole, gained) = (proven(false, 3), proven(true, 3));
        let gain = (whole.len() - gained.len()) as u8;
        for (limit, gain_max, is_cut) in [
            (whole.len(), gain, false),
            (whole.len() - 1, gain, false),
            (gained.len(), gain, false),
            (gained.len(), gain - 1, true),
            (gained.len() - 1, gain, true),
        ] {
            let mut bytes = whole.clone();
            let traits = Traits { gain_max: Some(gain_max), ..WITHOUT_OPT };
            shape_as(&mut bytes, Rcode::NOERROR, None, limit, traits).unwrap();
            let message = Message::parse(&bytes).unwrap();
            assert_eq!(message.flags.has(Flags::TC), is_cut, "{limit} {gain_max}");
            assert_eq!(message.authority.len() == 4, !is_cut, "{limit} {gain_max}");
        }
    }

    #[test]
    fn what_is_cut_off_is_not_even_read() {
        let mut bytes = response(40);
        // The address of the last record has 5 octets.
        let end = bytes.len();
        bytes[end - 5] = 5;
        bytes.push(0);
        assert!(shape(&mut bytes.clone(), Rcode::NOERROR, None, end - 1).is_err());
        shape(&mut bytes, Rcode::NOERROR, None, 512).unwrap();
        let message = Message::parse(&bytes).unwrap();
        assert!(message.flags.has(Flags::TC) && message.answer.len() == 30);
    }

    #[test]
    fn a_response_that_gets_too_long_when_it_is_written_again_is_cut() {
        let mut message = Message::parse(&response(1)).unwrap();
        let mut bytes = Vec::new();
        let (owner, fields) = (message.answer[0].owner.clone(), (Type::TXT, Class::IN, 60));
        let mut builder = Builder::new(&mut bytes, 1, Flags(0x8180));
        builder.question(owner.view(), Type::TXT, Class::IN);
        for len in [60_000, 5_000] {
            builder.record_at(Section::Answer, HEADER_LEN, fields, &vec![1; len]).unwrap();
        }
        shape(&mut bytes, Rcode::NOERROR, Some(ResponseEdns::default()), 65_050).unwrap();
        message = Message::parse(&bytes).unwrap();
        assert!(message.flags.has(Flags::TC));
        assert_eq!((message.answer.len(), message.additional.len()), (1, 1));
    }

    proptest! {
        #[test]
        fn stopping_at_the_limit_gives_what_cutting_the_whole_gives(
            names in prop::collection::vec("([ab]{1,9}[.]){1,6}", 1..60),
            limit in 512..2000_usize,
        ) {
            // No name in it is compressed.
            let mut bytes = response(0);
            for name in &names {
                bytes.extend(Name::parse(name).unwrap().as_wire());
                bytes.extend([0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1]);
            }
            bytes[7] = names.len() as u8;
            let mut expected = bytes.clone();
            if expected.len() > limit {
                Message::parse(&bytes).unwrap().write(&mut expected).unwrap();
            }
            if expected.len() > limit {
                let mut header = Header::read(&expected).unwrap();
                let cut = Cut::at(limit, &expected, &header, Traits::default()).unwrap();
                cut.make(&mut expected, &mut header).unwrap();
                header.write_to(&mut expected);
            }
            shape(&mut bytes, Rcode::NOERROR, None, limit).unwrap();
            prop_assert_eq!(bytes, expected);
        }
    }

    #[test]
    fn a_response_with_an_opt_record_is_cut_as_well() {
        let mut bytes = response(40);
        let edns = ResponseEdns { udp_size: 4096, ..ResponseEdns::default() };
        shape(&mut bytes, Rcode::NOERROR, Some(edns), 4096).unwrap();
        shape(&mut bytes, Rcode::NOERROR, Some(edns), 512).unwrap();
        let message = Message::parse(&bytes).unwrap();
        assert!(message.flags.has(Flags::TC) && message.answer.len() == 29);
        assert_eq!(message.additional.len(), 1);
    }

    /// A referral to `a.example.org` with two addresses of a server there and two of one elsewhere.
    fn referral() -> Vec<u8> {
        let name = |text: &str| Name::parse(text).unwrap();
        let (zone, own, other) =
            (name("a.example.org"), name("ns.a.example.org"), name("ns.b.example.org"));
        let mut out = Vec::new();
        let mut builder = Builder::new(&mut out, 1, Flags(0x8000));
        builder.question(zone.view(), Type::A, Class::IN);
        let fields = |rtype| (rtype, Class::IN, 60);
        for server in [&own, &other] {
            let fields = fields(Type::NS);
            builder.record(Section::Authority, zone.view(), fields, server.as_wire()).unwrap();
        }
        for (server, last) in [(&own, 1), (&own, 2), (&other, 3), (&other, 4)] {
            let (fields, address) = (fields(Type::A), [192, 0, 2, last]);
            builder.record(Section::Additional, server.view(), fields, &address).unwrap();
        }
        out
    }

    #[test]
    fn a_referral_is_whole_without_addresses_of_servers_elsewhere() {
        let whole = referral().len();
        // Each address but the first of a name takes 16 octets.
        for (limit, additional, is_cut) in [
            (whole, 4, false),
            (whole - 1, 2, false),
            (whole - 17, 2, false),
            (whole - 33, 1, true),
        ] {
            let mut bytes = referral();
            shape(&mut bytes, Rcode::NOERROR, None, limit).unwrap();
            let message = Message::parse(&bytes).unwrap();
            let seen = (message.additional.len(), message.flags.has(Flags::TC));
            assert_eq!((message.authority.len(), seen), (2, (additional, is_cut)), "{limit}");
        }
    }

    #[test]
    fn servers_and_addresses_beside_answers_are_optional_in_responses_of_a_zone() {
        let parts = Message::parse(&referral()).unwrap();
        let proof = Record { rtype: Type::NSEC, ..parts.additional[0].clone() };
        let mut answer = parts.clone();
        answer.answer = vec![parts.additional[0].clone()];
        let proven =
            { Message { authority: [&parts.authority[..], &[proof]].concat(), ..answer.clone() } };
        let whole = Traits { optional_extras: true, ..Traits::default() };
        // How much too short the limit is, and what is left then.
        for (message, traits, missing, counts, is_cut) in [
            (&answer, whole, 0, [2, 4], false),
            (&answer, whole, 1, [2, 2], false),
            (&answer, whole, 33, [2, 0], false),
            (&answer, whole, 70, [0, 0], false),
            (&proven, whole, 1, [3, 2], false),
            (&proven, whole, 70, [2, 0], true),
            (&answer, Traits::default(), 1, [2, 3], true),
        ] {
            let mut bytes = Vec::new();
            message.write(&mut bytes).unwrap();
            let limit = bytes.len() - missing;
            shape_as(&mut bytes, Rcode::NOERROR, None, limit, traits).unwrap();
            let left = Message::parse(&bytes).unwrap();
            let seen = ([left.authority.len(), left.additional.len()], left.flags.has(Flags::TC));
            assert_eq!((left.answer.len(), seen), (1, (counts, is_cut)), "{traits:?} {missing}");
        }
    }

    #[test]
    fn an_opt_in_front_of_other_records_is_removed() {
        let mut message = Message::parse(&response(1)).unwrap();
        let glue = message.answer[0].clone();
        let mut with_opt = response(1);
        shape(&mut with_opt, Rcode::NOERROR, Some(ResponseEdns::default()), 512).unwrap();
        let opt = Message::parse(&with_opt).unwrap().additional.remove(0);
        message.additional = vec![opt, glue.clone()];
        let mut bytes = Vec::new();
        message.write(&mut bytes).unwrap();
        shape(&mut bytes, Rcode::NOERROR, None, 512).unwrap();
        assert_eq!(Message::parse(&bytes).unwrap().additional, [glue]);
    }
}
