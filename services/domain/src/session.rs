//! Sessions: their states, the fold that moves them, and the status computed from them.

pub mod state;
pub mod status;

pub use state::{
    Access, Adapter, Exit, Failure, Identity, Input, Launch, Link, LostReason, Observed, Outcome,
    Process, Run, RunReport, Slot, Source, Spec, State, StopMark, Turn,
};
pub use status::Status;
