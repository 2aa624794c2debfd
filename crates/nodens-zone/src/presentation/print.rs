//! Records as text.

use super::data;
use super::rdata::generic_text;
use super::tokens::Tokens;
use crate::zone::RecordRef;
use domain::base::iana::Rtype;
use domain::base::name::ParsedName;
use domain::base::rdata::ParseAnyRecordData;
use domain::base::zonefile_fmt::{DisplayKind, ZonefileFmt};
use domain::dep::octseq::Parser;
use domain::rdata::AllRecordData;
use nodens_wire::Type;

/// A record in one line, without its end: owner, TTL, class, type and RDATA, with tabs between them. Names are
/// absolute. RDATA that has no form of its own, or none that reads the same, is in the generic one (RFC 3597
/// section 5).
pub fn record_text(record: &RecordRef<'_>) -> String {
    let RecordRef { owner, rtype, class, ttl, rdata } = *record;
    let data = own_form(rtype, rdata).unwrap_or_else(|| generic_text(rdata));
    format!("{owner}\t{ttl}\t{class}\t{rtype}\t{data}")
}

fn own_form(rtype: Type, rdata: &[u8]) -> Option<String> {
    let mut parser = Parser::from_ref(rdata);
    let number = Rtype::from_int(rtype.0);
    let parsed = AllRecordData::<&[u8], ParsedName<&[u8]>>::parse_any_rdata(number, &mut parser);
    let text = parsed.ok()?.display_zonefile(DisplayKind::Simple).to_string();
    let read = data(rtype, &mut Tokens::new(&text)).ok()?;
    (parser.remaining() == 0 && read == rdata && !text.contains('\n')).then_some(text)
}
