//! The hosts: links to their agents, and what is asked of them.

pub mod api;
pub mod reports;
