//! One actor per session.

pub mod api;
