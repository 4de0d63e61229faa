//! The status of a session: computed, never stored (S5).

/// What a session is doing, in one word. The words are the API's and the command line's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// Asked for, not confirmed.
    Starting,
    /// A turn is open.
    Running,
    /// Waits for a permission.
    WaitingPermission,
    /// Waits for an answer.
    WaitingQuestion,
    /// Waits for a plan's approval.
    WaitingPlan,
    /// Waits for its model service.
    Retrying,
    /// Compacts its context.
    Compacting,
    /// Nothing to do.
    Idle,
    /// Nothing to do, background work goes on.
    IdleBackground,
    /// Active and silent for long.
    Stalled,
    /// The turn, the start or the process failed.
    Failed,
    /// The turn was interrupted.
    Interrupted,
    /// Ended on request.
    Stopped,
    /// Ended by itself.
    Exited,
    /// Ended, nobody saw how.
    Lost,
    /// Its working directory is gone.
    Orphaned,
    /// Its host cannot be asked.
    Unreachable,
}
