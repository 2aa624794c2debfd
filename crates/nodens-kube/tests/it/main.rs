//! A watch against an API server that misbehaves in every way it can.

mod fake;
mod faults;
mod forms;
mod lists;
mod process;
