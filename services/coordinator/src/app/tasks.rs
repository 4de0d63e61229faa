//! Tasks.

use muster_domain::{
    Fault, Reason, TaskId,
    changeset::{Changeset, Conflict, Versioned},
    feed::{Audience, Change, Event},
    page,
    task::{New, Phase, Task},
};

use super::{App, TRIES, conflict, not_found};

/// What is to be changed at a task; `None` stays.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskUpdate {
    /// Task, by id or unique prefix.
    pub id: String,
    /// Title.
    pub title: Option<String>,
    /// What and why.
    pub description: Option<String>,
    /// Category.
    pub category: Option<String>,
    /// Project.
    pub project: Option<String>,
    /// Phase.
    pub phase: Option<Phase>,
    /// A person should look.
    pub needs_attention: Option<bool>,
    /// Only when the task has this version.
    pub expected: Option<u64>,
}

/// A task that was made, or had been.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Updated {
    /// The task.
    pub task: Task,
    /// A call with the same client key was made before.
    pub replayed: bool,
}

impl App {
    /// A task by id or unique prefix.
    ///
    /// # Errors
    /// `TASK_NOT_FOUND`, `AMBIGUOUS_ID`, `INVALID_ID`.
    pub async fn task(&self, text: &str) -> Result<Task, Fault> {
        super::check_prefix("task", text)?;
        let id: TaskId = match text.parse() {
            Ok(id) => id,
            Err(_) => {
                let found = self
                    .parts
                    .store
                    .tasks_by_prefix(&self.parts.workspace, text, super::CANDIDATES)
                    .await?;
                super::only(&found, text, Reason::TaskNotFound, "task")?
            }
        };
        let task = self.parts.store.task(id).await?;
        let task = task.filter(|task| task.workspace == self.parts.workspace);
        task.ok_or_else(|| not_found(Reason::TaskNotFound, "task", text))
    }

    /// Tasks, newest first.
    ///
    /// # Errors
    /// `BAD_PAGE_TOKEN`.
    pub async fn list_tasks(
        &self,
        phase: Option<Phase>,
        page: page::Request,
    ) -> Result<page::Page<Task>, Fault> {
        let store = &self.parts.store;
        Ok(store
            .tasks(&self.parts.workspace, phase.as_ref(), &page)
            .await?)
    }

    /// Makes a task. A repeat with the same client key gives the one that was made.
    ///
    /// # Errors
    /// `MISSING_FIELD`, `INVALID_TITLE`, `TOO_LARGE`, `INVALID`, `KEY_REUSED`.
    pub async fn create_task(&self, new: New) -> Result<Updated, Fault> {
        let id = TaskId::new(uuid::Uuid::now_v7());
        let made = new.create(id, self.parts.workspace.clone(), self.now())?;
        let mut tries = 0;
        loop {
            let before = self
                .parts
                .store
                .task_by_client_key(&self.parts.workspace, &made.client_key)
                .await?;
            if let Some(task) = before {
                return Ok(Updated {
                    task,
                    replayed: true,
                });
            }
            match self.write(0, made.clone()).await {
                Ok(task) => {
                    return Ok(Updated {
                        task,
                        replayed: false,
                    });
                }
                Err(Conflict::KeyTaken) if tries < TRIES => tries += 1,
                Err(refused) => return Err(conflict(refused)),
            }
        }
    }

    /// Changes a task.
    ///
    /// # Errors
    /// `TASK_NOT_FOUND`, `AMBIGUOUS_ID`, `VERSION_MISMATCH`, and what refuses a value.
    pub async fn update_task(&self, update: TaskUpdate) -> Result<Task, Fault> {
        let mut tries = 0;
        loop {
            let task = self.task(&update.id).await?;
            if let Some(expected) = update.expected
                && expected != task.version
            {
                return Err(conflict(Conflict::Version {
                    what: "task",
                    expected,
                    found: task.version,
                }));
            }
            let next = self.changed(&task, &update)?;
            if next == task {
                return Ok(task);
            }
            match self.write(task.version, next).await {
                Ok(task) => return Ok(task),
                Err(Conflict::Version { .. }) if update.expected.is_none() && tries < TRIES => {
                    tries += 1;
                }
                Err(refused) => return Err(conflict(refused)),
            }
        }
    }

    fn changed(&self, task: &Task, update: &TaskUpdate) -> Result<Task, Fault> {
        let given = |new: &Option<String>, old: &String| new.as_ref().unwrap_or(old).clone();
        let now = self.now();
        // The rules of a new task hold for a changed one.
        let checked = New {
            title: given(&update.title, &task.title),
            description: given(&update.description, &task.description),
            category: given(&update.category, &task.category),
            project: given(&update.project, &task.project),
            client_key: task.client_key.clone(),
        }
        .create(task.id, task.workspace.clone(), now)?;
        let mut next = Task {
            title: checked.title,
            description: checked.description,
            category: checked.category,
            project: checked.project,
            needs_attention: update.needs_attention.unwrap_or(task.needs_attention),
            ..task.clone()
        };
        if let Some(phase) = &update.phase
            && *phase != task.phase
        {
            next.set_phase(phase.clone(), now);
        }
        if next != *task {
            next.updated_at = now;
        }
        Ok(next)
    }

    async fn write(&self, expected: u64, mut row: Task) -> Result<Task, Conflict> {
        row.version = expected + 1;
        let mut changeset = Changeset::new(self.parts.workspace.clone());
        changeset.events.push(Event {
            audience: Audience::Workspace(None),
            change: Change::Task(Box::new(row.clone())),
        });
        changeset.tasks.push(Versioned {
            expected,
            row: row.clone(),
        });
        self.commit(changeset).await?;
        Ok(row)
    }
}
