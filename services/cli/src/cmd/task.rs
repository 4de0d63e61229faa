//! `muster task`.

use futures_util::{StreamExt as _, TryStreamExt as _};
use muster_client::{CreateTask, Phase, TaskUpdate, api::Task, json, new_key, pages};
use serde_json::json;

use crate::{args, context::Context, exit::Failure, out, table};

/// Tasks that are listed at most.
const TASKS: usize = 10_000;
/// How long making one is tried.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

/// Does what was typed behind `task`.
pub(crate) async fn run(context: &Context, command: args::Task) -> Result<(), Failure> {
    match command {
        args::Task::Add {
            title,
            description,
            project,
            category,
        } => {
            let client = crate::start::ensure(context).await?;
            let task = CreateTask {
                client_key: new_key(),
                title,
                description,
                category,
                project,
            };
            let (task, _) = client.create_task(task, PATIENCE).await?;
            if context.json {
                out::json(&json(&task))
            } else {
                out::line(&task.id)
            }
        }
        args::Task::Ls { phase } => list(context, phase).await,
        args::Task::Show { task } => {
            let task = context.client()?.get_task(&task).await?;
            show(context, &task)
        }
        args::Task::Phase { task, phase } => {
            let update = TaskUpdate {
                phase: Some(read_phase(&phase)?),
                ..TaskUpdate::default()
            };
            let task = context.client()?.update_task(&task, update).await?;
            if context.json {
                out::json(&json(&task))
            } else {
                Ok(())
            }
        }
    }
}

fn read_phase(text: &str) -> Result<Phase, Failure> {
    Ok(Phase::parse(text)?)
}

async fn list(context: &Context, phase: Option<String>) -> Result<(), Failure> {
    let client = context.client()?;
    let phase = phase.as_deref().map(read_phase).transpose()?;
    let tasks: Vec<Task> =
        Box::pin(pages(|page| client.list_tasks(phase.as_ref(), page)).take(TASKS))
            .try_collect()
            .await?;
    if context.json {
        let tasks: Vec<_> = tasks.iter().map(json).collect();
        return out::json(&json!({ "tasks": tasks, "next_page_token": "" }));
    }
    let rows: Vec<Vec<String>> = tasks
        .iter()
        .map(|task| {
            let mark = if task.needs_attention { "!" } else { "" };
            vec![
                task.id.clone(),
                word(task),
                mark.to_owned(),
                task.title.clone(),
            ]
        })
        .collect();
    out::bytes(table::render(&["TASK", "PHASE", "", "TITLE"], &rows).as_bytes())
}

fn word(task: &Task) -> String {
    json(task)["phase"].as_str().unwrap_or_default().to_owned()
}

fn show(context: &Context, task: &Task) -> Result<(), Failure> {
    if context.json {
        return out::json(&json(task));
    }
    let text = table::pairs(&[
        ("task", task.id.clone()),
        ("title", task.title.clone()),
        ("phase", word(task)),
        (
            "attention",
            if task.needs_attention { "needed" } else { "" }.to_owned(),
        ),
        ("category", task.category.clone()),
        ("project", task.project.clone()),
        ("description", task.description.clone()),
        ("sessions", task.session_ids.join(" ")),
    ]);
    out::bytes(text.as_bytes())
}
