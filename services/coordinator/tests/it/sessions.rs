//! Session actors over a store in memory and a host that does what a test says.

mod control;
mod failures;
mod flaky;
mod host;
mod kit;
mod restart;
mod runs;
mod sends;
