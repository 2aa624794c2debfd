//! Sets of characters that have a name in Go.

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, HirKind};

/// Classes of POSIX as they stand between `[:` and `:]`, ASCII only.
const POSIX: [(&str, &[(char, char)]); 14] = [
    ("alnum", &[('0', '9'), ('A', 'Z'), ('a', 'z')]),
    ("alpha", &[('A', 'Z'), ('a', 'z')]),
    ("ascii", &[('\0', '\x7f')]),
    ("blank", &[('\t', '\t'), (' ', ' ')]),
    ("cntrl", &[('\0', '\x1f'), ('\x7f', '\x7f')]),
    ("digit", DIGIT),
    ("graph", &[('!', '~')]),
    ("lower", &[('a', 'z')]),
    ("print", &[(' ', '~')]),
    ("punct", &[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')]),
    ("space", &[('\t', '\r'), (' ', ' ')]),
    ("upper", &[('A', 'Z')]),
    ("word", WORD),
    ("xdigit", &[('0', '9'), ('A', 'F'), ('a', 'f')]),
];

const DIGIT: &[(char, char)] = &[('0', '9')];
/// Perl's space has no vertical tab, unlike that of POSIX.
const SPACE: &[(char, char)] = &[('\t', '\n'), ('\x0c', '\r'), (' ', ' ')];
const WORD: &[(char, char)] = &[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')];

/// General categories of Unicode by their short names, in the letter case that Go looks for. `Cs` holds
/// nothing that can stand in a text.
const CATEGORIES: &[&str] = &[
    "C", "Cc", "Cf", "Cn", "Co", "Cs", "L", "Lc", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me",
    "Mn", "N", "Nd", "Nl", "No", "P", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk",
    "Sm", "So", "Z", "Zl", "Zp", "Zs",
];

/// The same by their long names.
const CATEGORY_ALIASES: &[&str] = &[
    "Casedletter",
    "Closepunctuation",
    "Cntrl",
    "Combiningmark",
    "Connectorpunctuation",
    "Control",
    "Currencysymbol",
    "Dashpunctuation",
    "Decimalnumber",
    "Digit",
    "Enclosingmark",
    "Finalpunctuation",
    "Format",
    "Initialpunctuation",
    "Letter",
    "Letternumber",
    "Lineseparator",
    "Lowercaseletter",
    "Mark",
    "Mathsymbol",
    "Modifierletter",
    "Modifiersymbol",
    "Nonspacingmark",
    "Number",
    "Openpunctuation",
    "Other",
    "Otherletter",
    "Othernumber",
    "Otherpunctuation",
    "Othersymbol",
    "Paragraphseparator",
    "Privateuse",
    "Punct",
    "Punctuation",
    "Separator",
    "Spaceseparator",
    "Spacingmark",
    "Surrogate",
    "Symbol",
    "Titlecaseletter",
    "Unassigned",
    "Uppercaseletter",
];

/// Scripts. Those of two words are missing because Go finds none of them: it takes the underscore out of
/// the name before it looks.
const SCRIPTS: &[&str] = &[
    "Adlam",
    "Ahom",
    "Arabic",
    "Armenian",
    "Avestan",
    "Balinese",
    "Bamum",
    "Batak",
    "Bengali",
    "Bhaiksuki",
    "Bopomofo",
    "Brahmi",
    "Braille",
    "Buginese",
    "Buhid",
    "Carian",
    "Chakma",
    "Cham",
    "Cherokee",
    "Chorasmian",
    "Common",
    "Coptic",
    "Cuneiform",
    "Cypriot",
    "Cyrillic",
    "Deseret",
    "Devanagari",
    "Dogra",
    "Duployan",
    "Elbasan",
    "Elymaic",
    "Ethiopic",
    "Georgian",
    "Glagolitic",
    "Gothic",
    "Grantha",
    "Greek",
    "Gujarati",
    "Gurmukhi",
    "Han",
    "Hangul",
    "Hanunoo",
    "Hatran",
    "Hebrew",
    "Hiragana",
    "Inherited",
    "Javanese",
    "Kaithi",
    "Kannada",
    "Katakana",
    "Kawi",
    "Kharoshthi",
    "Khmer",
    "Khojki",
    "Khudawadi",
    "Lao",
    "Latin",
    "Lepcha",
    "Limbu",
    "Lisu",
    "Lycian",
    "Lydian",
    "Mahajani",
    "Makasar",
    "Malayalam",
    "Mandaic",
    "Manichaean",
    "Marchen",
    "Medefaidrin",
    "Miao",
    "Modi",
    "Mongolian",
    "Mro",
    "Multani",
    "Myanmar",
    "Nabataean",
    "Nandinagari",
    "Newa",
    "Nko",
    "Nushu",
    "Ogham",
    "Oriya",
    "Osage",
    "Osmanya",
    "Palmyrene",
    "Phoenician",
    "Rejang",
    "Runic",
    "Samaritan",
    "Saurashtra",
    "Sharada",
    "Shavian",
    "Siddham",
    "Sinhala",
    "Sogdian",
    "Soyombo",
    "Sundanese",
    "Syriac",
    "Tagalog",
    "Tagbanwa",
    "Takri",
    "Tamil",
    "Tangsa",
    "Tangut",
    "Telugu",
    "Thaana",
    "Thai",
    "Tibetan",
    "Tifinagh",
    "Tirhuta",
    "Toto",
    "Ugaritic",
    "Vai",
    "Vithkuqi",
    "Wancho",
    "Yezidi",
    "Yi",
];

/// The set of these ranges.
pub(crate) fn of(ranges: &[(char, char)]) -> ClassUnicode {
    ClassUnicode::new(ranges.iter().map(|(low, high)| ClassUnicodeRange::new(*low, *high)))
}

/// Every character.
pub(crate) fn all() -> ClassUnicode {
    of(&[('\0', char::MAX)])
}

/// What `\d`, `\s` and `\w` stand for, by their letter in lower case.
pub(crate) fn perl(letter: char) -> Option<ClassUnicode> {
    Some(of(match letter {
        'd' => DIGIT,
        's' => SPACE,
        'w' => WORD,
        _ => return None,
    }))
}

/// What `[:name:]` stands for.
pub(crate) fn posix(name: &str) -> Option<ClassUnicode> {
    let (_, ranges) = POSIX.iter().find(|(known, _)| *known == name)?;
    Some(of(ranges))
}

/// What `\p{name}` stands for. Letter case, spaces, hyphens and underscores do not matter.
pub(crate) fn unicode(name: &str) -> Option<ClassUnicode> {
    let name = canonical(name);
    let known = |names: &[&str]| names.contains(&name.as_str());
    match name.as_str() {
        "Any" => Some(all()),
        "Ascii" => Some(of(&[('\0', '\x7f')])),
        "Assigned" => {
            let mut set = property("gc=Cn")?;
            set.negate();
            Some(set)
        }
        "Cs" | "Surrogate" => Some(ClassUnicode::empty()),
        _ if known(CATEGORIES) || known(CATEGORY_ALIASES) => property(&format!("gc={name}")),
        _ if known(SCRIPTS) => property(&format!("sc={name}")),
        _ => None,
    }
}

/// A name as Go looks for it: a large letter and small ones.
fn canonical(name: &str) -> String {
    let mut letters = name.chars().filter(|c| !matches!(c, '_' | '-' | ' '));
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters.map(|c| c.to_ascii_lowercase())).collect()
}

/// A property from the tables of `regex-syntax`.
fn property(query: &str) -> Option<ClassUnicode> {
    let hir = regex_syntax::parse(&format!("\\p{{{query}}}")).ok()?;
    match hir.into_kind() {
        HirKind::Class(Class::Unicode(set)) => Some(set),
        // A set of one character.
        HirKind::Literal(literal) => {
            let only = std::str::from_utf8(&literal.0).ok()?.chars().next()?;
            Some(of(&[(only, only)]))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_name_has_a_set() {
        for name in [CATEGORIES, CATEGORY_ALIASES, SCRIPTS].concat() {
            let set = unicode(name).unwrap_or_else(|| panic!("{name}"));
            assert_eq!(set.ranges().is_empty(), ["Cs", "Surrogate"].contains(&name), "{name}");
        }
    }

    #[test]
    fn names_are_looked_up_as_go_does() {
        for name in ["greek", "GREEK", " g-r_eek", "Lu", "lc", "Uppercase_Letter", "ANY"] {
            assert!(unicode(name).is_some(), "{name}");
        }
        for name in ["", "Old_Italic", "Zyyy", "IsGreek", "gc=Lu", "Alphabetic", "Ελ"] {
            assert!(unicode(name).is_none(), "{name}");
        }
    }
}
