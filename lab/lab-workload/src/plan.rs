//! What names a plan.

/// A hash that names a plan: 64-bit FNV-1a (Fowler, Noll and Vo, 1991). It guards against mistakes,
/// not against forgery, and is the same on every machine and in every version.
#[derive(Clone, Debug)]
pub struct PlanHash(u64);

impl Default for PlanHash {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl PlanHash {
    /// Adds `octets`.
    pub fn write(&mut self, octets: &[u8]) {
        for octet in octets {
            self.0 = (self.0 ^ u64::from(*octet)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    /// The hash so far.
    pub fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_published_algorithm() {
        let hash = |text: &str| {
            let mut hash = PlanHash::default();
            hash.write(text.as_bytes());
            hash.finish()
        };
        assert_eq!(hash(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(hash("foobar"), 0x8594_4171_f739_67e8);
    }
}
