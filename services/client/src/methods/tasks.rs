//! Tasks.

use std::time::Duration;

use muster_domain::{Fault, page, task::Phase};
use muster_proto::public as pb;

use super::{Page, call, page as to_page, there};
use crate::{Client, CreateTask, TaskUpdate, Unsettled, api::Task};

impl Client {
    /// A task by id or unique prefix.
    ///
    /// # Errors
    /// `TASK_NOT_FOUND`, `AMBIGUOUS_ID`, `COORDINATOR_UNREACHABLE`.
    pub async fn get_task(&self, id: &str) -> Result<Task, Fault> {
        let request = pb::GetTaskRequest { id: id.to_owned() };
        let answer = self
            .again(self.call_deadline(), call!(tasks.get_task(request)))
            .await?;
        there(answer.task, "task")
    }

    /// Tasks, newest first; of one phase, or of all.
    ///
    /// # Errors
    /// `BAD_PAGE_TOKEN`, `COORDINATOR_UNREACHABLE`.
    pub async fn list_tasks(
        &self,
        phase: Option<&Phase>,
        page: page::Request,
    ) -> Result<Page<Task>, Fault> {
        let request = pb::ListTasksRequest {
            page_size: page.size,
            page_token: page.token,
            phase: phase.map_or(0, |phase| pb::TaskPhase::from(phase).into()),
        };
        let answer = self
            .again(self.call_deadline(), call!(tasks.list_tasks(request)))
            .await?;
        Ok(to_page(answer.tasks, answer.next_page_token))
    }

    /// Makes a task, surely or for at most `patience` (F20); `true`: it was made before,
    /// under the same key.
    ///
    /// # Errors
    /// [`Unsettled`]; refused with `INVALID_TITLE`, `KEY_REUSED`.
    pub async fn create_task(
        &self,
        task: CreateTask,
        patience: Duration,
    ) -> Result<(Task, bool), Unsettled> {
        let key = task.client_key.clone();
        let request = pb::CreateTaskRequest::from(task);
        let answer = self
            .settle(
                &key,
                patience,
                self.call_deadline(),
                call!(tasks.create_task(request)),
            )
            .await?;
        let task = there(answer.task, "task").map_err(Unsettled::Refused)?;
        Ok((task, answer.replayed))
    }

    /// Changes a task, once.
    ///
    /// # Errors
    /// `TASK_NOT_FOUND`, `VERSION_MISMATCH`, `INVALID_PHASE`, `COORDINATOR_UNREACHABLE` (it
    /// may have been changed then).
    pub async fn update_task(&self, id: &str, update: TaskUpdate) -> Result<Task, Fault> {
        let request = update.request(id);
        let answer = self
            .once(self.call_deadline(), call!(tasks.update_task(request)))
            .await?;
        there(answer.task, "task")
    }
}
