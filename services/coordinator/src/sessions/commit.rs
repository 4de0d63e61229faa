//! One commit of a fold, with the task row that goes with it (S38).

use muster_domain::{
    SessionId, Timestamp,
    changeset::{Changeset, Conflict, Versioned},
    delivery::Progress,
    feed::{Audience, Change, Event},
    message::Kind,
    session::fold::{Commit, Ticket},
    task::{self, Task, Trigger},
};
use muster_runtime::failpoint;

use crate::store;

/// How often a commit is tried whose task row somebody else moved.
const TRIES: usize = 5;

/// Writes `commit`. With `task` its row is given and is not tried again; otherwise it is read.
pub(super) async fn write(
    store: store::Handle,
    commit: Commit,
    task: Option<Versioned<Task>>,
    now: Timestamp,
) -> Result<Ticket, Conflict> {
    let steps = Steps::of(&commit.changeset);
    steps.before();
    let ticket = commit.ticket;
    match task {
        Some(given) => with_given(&store, commit, given, now).await?,
        None if commit.triggers.is_empty() => once(&store, commit.changeset).await?,
        None => with_read(&store, &commit, now).await?,
    }
    steps.after();
    Ok(ticket)
}

async fn once(store: &store::Handle, changeset: Changeset) -> Result<(), Conflict> {
    let answers = store.commit(vec![changeset]).await;
    let answer = answers.into_iter().next();
    let lost = || Conflict::Unavailable("the store gave no answer".to_owned());
    answer.ok_or_else(lost)?.map(|_| ())
}

/// The task row comes with the start; who made it looks after conflicts.
async fn with_given(
    store: &store::Handle,
    commit: Commit,
    mut given: Versioned<Task>,
    now: Timestamp,
) -> Result<(), Conflict> {
    let mut changeset = commit.changeset;
    if let Some(session) = session_of(&changeset) {
        given.row = affected(given.row, session, &commit.triggers, now).0;
    }
    add(&mut changeset, given);
    once(store, changeset).await
}

/// The task row is in the store, and others may move it.
async fn with_read(store: &store::Handle, commit: &Commit, now: Timestamp) -> Result<(), Conflict> {
    let mut last = None;
    for _ in 0..TRIES {
        let mut changeset = commit.changeset.clone();
        let moved = add_effect(store, &mut changeset, &commit.triggers, now).await?;
        match once(store, changeset).await {
            Err(conflict @ Conflict::Version { what, .. }) if moved && what != "session" => {
                last = Some(conflict);
            }
            other => return other,
        }
    }
    Err(last.unwrap_or(Conflict::KeyTaken))
}

/// Adds the task as the triggers leave it; `false`: they leave it alone.
async fn add_effect(
    store: &store::Handle,
    changeset: &mut Changeset,
    triggers: &[Trigger],
    now: Timestamp,
) -> Result<bool, Conflict> {
    let state = changeset.session.as_ref().map(|session| &session.row);
    let Some((session, id)) = state.and_then(|state| Some((state.spec.id, state.spec.task?)))
    else {
        return Ok(false);
    };
    let read = store.task(id).await;
    let read = read.map_err(|error| Conflict::Unavailable(error.to_string()))?;
    let Some(task) = read else {
        return Ok(false);
    };
    let expected = task.version;
    let (mut row, moved) = affected(task, session, triggers, now);
    if moved {
        row.version = expected + 1;
        add(changeset, Versioned { expected, row });
    }
    Ok(moved)
}

fn affected(
    mut task: Task,
    session: SessionId,
    triggers: &[Trigger],
    now: Timestamp,
) -> (Task, bool) {
    let mut moved = false;
    for trigger in triggers {
        if let Some(next) = task::effect(&task, session, *trigger, now) {
            task = next;
            moved = true;
        }
    }
    (task, moved)
}

fn add(changeset: &mut Changeset, task: Versioned<Task>) {
    changeset.events.push(Event {
        audience: Audience::Workspace(None),
        change: Change::Task(Box::new(task.row.clone())),
    });
    changeset.tasks.push(task);
}

fn session_of(changeset: &Changeset) -> Option<SessionId> {
    let session = changeset.session.as_ref()?;
    Some(session.row.spec.id)
}

/// Which steps of the send path a changeset is: the places where a crash is tested.
#[derive(Debug, Clone, Copy)]
struct Steps {
    accepts: bool,
    dispatches: bool,
    settles: bool,
    begins: bool,
}

impl Steps {
    fn of(changeset: &Changeset) -> Self {
        let said = |event: &Event| matches!(&event.change, Change::MessageAdded(message) if message.kind == Kind::User);
        let mut progress = changeset.deliveries.iter().map(|d| d.progress);
        let row = changeset.session.as_ref();
        Self {
            accepts: changeset.events.iter().any(said),
            dispatches: progress.clone().any(|p| p == Progress::Committed),
            settles: progress.any(|p| p != Progress::Committed),
            begins: row.is_some_and(|row| row.expected == 0),
        }
    }

    fn before(self) {
        if self.begins {
            failpoint!("session.before_start_commit");
        }
        if self.accepts {
            failpoint!("session.before_accept_commit");
        }
        if self.dispatches {
            failpoint!("session.before_dispatch_commit");
        }
        if self.settles {
            failpoint!("session.before_outcome_commit");
        }
    }

    fn after(self) {
        if self.begins {
            failpoint!("session.after_start_commit");
        }
        if self.accepts {
            failpoint!("session.after_accept_commit");
        }
        if self.dispatches {
            failpoint!("session.after_dispatch_commit");
        }
        if self.settles {
            failpoint!("session.after_outcome_commit");
        }
    }
}
