//! Owned tasks: every spawned future has a name and somebody who waits for its end.
//!
//! A task that nobody owns outlives the shutdown that should have ended it, and its
//! panic is never seen. So this module is the only one that starts tasks.

use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    io,
    panic::AssertUnwindSafe,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt as _;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    task::AbortHandle,
};
use tokio_util::{
    sync::CancellationToken,
    task::{TaskTracker, task_tracker::TaskTrackerToken},
};

/// How long aborted tasks get to unwind before they are reported as unfinished anyway.
const ABORT_GRACE: Duration = Duration::from_millis(500);

/// What happens to the other tasks when one of them panics or returns an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// The failure is logged; the others go on.
    Log,
    /// The failure is logged and the group's token is cancelled.
    Shutdown,
}

/// What a task may return: nothing, or a result whose error counts as a failure.
pub trait TaskOutput: Send + 'static {
    /// The text of the failure, or `None` when the task ended well.
    fn failure(self) -> Option<String>;
}

impl TaskOutput for () {
    fn failure(self) -> Option<String> {
        None
    }
}

impl<E: fmt::Display + Send + 'static> TaskOutput for Result<(), E> {
    fn failure(self) -> Option<String> {
        self.err().map(|error| error.to_string())
    }
}

/// Tasks that still ran when their group's grace was over; they were aborted.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} tasks did not end in time: {}", names.len(), names.join(", "))]
pub struct Unfinished {
    /// Their names, sorted.
    pub names: Vec<String>,
}

/// A group of tasks with one cancellation token. Cheap to clone; all clones are the same group.
#[derive(Clone)]
pub struct Tasks {
    group: Arc<Group>,
}

struct Group {
    name: String,
    parent: Option<Tasks>,
    tracker: TaskTracker,
    token: CancellationToken,
    on_failure: OnFailure,
    next_id: AtomicU64,
    closed: AtomicBool,
    running: Mutex<BTreeMap<u64, Running>>,
}

struct Running {
    name: String,
    abort: Option<AbortHandle>,
}

impl Tasks {
    /// A new root group whose failures are only logged.
    pub fn new(name: impl Into<String>) -> Self {
        Self::with_policy(name, OnFailure::Log)
    }

    /// A new root group with the given policy.
    pub fn with_policy(name: impl Into<String>, on_failure: OnFailure) -> Self {
        Self::build(name.into(), None, CancellationToken::new(), on_failure)
    }

    /// A sub-group: cancelled and waited for with this group, and on its own by its own
    /// [`Tasks::shutdown`]. It inherits the policy; a failure cancels only the sub-group.
    pub fn child(&self, name: impl fmt::Display) -> Self {
        Self::build(
            format!("{}/{name}", self.group.name),
            Some(self.clone()),
            self.group.token.child_token(),
            self.group.on_failure,
        )
    }

    fn build(
        name: String,
        parent: Option<Self>,
        token: CancellationToken,
        on_failure: OnFailure,
    ) -> Self {
        Self {
            group: Arc::new(Group {
                name,
                parent,
                tracker: TaskTracker::new(),
                token,
                on_failure,
                next_id: AtomicU64::new(0),
                closed: AtomicBool::new(false),
                running: Mutex::new(BTreeMap::new()),
            }),
        }
    }

    /// The token that tells the group's tasks to end. Cancelling it begins the shutdown
    /// without waiting for it.
    pub fn token(&self) -> CancellationToken {
        self.group.token.clone()
    }

    /// Whether the group has been told to end.
    pub fn is_cancelled(&self) -> bool {
        self.group.token.is_cancelled()
    }

    /// How many tasks of the group and its sub-groups run now.
    pub fn len(&self) -> usize {
        self.group.running().len()
    }

    /// Whether no task runs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Starts `future` as a task of this group. It should end soon after [`Tasks::token`]
    /// is cancelled. Panics and errors are handled by the group's policy.
    ///
    /// The returned handle may be dropped: the task goes on. After the group's shutdown
    /// has finished nothing is started any more and the handle is that of an ended task.
    pub fn spawn<F>(&self, name: impl fmt::Display, future: F) -> TaskHandle
    where
        F: Future + Send + 'static,
        F::Output: TaskOutput,
    {
        if self.is_closed() {
            tracing::warn!(task = %name, group = %self.group.name, "task not started: the group has ended");
            return TaskHandle { abort: None };
        }
        let entry = self.enter(&name.to_string());
        let name = entry.name.clone();
        let places: Vec<_> = entry
            .places
            .iter()
            .map(|(tasks, id, _)| (tasks.clone(), *id))
            .collect();
        let this = self.clone();
        let join = spawn_detached(async move {
            let _entry = entry;
            match AssertUnwindSafe(future).catch_unwind().await {
                Ok(output) => {
                    if let Some(error) = output.failure() {
                        this.failed(&name, &error);
                    }
                }
                // The panic's own text was logged by the panic hook.
                Err(_) => this.failed(&name, "panicked"),
            }
        });
        let abort = join.abort_handle();
        for (tasks, id) in places {
            if let Some(running) = tasks.group.running().get_mut(&id) {
                running.abort = Some(abort.clone());
            }
        }
        TaskHandle { abort: Some(abort) }
    }

    /// Runs `work` on the blocking pool as a task of this group and gives its result.
    ///
    /// A closure cannot be aborted: when the returned future is dropped the work goes on,
    /// and shutdown waits for it up to its grace.
    ///
    /// # Errors
    /// [`BlockingFailed`] when the closure panicked or the runtime is going down.
    pub fn spawn_blocking<F, R>(
        &self,
        name: &str,
        work: F,
    ) -> impl Future<Output = Result<R, BlockingFailed>> + Send + use<F, R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        let entry = self.enter(name);
        let name = entry.name.clone();
        let join = tokio::task::spawn_blocking(move || {
            let _entry = entry;
            work()
        });
        async move { join.await.map_err(|_| BlockingFailed { name }) }
    }

    /// Cancels the token, waits for all tasks up to `grace`, then aborts what still runs.
    ///
    /// Cancel safe: dropping the future leaves the group cancelled; call again to wait.
    ///
    /// # Errors
    /// [`Unfinished`] names the tasks that had to be aborted.
    pub async fn shutdown(&self, grace: Duration) -> Result<(), Unfinished> {
        self.group.token.cancel();
        self.group.tracker.close();
        let ended = tokio::time::timeout(grace, self.group.tracker.wait()).await;
        let result = match ended {
            Ok(()) => Ok(()),
            Err(_) => Err(self.abort_all()),
        };
        if result.is_err() {
            // Gives aborted futures the time to drop what they own (locks, sockets).
            let _ = tokio::time::timeout(ABORT_GRACE, self.group.tracker.wait()).await;
        }
        self.group.closed.store(true, Ordering::Release);
        result
    }

    fn abort_all(&self) -> Unfinished {
        let running = self.group.running();
        let mut names: Vec<String> = running.values().map(|task| task.name.clone()).collect();
        names.sort();
        for task in running.values() {
            if let Some(abort) = &task.abort {
                abort.abort();
            }
        }
        Unfinished { names }
    }

    fn failed(&self, name: &str, error: &str) {
        tracing::error!(task = %name, error, "task failed");
        if self.group.on_failure == OnFailure::Shutdown {
            self.group.token.cancel();
        }
    }

    fn is_closed(&self) -> bool {
        self.lineage()
            .any(|tasks| tasks.group.closed.load(Ordering::Acquire))
    }

    /// This group, its parent, and so on to the root.
    fn lineage(&self) -> impl Iterator<Item = Self> {
        std::iter::successors(Some(self.clone()), |tasks| tasks.group.parent.clone())
    }

    fn enter(&self, task: &str) -> Entry {
        let name = format!("{}/{task}", self.group.name);
        let places = self
            .lineage()
            .map(|tasks| {
                let id = tasks.group.next_id.fetch_add(1, Ordering::Relaxed);
                let running = Running {
                    name: name.clone(),
                    abort: None,
                };
                tasks.group.running().insert(id, running);
                let token = tasks.group.tracker.token();
                (tasks, id, token)
            })
            .collect();
        Entry { name, places }
    }
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tasks")
            .field("name", &self.group.name)
            .field("running", &self.len())
            .finish_non_exhaustive()
    }
}

impl Group {
    fn running(&self) -> MutexGuard<'_, BTreeMap<u64, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Held by the running task; takes it off the lists of its groups when it ends in any way.
struct Entry {
    name: String,
    places: Vec<(Tasks, u64, TaskTrackerToken)>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        for (tasks, id, _token) in &self.places {
            tasks.group.running().remove(id);
        }
    }
}

/// A started task. Dropping the handle does not end the task.
#[derive(Clone, Debug)]
pub struct TaskHandle {
    abort: Option<AbortHandle>,
}

impl TaskHandle {
    /// Drops the task's future at its next await.
    pub fn abort(&self) {
        if let Some(abort) = &self.abort {
            abort.abort();
        }
    }

    /// Whether the task has ended, or was never started.
    pub fn is_finished(&self) -> bool {
        self.abort.as_ref().is_none_or(AbortHandle::is_finished)
    }
}

/// A closure on the blocking pool gave no result.
#[derive(Debug, thiserror::Error)]
#[error("blocking task {name} ended without a result")]
pub struct BlockingFailed {
    name: String,
}

/// Waits for SIGTERM or SIGINT and gives the signal's name. From then on a second one ends
/// the process at once, with 128 + the signal's number: a user who asks twice has waited
/// long enough.
///
/// # Errors
/// When the handlers cannot be installed.
pub async fn wait_terminate_signal() -> io::Result<&'static str> {
    let mut signals = TerminateSignals {
        term: signal(SignalKind::terminate())?,
        int: signal(SignalKind::interrupt())?,
    };
    let (name, _) = signals.next().await;
    spawn_detached(async move {
        let (name, number) = signals.next().await;
        tracing::warn!(signal = name, "second signal: exit at once");
        std::process::exit(128 + number);
    });
    Ok(name)
}

struct TerminateSignals {
    term: Signal,
    int: Signal,
}

impl TerminateSignals {
    async fn next(&mut self) -> (&'static str, i32) {
        tokio::select! {
            _ = self.term.recv() => ("SIGTERM", 15),
            _ = self.int.recv() => ("SIGINT", 2),
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place that starts tasks; callers own them through Tasks"
)]
fn spawn_detached<F>(future: F) -> tokio::task::JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    tokio::spawn(future)
}
