//! The queries of the cells.

use super::{INTERNAL, NAMES, NAMES_OF_MEMORY};
use anyhow::Result;
use lab_load::Workload;
use nodens_wire::{Name, Type};

/// Draws before the order of names repeats.
const ORDER_LEN: usize = 1 << 18;

/// The queries of the cells.
pub(super) struct Questions {
    pub(super) one: Workload,
    pub(super) many: Workload,
    /// The same as `many`, each once.
    pub(super) warm: Workload,
    pub(super) internal: Workload,
    /// Names that fill a cache, each once.
    pub(super) fill: Workload,
}

impl Questions {
    pub(super) fn new(seed: u64) -> Result<Self> {
        let in_turn = |count: usize, suffix: &str| -> Result<Workload> {
            let mut workload = Workload::new(seed);
            for n in 0..count {
                let name = Name::parse(&format!("n{n:05}.{suffix}"))?;
                workload.push(name.view(), Type::A, None);
            }
            Ok(workload)
        };
        let warm = in_turn(NAMES, "bench.example")?;
        let mut many = warm.clone();
        many.shuffle(ORDER_LEN);
        let mut internal = Workload::new(seed);
        internal.push(Name::parse(INTERNAL)?.view(), Type::A, None);
        let (one, fill) = (in_turn(1, "bench.example")?, in_turn(NAMES_OF_MEMORY, "fill.example")?);
        Ok(Self { one, many, warm, internal, fill })
    }
}

/// The many names as a query file.
pub(super) fn file() -> String {
    (0..NAMES).map(|n| format!("n{n:05}.bench.example A\n")).collect()
}
