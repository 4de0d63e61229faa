//! `TasksService`.

use muster_domain::{Fault, Reason, task::New};
use muster_proto::{
    convert::{id, page, task},
    public::{self as pb, tasks_service_server::TasksService},
};
use tonic::{Request, Response, Status, async_trait};

use super::Rpc;
use crate::app::TaskUpdate;

#[async_trait]
impl TasksService for Rpc {
    async fn get_task(
        &self,
        request: Request<pb::GetTaskRequest>,
    ) -> Result<Response<pb::GetTaskResponse>, Status> {
        let request = request.into_inner();
        self.answer("GetTask", async {
            let task = self.app.task(&request.id).await?;
            Ok(pb::GetTaskResponse {
                task: Some((&task).into()),
            })
        })
        .await
    }

    async fn list_tasks(
        &self,
        request: Request<pb::ListTasksRequest>,
    ) -> Result<Response<pb::ListTasksResponse>, Status> {
        let request = request.into_inner();
        self.answer("ListTasks", async {
            let phase = task::phase_opt(request.phase)?;
            let asked = page::request(request.page_size, request.page_token);
            let found = self.app.list_tasks(phase, asked).await?;
            let (tasks, next_page_token) = page::page(found, |task| (&task).into());
            Ok(pb::ListTasksResponse {
                tasks,
                next_page_token,
            })
        })
        .await
    }

    async fn create_task(
        &self,
        request: Request<pb::CreateTaskRequest>,
    ) -> Result<Response<pb::CreateTaskResponse>, Status> {
        let request = request.into_inner();
        self.answer("CreateTask", async {
            let new = New {
                title: request.title,
                description: request.description,
                category: request.category,
                project: request.project,
                client_key: request.client_key,
            };
            let made = self.app.create_task(new).await?;
            Ok(pb::CreateTaskResponse {
                task: Some((&made.task).into()),
                replayed: made.replayed,
            })
        })
        .await
    }

    async fn update_task(
        &self,
        request: Request<pb::UpdateTaskRequest>,
    ) -> Result<Response<pb::UpdateTaskResponse>, Status> {
        let request = request.into_inner();
        self.answer("UpdateTask", async {
            let task = self.app.update_task(update(request)?).await?;
            Ok(pb::UpdateTaskResponse {
                task: Some((&task).into()),
            })
        })
        .await
    }
}

fn update(request: pb::UpdateTaskRequest) -> Result<TaskUpdate, Fault> {
    let task = request.task.ok_or_else(|| Fault::missing("task"))?;
    id::required("task.id", &task.id)?;
    let phase = task::phase_opt(task.phase)?;
    let mut update = TaskUpdate {
        id: task.id,
        expected: request.expected_version,
        ..TaskUpdate::default()
    };
    let Some(mask) = request.update_mask else {
        update.title = id::text_opt(task.title);
        update.description = id::text_opt(task.description);
        update.phase = phase;
        return Ok(update);
    };
    for path in mask.paths {
        match path.as_str() {
            "title" => update.title = Some(task.title.clone()),
            "description" => update.description = Some(task.description.clone()),
            "category" => update.category = Some(task.category.clone()),
            "project" => update.project = Some(task.project.clone()),
            "phase" => {
                let phase = phase.clone().ok_or_else(|| {
                    Fault::new(Reason::InvalidPhase, "no phase is named").with("field", "phase")
                })?;
                update.phase = Some(phase);
            }
            "needs_attention" => update.needs_attention = Some(task.needs_attention),
            other => {
                let shown: String = other.chars().take(64).collect();
                return Err(Fault::new(
                    Reason::UnknownField,
                    format!("`{shown}` is no field that can be set"),
                )
                .with("field", shown)
                .with_hint("title, description, category, project, phase, needs_attention"));
            }
        }
    }
    Ok(update)
}
