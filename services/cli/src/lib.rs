//! Placeholder until this crate's first slice lands.
