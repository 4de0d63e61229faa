//! The contracts, as other people's tools meet them.

mod contract;
