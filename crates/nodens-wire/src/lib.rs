//! DNS messages as bytes.
