//! One commit of an actor, together with what the session does to its task (S38).

use std::time::Duration;

use muster_domain::{
    Reason, SessionId, TaskId, Timestamp,
    changeset::{Changeset, Conflict, Versioned},
    delivery::{Delivery, Progress},
    fault::Fault,
    feed::{Audience, Change, Event},
    message::Kind,
    task::{Task, Trigger, check_slot, effect},
};
use muster_runtime::{Clock, failpoint};

use super::unavailable;
use crate::store::Handle;

/// How often a commit is tried with a newer row of the task.
const TRIES: u32 = 8;
/// Longest wait between two of them.
const PAUSE: Duration = Duration::from_millis(20);

/// What is to be committed.
pub(super) struct Job {
    pub(super) store: Handle,
    pub(super) clock: Clock,
    pub(super) session: SessionId,
    pub(super) changeset: Changeset,
    pub(super) triggers: Vec<Trigger>,
    pub(super) task: Option<TaskId>,
    /// The task's row as the start of the session makes it.
    pub(super) given: Option<Versioned<Task>>,
    pub(super) now: Timestamp,
}

/// Writes it. A store that is slow makes its session slow and no other; so there is no
/// deadline, which would only leave the outcome unknown.
pub(super) async fn write(job: Job) -> Result<(), Conflict> {
    let steps = Steps::of(&job.changeset);
    steps.before();
    let result = write_with_task(job).await;
    if result.is_ok() {
        steps.after();
    }
    result
}

/// Which steps of a session's life a changeset is: the places where a crash is tested.
#[derive(Debug, Clone, Copy)]
struct Steps {
    starts: bool,
    accepts: bool,
    dispatches: bool,
    settles: bool,
}

impl Steps {
    fn of(changeset: &Changeset) -> Self {
        let says = |event: &Event| matches!(&event.change, Change::MessageAdded(message) if message.kind == Kind::User);
        let is_new = |delivery: &Delivery| delivery.progress == Progress::Committed;
        let deliveries = &changeset.deliveries;
        let row = changeset.session.as_ref();
        Self {
            starts: row.is_some_and(|row| row.expected == 0),
            accepts: changeset.events.iter().any(says),
            dispatches: deliveries.iter().any(is_new),
            settles: !deliveries.iter().all(is_new),
        }
    }

    fn before(self) {
        if self.starts {
            failpoint!("coordinator.before_start_commit");
        }
        if self.accepts {
            failpoint!("coordinator.before_accept_commit");
        }
        if self.dispatches {
            failpoint!("coordinator.before_dispatch_commit");
        }
        if self.settles {
            failpoint!("coordinator.before_outcome_commit");
        }
    }

    /// After the commit, before anybody is answered and anything is done.
    fn after(self) {
        if self.starts {
            failpoint!("coordinator.after_start_commit");
        }
        if self.accepts {
            failpoint!("coordinator.after_accept_commit");
        }
        if self.dispatches {
            failpoint!("coordinator.after_dispatch_commit");
        }
        if self.settles {
            failpoint!("coordinator.after_outcome_commit");
        }
    }
}

async fn write_with_task(job: Job) -> Result<(), Conflict> {
    let Some(task) = job.task.filter(|_| !job.triggers.is_empty()) else {
        return commit(&job.store, job.changeset).await;
    };
    if let Some(given) = job.given {
        let mut row = given;
        row.row = moved(row.row, job.session, &job.triggers, job.now).0;
        return commit(&job.store, with_task(job.changeset, row)).await;
    }
    let mut tries = 0;
    loop {
        tries += 1;
        let changeset = moved_task(&job, task).await?;
        match commit(&job.store, changeset).await {
            Err(Conflict::Version { what: "task", .. }) if tries < TRIES => {
                job.clock.sleep(PAUSE.mul_f64(fastrand::f64())).await;
            }
            result => return result,
        }
    }
}

/// The changeset with the task as it is now and what the session does to it.
async fn moved_task(job: &Job, task: TaskId) -> Result<Changeset, Conflict> {
    let changeset = job.changeset.clone();
    let stored = job.store.task(task).await;
    let stored = stored.map_err(|error| Conflict::Unavailable(error.to_string()))?;
    let Some(stored) = stored else {
        return Ok(changeset);
    };
    let expected = stored.version;
    for trigger in &job.triggers {
        // Somebody took the slot since the resume looked; it is told when it looks again.
        if let Trigger::Resumed(slot) = trigger
            && check_slot(&stored, *slot, job.session).is_err()
        {
            return Err(Conflict::Version {
                what: "slot",
                expected,
                found: expected,
            });
        }
    }
    let (mut row, changed) = moved(stored, job.session, &job.triggers, job.now);
    if !changed {
        return Ok(changeset);
    }
    row.version = expected + 1;
    Ok(with_task(changeset, Versioned { expected, row }))
}

/// The task after all triggers, and whether that changed it.
fn moved(task: Task, session: SessionId, triggers: &[Trigger], now: Timestamp) -> (Task, bool) {
    let mut changed = false;
    let moved = triggers.iter().fold(task, |task, trigger| {
        match effect(&task, session, *trigger, now) {
            Some(next) => {
                changed = true;
                next
            }
            None => task,
        }
    });
    (moved, changed)
}

fn with_task(mut changeset: Changeset, row: Versioned<Task>) -> Changeset {
    changeset.events.push(Event {
        audience: Audience::Workspace(None),
        change: Change::Task(Box::new(row.row.clone())),
    });
    changeset.tasks.push(row);
    changeset
}

async fn commit(store: &Handle, changeset: Changeset) -> Result<(), Conflict> {
    let answers = store.commit(vec![changeset]).await;
    match answers.into_iter().next() {
        Some(answer) => answer.map(|_| ()),
        None => Err(Conflict::Unavailable("no answer".to_owned())),
    }
}

/// What a caller is told whose commit failed.
pub(super) fn fault(conflict: Conflict, starting: bool) -> Fault {
    match conflict {
        Conflict::Unavailable(cause) => unavailable(cause),
        Conflict::KeyTaken => Fault::new(
            Reason::KeyReused,
            "the client key was used for something else",
        ),
        Conflict::Version {
            what,
            expected,
            found,
        } if starting => Fault::new(
            Reason::VersionMismatch,
            format!("the {what} was changed by somebody else"),
        )
        .with("expected", expected)
        .with("found", found),
        // The actor reads it anew; trying again helps.
        conflict @ Conflict::Version { .. } => Fault::new(
            Reason::StoreUnavailable,
            "the session was changed by somebody else",
        )
        .with_internal(conflict),
    }
}
