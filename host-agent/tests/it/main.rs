//! Tests of the host agent with real processes.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic like tests")]

mod agent;
mod keeper;
