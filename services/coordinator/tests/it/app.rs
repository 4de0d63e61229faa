//! The use cases, through the public contract.

mod lives;
mod messages;
mod sessions;
mod tasks;
