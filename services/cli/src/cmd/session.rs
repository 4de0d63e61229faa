//! `muster session`.

mod told;

use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _};
use muster_client::{Control, ListSessions, api::Session, json, new_key, pages};
use serde_json::{Value, json};

use crate::{args, context::Context, exit::Failure, out, table};

/// Sessions that are listed at most.
const SESSIONS: usize = 10_000;
/// How long a resume is tried.
const PATIENCE: Duration = Duration::from_secs(60);

/// Does what was typed behind `session`.
pub(crate) async fn run(context: &Context, command: args::Session) -> Result<(), Failure> {
    let client = context.client()?;
    match command {
        args::Session::Ls {
            live,
            internal,
            task,
        } => {
            list(
                context,
                ListSessions {
                    live,
                    internal,
                    task,
                },
            )
            .await
        }
        args::Session::Show { session } => show(context, &client.get_session(&session).await?),
        args::Session::Explain { session } => explain(context, &session).await,
        args::Session::Stop { session, survivors } => {
            let control = client.stop_session(&session, survivors).await?;
            let text = if survivors {
                told::survivors_ended(&control)
            } else {
                told::stopped(&control)
            };
            controlled(context, &control, &text)
        }
        args::Session::Interrupt { session, hard: _ } => {
            let control = client.interrupt_session(&session).await?;
            controlled(context, &control, &told::interrupted(&control))
        }
        args::Session::Resume { session, id } => {
            let key = id.unwrap_or_else(new_key);
            let session = client.resume_session(&session, &key, PATIENCE).await?;
            if context.json {
                return out::json(&json(&session));
            }
            let (run, id) = (session.run, &session.id);
            out::note(&format!(
                "run {run} of the session has begun\nnext: `muster tail {id} --follow` shows its output"
            ));
            Ok(())
        }
    }
}

async fn list(context: &Context, filter: ListSessions) -> Result<(), Failure> {
    let client = context.client()?;
    let sessions: Vec<Session> =
        Box::pin(pages(|page| client.list_sessions(filter.clone(), page)).take(SESSIONS))
            .try_collect()
            .await?;
    if context.json {
        let sessions: Vec<_> = sessions.iter().map(json).collect();
        return out::json(&json!({ "sessions": sessions, "next_page_token": "" }));
    }
    let rows: Vec<Vec<String>> = sessions
        .iter()
        .map(|session| {
            let queued = if session.queued_messages == 0 {
                String::new()
            } else {
                session.queued_messages.to_string()
            };
            vec![
                session.id.clone(),
                word(session, "status"),
                session.host.clone(),
                queued,
                session.title.clone(),
            ]
        })
        .collect();
    out::bytes(table::render(&["SESSION", "STATUS", "HOST", "QUEUED", "TITLE"], &rows).as_bytes())
}

/// An enum or time of a session, in the words of the API.
pub(crate) fn word(session: &Session, field: &str) -> String {
    json(session)[field].as_str().unwrap_or_default().to_owned()
}

fn show(context: &Context, session: &Session) -> Result<(), Failure> {
    if context.json {
        return out::json(&json(session));
    }
    let view = json(session);
    let word = |field: &str| view[field].as_str().unwrap_or_default().to_owned();
    let number = |value: i32| {
        if value == 0 {
            String::new()
        } else {
            value.to_string()
        }
    };
    let states = ["link", "process", "turn", "attention"]
        .map(|field| format!("{field} {}", word(field)))
        .join(", ");
    let exit = match (session.exit_code, session.exit_signal) {
        (Some(code), _) => format!("code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => session.lost_reason.clone(),
    };
    let cursor = &view["cursor"];
    let read = cursor["offset"]
        .as_str()
        .map_or_else(String::new, |offset| {
            format!("{offset} bytes of run {}", session.run)
        });
    let survivors: Vec<String> = session
        .survivors
        .iter()
        .map(|survivor| survivor.pid.to_string())
        .collect();
    let text = table::pairs(&[
        ("session", session.id.clone()),
        ("title", session.title.clone()),
        (
            "status",
            format!("{} since {}", word("status"), word("status_since")),
        ),
        ("states", states),
        ("host", session.host.clone()),
        ("cwd", session.cwd.clone()),
        ("program", session.argv.join(" ")),
        ("task", session.task_id.clone()),
        ("pid", number(session.pid)),
        ("keeper", number(session.keeper_pid)),
        ("exit", exit),
        (
            "failure",
            join(&session.failure_reason, &session.failure_text),
        ),
        ("read", read),
        (
            "queued",
            if session.queued_messages == 0 {
                String::new()
            } else {
                session.queued_messages.to_string()
            },
        ),
        ("survivors", survivors.join(" ")),
        ("started", word("started_at")),
        ("ended", word("ended_at")),
    ]);
    out::bytes(text.as_bytes())?;
    if !session.stderr_tail.is_empty() {
        out::line("standard error ends with:")?;
        for line in session.stderr_tail.lines() {
            out::bytes(table::pairs(&[("", line.to_owned())]).as_bytes())?;
        }
    }
    Ok(())
}

fn join(reason: &str, text: &str) -> String {
    if reason.is_empty() {
        String::new()
    } else {
        format!("{reason}: {text}")
    }
}

async fn explain(context: &Context, session: &str) -> Result<(), Failure> {
    let (facts, refusals) = context.client()?.explain_session(session).await?;
    let facts: Vec<Value> = facts.iter().map(json).collect();
    if context.json {
        return out::json(&json!({ "facts": facts, "refusals": refusals }));
    }
    let rows: Vec<Vec<String>> = facts
        .iter()
        .map(|fact| {
            ["name", "value", "source", "offset", "observed_at", "rule"]
                .map(|field| fact[field].as_str().unwrap_or_default().to_owned())
                .to_vec()
        })
        .collect();
    let text = table::render(
        &["FACT", "VALUE", "SOURCE", "OFFSET", "OBSERVED", "RULE"],
        &rows,
    );
    out::bytes(text.as_bytes())?;
    for refusal in refusals {
        out::line(&format!("not concluded: {refusal}"))?;
    }
    Ok(())
}

fn controlled(context: &Context, control: &Control, text: &str) -> Result<(), Failure> {
    if context.json {
        return out::json(&json(&control.session));
    }
    out::note(text);
    Ok(())
}
