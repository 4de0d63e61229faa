//! Following files as they grow (DESIGN §4.1).
//!
//! `reader` decides what is sent, `mark` makes positions that survive a reconnect.

mod mark;
mod reader;
