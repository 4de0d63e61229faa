//! Sessions: their states, the fold that moves them, and the status computed from them.

pub mod explain;
pub mod fold;
pub mod run;
pub mod state;
pub mod status;

pub use fold::Fold;
pub use run::{Damage, Exit, Failure, Identity, Run, RunReport};
pub use state::{
    Access, Adapter, Attention, Input, Launch, Link, LostReason, Observed, Outcome, Process,
    Resumed, Slot, Source, Spec, State, StopMark, Turn,
};
pub use status::{Offer, Status, offers, status};
