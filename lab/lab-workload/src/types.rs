//! How often each type is asked for.

use lab_random as rng;
use nodens_wire::Type;
use std::str::FromStr;

/// Types with weights, as `A=70,AAAA=25,HTTPS=5`; without weights all are as likely.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeMix {
    /// Each type with the sum of the weights up to it.
    types: Vec<(Type, f64)>,
}

/// Why text is no mix of types.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TypeMixError {
    /// Neither a mnemonic nor TYPEnnn.
    #[error("`{0}` is not a record type, expected a mnemonic such as A, or TYPEnnn")]
    Type(String),
    /// Not a positive number.
    #[error(
        "`{0}` is not a weight of a record type, expected a positive number, such as A=70,AAAA=30"
    )]
    Weight(String),
    /// Some types have weights and others have none.
    #[error("either all types have a weight or none, such as A=70,AAAA=30 or A,AAAA")]
    Mixed,
}

impl TypeMix {
    /// Nothing but `qtype`.
    pub fn only(qtype: Type) -> Self {
        Self { types: vec![(qtype, 1.0)] }
    }

    /// The types, in the order they were given.
    pub fn types(&self) -> impl ExactSizeIterator<Item = Type> {
        self.types.iter().map(|(qtype, _)| *qtype)
    }

    /// The index in [`TypeMix::types`] of the type that item `n` of the stream `seed` asks for.
    pub fn draw_index(&self, seed: u64, n: u64) -> usize {
        if self.types.len() < 2 {
            return 0;
        }
        let total = self.types.last().map_or(0.0, |(_, sum)| *sum);
        let wanted = rng::unit(seed, n) * total;
        self.types.partition_point(|(_, sum)| *sum <= wanted).min(self.types.len() - 1)
    }

    /// The type that item `n` of the stream `seed` asks for.
    pub fn draw(&self, seed: u64, n: u64) -> Type {
        self.types.get(self.draw_index(seed, n)).map_or(Type::A, |(qtype, _)| *qtype)
    }

    /// Everything that decides which types are drawn, for a plan's hash.
    pub(crate) fn octets(&self) -> impl Iterator<Item = u8> {
        self.types.iter().flat_map(|(qtype, sum)| {
            qtype.0.to_be_bytes().into_iter().chain(sum.to_bits().to_be_bytes())
        })
    }
}

impl FromStr for TypeMix {
    type Err = TypeMixError;

    fn from_str(text: &str) -> Result<Self, TypeMixError> {
        let (mut sum, mut weights, mut types) = (0.0, 0, Vec::new());
        for entry in text.split(',').map(str::trim) {
            let (name, weight) = match entry.split_once('=') {
                Some((name, weight)) => (name.trim(), Some(weight.trim())),
                None => (entry, None),
            };
            let qtype = name.parse().map_err(|_| TypeMixError::Type(name.to_owned()))?;
            weights += usize::from(weight.is_some());
            let number: f64 = weight.map_or(Ok(1.0), str::parse).unwrap_or(f64::NAN);
            if !(number > 0.0 && number <= 1e12) {
                return Err(TypeMixError::Weight(weight.unwrap_or_default().to_owned()));
            }
            sum += number;
            types.push((qtype, sum));
        }
        if weights > 0 && weights < types.len() {
            return Err(TypeMixError::Mixed);
        }
        Ok(Self { types })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn types_are_drawn_by_weight_and_position() {
        let mix: TypeMix = "A=70, aaaa=25,TYPE65=5".parse().unwrap();
        let mut counts = [0_u32; 3];
        for n in 0..100_000 {
            let qtype = mix.draw(7, n);
            counts[[Type::A, Type::AAAA, Type::HTTPS].iter().position(|t| *t == qtype).unwrap()] +=
                1;
        }
        for (count, share) in counts.iter().zip([70_000, 25_000, 5_000]) {
            // Five standard deviations of a binomial count are below 800.
            assert!(count.abs_diff(share) < 800, "{counts:?}");
        }
        let equal: TypeMix = "A,MX".parse().unwrap();
        let first = (0..10_000).filter(|n| equal.draw(1, *n) == Type::A).count();
        assert!((4_700..5_300).contains(&first), "{first}");
    }

    #[test]
    fn what_is_no_mix_is_named() {
        for (text, part) in [
            ("NOPE", "`NOPE` is not a record type"),
            ("", "`` is not a record type"),
            ("A=0", "`0` is not a weight of a record type"),
            ("A=x", "`x` is not a weight of a record type"),
            ("A=nan", "`nan` is not a weight of a record type"),
            ("A=1,AAAA", "either all types"),
        ] {
            let error = text.parse::<TypeMix>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text: String, n: u64) {
            if let Ok(mix) = text.parse::<TypeMix>() {
                prop_assert!(mix.types().any(|qtype| qtype == mix.draw(1, n)));
            }
        }
    }
}
