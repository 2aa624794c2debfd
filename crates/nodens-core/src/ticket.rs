//! Names of jobs that wait.

/// Names a waiting job of a worker. A ticket of a job that ended matches no later one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket {
    /// Place in the worker's slab.
    pub slot: u32,
    /// Counts jobs that waited.
    pub serial: u32,
}
