//! Sessions: their states, the fold that moves them, and the status computed from them.

pub mod explain;
pub mod fold;
pub mod state;
pub mod status;

pub use fold::Fold;
pub use state::{
    Access, Adapter, Attention, Damage, Exit, Failure, Identity, Input, Launch, Link, LostReason,
    Observed, Outcome, Process, Resumed, Run, RunReport, Slot, Source, Spec, State, StopMark, Turn,
};
pub use status::{Status, status};
