//! The contracts, as other people's tools meet them.

#![allow(clippy::unwrap_used)] // helpers of tests are test code too

mod contract;
mod keeper;
