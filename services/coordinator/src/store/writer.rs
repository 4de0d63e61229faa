//! The one writer: commits in groups, so that one flush to the disk serves many callers.
//!
//! A group is what has queued up while the one before was flushed: no commit waits for
//! company, and under load the groups grow by themselves, up to 64 changesets or 5 ms.

use std::sync::{Arc, Mutex, PoisonError};

use muster_domain::{
    WorkspaceId,
    changeset::{Changeset, Committed, Conflict},
    limits,
};
use muster_runtime::{Clock, Tasks};
use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection, sqlite::SqliteConnectOptions};
use tokio::sync::{mpsc, oneshot};

use super::{
    Error, Keep,
    heads::Heads,
    sqlite::{
        apply::{Failure, apply},
        prune::prune,
    },
};

type Answer = Result<Committed, Conflict>;

/// How long closing waits for the group that is being written.
const CLOSE_GRACE: std::time::Duration = std::time::Duration::from_secs(10);

enum Job {
    Commit(Box<Changeset>, oneshot::Sender<Answer>),
    Prune(WorkspaceId, Keep, oneshot::Sender<super::Result<u64>>),
}

/// Hands changesets to the task that writes.
#[derive(Debug)]
pub(super) struct Writer {
    jobs: Mutex<Option<mpsc::Sender<Job>>>,
    tasks: Tasks,
}

impl Writer {
    /// Starts the task. `connection` has the schema; `options` make another one when it
    /// breaks.
    pub(super) fn start(
        connection: SqliteConnection,
        options: SqliteConnectOptions,
        clock: Clock,
        heads: Arc<Heads>,
    ) -> Self {
        let (jobs, queue) = mpsc::channel(limits::COMMIT_QUEUE);
        let tasks = Tasks::new("store");
        let worker = Worker {
            connection: Some(connection),
            options,
            clock,
            heads,
            queue,
        };
        tasks.spawn("writer", worker.run());
        Self {
            jobs: Mutex::new(Some(jobs)),
            tasks,
        }
    }

    /// Commits; see `Store::commit`.
    pub(super) async fn commit(&self, changesets: Vec<Changeset>) -> Vec<Answer> {
        let jobs = self.jobs().clone();
        let mut answers = Vec::with_capacity(changesets.len());
        for changeset in changesets {
            let (answer, answered) = oneshot::channel();
            if let Some(jobs) = &jobs {
                // A closed queue drops the job, and with it the sender of its answer.
                let _ = jobs.send(Job::Commit(Box::new(changeset), answer)).await;
            }
            answers.push(answered);
        }
        drop(jobs);
        let mut results = Vec::with_capacity(answers.len());
        for answered in answers {
            results.push(answered.await.unwrap_or_else(|_| Err(closed())));
        }
        results
    }

    /// Prunes the outbox; see `Outbox::prune`.
    pub(super) async fn prune(&self, workspace: WorkspaceId, keep: Keep) -> super::Result<u64> {
        let jobs = self.jobs().clone();
        let (answer, answered) = oneshot::channel();
        let gone = || Error::Unavailable(CLOSED.to_owned());
        let job = Job::Prune(workspace, keep, answer);
        jobs.ok_or_else(gone)?.send(job).await.map_err(|_| gone())?;
        answered.await.unwrap_or_else(|_| Err(gone()))
    }

    /// Writes what was handed over, then closes the connection.
    pub(super) async fn close(&self) {
        drop(self.jobs().take());
        // The task ends by itself when its queue is closed and empty.
        if let Err(unfinished) = self.tasks.shutdown(CLOSE_GRACE).await {
            tracing::error!(%unfinished, "store closed while writing");
        }
    }

    fn jobs(&self) -> std::sync::MutexGuard<'_, Option<mpsc::Sender<Job>>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const CLOSED: &str = "the store is closed";

fn closed() -> Conflict {
    Conflict::Unavailable(CLOSED.to_owned())
}

struct Worker {
    /// `None` after a failure that left it in an unknown state.
    connection: Option<SqliteConnection>,
    options: SqliteConnectOptions,
    clock: Clock,
    heads: Arc<Heads>,
    queue: mpsc::Receiver<Job>,
}

/// A changeset of the open group, and what it is answered once the group is on the disk.
struct Written {
    workspace: WorkspaceId,
    answer: oneshot::Sender<Answer>,
    result: Answer,
}

impl Worker {
    async fn run(mut self) {
        let mut next = None;
        loop {
            let job = match next.take() {
                Some(job) => job,
                None => match self.queue.recv().await {
                    Some(job) => job,
                    None => break,
                },
            };
            next = match job {
                Job::Commit(changeset, answer) => self.group(*changeset, answer).await,
                Job::Prune(workspace, keep, answer) => {
                    let pruned = self.prune(&workspace, keep).await;
                    let _ =
                        answer.send(pruned.map_err(|error| Error::Unavailable(error.to_string())));
                    None
                }
            };
        }
        if let Some(connection) = self.connection.take()
            && let Err(error) = connection.close().await
        {
            tracing::warn!(%error, "close the database");
        }
    }

    /// Commits a group; gives the job that was taken from the queue and is none of it.
    async fn group(&mut self, first: Changeset, answer: oneshot::Sender<Answer>) -> Option<Job> {
        let mut written = Vec::new();
        match self.write(first, answer, &mut written).await {
            Ok(next) => {
                self.publish(written);
                next
            }
            Err(error) => {
                let changesets = written.len();
                tracing::error!(%error, changesets, "nothing of a group was committed");
                self.abandon().await;
                for item in written {
                    let why = Conflict::Unavailable(error.to_string());
                    let _ = item.answer.send(Err(why));
                }
                None
            }
        }
    }

    /// Writes the group up to and including its COMMIT. What was begun stands in `written`
    /// also after an error.
    async fn write(
        &mut self,
        mut changeset: Changeset,
        mut answer: oneshot::Sender<Answer>,
        written: &mut Vec<Written>,
    ) -> sqlx::Result<Option<Job>> {
        let deadline = self.clock.boottime() + limits::COMMIT_WAIT;
        let mut other = None;
        loop {
            let begun = !written.is_empty();
            written.push(Written {
                workspace: changeset.workspace.clone(),
                answer,
                result: Err(closed()),
            });
            let now = self.clock.now_micros();
            let connection = self.connection(begun).await?;
            let result = match apply(connection, changeset, now).await {
                Ok(committed) => Ok(committed),
                Err(Failure::Conflict(conflict)) => Err(conflict),
                Err(Failure::Group(error)) => return Err(error),
            };
            if let Some(last) = written.last_mut() {
                last.result = result;
            }
            if written.len() >= limits::COMMIT_GROUP || self.clock.boottime() >= deadline {
                break;
            }
            match self.queue.try_recv() {
                Ok(Job::Commit(more, asked)) => (changeset, answer) = (*more, asked),
                Ok(job @ Job::Prune(..)) => {
                    other = Some(job);
                    break;
                }
                Err(_) => break,
            }
        }
        let connection = self.connection(true).await?;
        sqlx::raw_sql("COMMIT").execute(connection).await?;
        Ok(other)
    }

    async fn prune(&mut self, workspace: &WorkspaceId, keep: Keep) -> sqlx::Result<u64> {
        let connection = self.connection(false).await?;
        let mut result = prune(connection, workspace, keep).await;
        if result.is_ok()
            && let Err(error) = sqlx::raw_sql("COMMIT").execute(connection).await
        {
            result = Err(error);
        }
        if result.is_err() {
            self.abandon().await;
        }
        result
    }

    /// The connection, with a transaction begun.
    async fn connection(&mut self, begun: bool) -> sqlx::Result<&mut SqliteConnection> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.options.connect().await?,
        };
        if !begun {
            sqlx::raw_sql("BEGIN IMMEDIATE")
                .execute(&mut connection)
                .await?;
        }
        Ok(self.connection.insert(connection))
    }

    /// Takes back what the group has written so far. A connection that cannot do that is
    /// dropped, which does it too.
    async fn abandon(&mut self) {
        if let Some(mut connection) = self.connection.take() {
            // Some failures have ended the transaction already; then ROLLBACK itself fails
            // and a new connection is the simple way to a known state.
            if sqlx::raw_sql("ROLLBACK")
                .execute(&mut connection)
                .await
                .is_ok()
            {
                self.connection = Some(connection);
            }
        }
    }

    fn publish(&self, written: Vec<Written>) {
        for item in &written {
            if let Ok(committed) = item.result {
                self.heads.advance(&item.workspace, committed.revision);
            }
        }
        for item in written {
            // A caller that has gone away finds its rows when it comes back.
            let _ = item.answer.send(item.result);
        }
    }
}
