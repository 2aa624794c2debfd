//! The zones a directive is limited to, and what `fallthrough` lets pass.

use nodens_corefile::{Error, Token, take};
use nodens_wire::{Name, NameRef};

/// Zones in the order of the Corefile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Zones {
    names: Vec<Name>,
}

impl Zones {
    /// The zones that `args` name; `own`, those of the server block, if there are none.
    ///
    /// # Errors
    /// If an argument is not a zone: a domain name or a prefix that stands for reverse zones.
    pub fn of(args: &[Token], own: &[Name]) -> Result<Self, Error> {
        if args.is_empty() {
            return Ok(Self { names: own.to_vec() });
        }
        let mut names = Vec::new();
        for arg in args {
            for zone in take::parse_zones(std::slice::from_ref(arg))? {
                let name = Name::parse(&zone)
                    .map_err(|error| Error::expected(arg, format!("a zone ({error})")))?;
                names.push(name);
            }
        }
        Ok(Self { names })
    }

    /// Whether `name` lies in one of the zones.
    pub fn contains(&self, name: NameRef<'_>) -> bool {
        self.names.iter().any(|zone| name.is_in_domain(zone.view()))
    }

    /// The index of the longest zone that `name` lies in; of equal ones, the first.
    pub fn longest(&self, name: NameRef<'_>) -> Option<usize> {
        let inside = |(_, zone): &(usize, &Name)| name.is_in_domain(zone.view());
        let best = self.names.iter().enumerate().rev().filter(inside);
        best.max_by_key(|(_, zone)| zone.as_wire().len()).map(|(index, _)| index)
    }

    /// All of them.
    pub fn names(&self) -> &[Name] {
        &self.names
    }
}

/// `fallthrough [ZONES…]`: names for which a handler that knows nothing lets the next one try.
#[derive(Clone, Debug, Default)]
pub struct Fallthrough {
    zones: Zones,
}

impl Fallthrough {
    /// Reads the arguments of `fallthrough`; without any, every name passes.
    ///
    /// # Errors
    /// As [`Zones::of`].
    pub fn of(args: &[Token]) -> Result<Self, Error> {
        let zones = match args {
            [] => Zones { names: vec![Name::root()] },
            _ => Zones::of(args, &[])?,
        };
        Ok(Self { zones })
    }

    /// Whether `fallthrough` was given at all.
    pub fn is_set(&self) -> bool {
        !self.zones.names.is_empty()
    }

    /// Whether `name` may pass to the next handler.
    pub fn lets_pass(&self, name: NameRef<'_>) -> bool {
        self.zones.contains(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_zone_counts_and_of_equal_ones_the_first() {
        let names = ["org.", "a.example.org.", "Example.org.", "example.org."];
        let zones = Zones { names: names.map(|name| name.parse().unwrap()).to_vec() };
        let longest = |name: &str| zones.longest(Name::parse(name).unwrap().view());
        assert_eq!(longest("b.EXAMPLE.org."), Some(2));
        assert_eq!(longest("b.a.example.org."), Some(1));
        assert_eq!(longest("org."), Some(0));
        assert_eq!(longest("net."), None);
        assert!(!Fallthrough::default().lets_pass(NameRef::root()));
    }
}
