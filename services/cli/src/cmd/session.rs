//! `muster session`.

mod told;

use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _};
use muster_client::{
    Control, ListSessions, Reason, WaitFor,
    api::{LinkState, ProcessState, Session},
    json,
    limits::{STOP_INT_WAIT, STOP_KILL_WAIT, STOP_TERM_WAIT},
    new_key, pages,
};
use serde_json::{Value, json};

use crate::{args, context::Context, exit::Failure, out, table};

/// Sessions that are listed at most.
const SESSIONS: usize = 10_000;
/// How much longer than its ladder the end of survivors is waited for.
const SURVIVORS_GRACE: Duration = Duration::from_secs(5);
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
            if survivors {
                return end_survivors(context, control).await;
            }
            controlled(context, &control, &told::stopped(&control))
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

/// Waits for the end of the survivors that are being ended; says who ended and who did not.
async fn end_survivors(context: &Context, mut control: Control) -> Result<(), Failure> {
    let client = context.client()?;
    let id = control.session.id.clone();
    if !control.survivors.is_empty() {
        let ladder = STOP_INT_WAIT + STOP_TERM_WAIT + STOP_KILL_WAIT;
        let patience = Some(ladder + SURVIVORS_GRACE);
        let waited = client.wait_session(&id, WaitFor::NoSurvivors, patience);
        control.session = match waited.await {
            Ok(session) => session,
            Err(fault) if fault.reason() == Reason::WaitTimeout => client.get_session(&id).await?,
            Err(fault) => return Err(fault.into()),
        };
    }
    controlled(context, &control, &told::survivors_ended(&control))?;
    if control.session.survivors.is_empty() {
        return Ok(());
    }
    Err(Failure::failed("processes of the session are still alive")
        .hint(format!("`muster session show {id}` names them")))
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
    let survivors = survivors(session);
    // The status of a run that is being stopped is what the run still does.
    let stopping = if session.stop_requested && session.process() == ProcessState::Alive {
        ", being stopped"
    } else {
        ""
    };
    let text = table::pairs(&[
        ("session", session.id.clone()),
        ("title", session.title.clone()),
        (
            "status",
            format!(
                "{} since {}{stopping}",
                word("status"),
                word("status_since")
            ),
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
        ("survivors", survivors),
        ("output", damage(session)),
        ("record", record(session)),
        ("offers", told::offers(session)),
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

/// Who outlived the run and still lives, by the latest word of its host.
fn survivors(session: &Session) -> String {
    let pids: Vec<String> = session
        .survivors
        .iter()
        .map(|survivor| survivor.pid.to_string())
        .collect();
    let up = matches!(session.link(), LinkState::Connected | LinkState::Suspect);
    if pids.is_empty() || up {
        pids.join(" ")
    } else {
        format!("{} (as last seen; the host is not reached)", pids.join(" "))
    }
}

/// What is wrong with the output.
fn damage(session: &Session) -> String {
    let lines = session.damaged_lines;
    match (session.damage.as_str(), lines) {
        ("", 0) => String::new(),
        ("", lines) => format!("{lines} damaged lines"),
        (damage, lines) => format!("damaged ({damage}), {lines} damaged lines"),
    }
}

/// What is wrong with what the host keeps of the run.
fn record(session: &Session) -> String {
    match (session.run_folder_missing, session.exit_record_damaged) {
        (false, false) => String::new(),
        (true, _) => "the folder of the run is gone".to_owned(),
        (false, true) => "the exit record of the run is damaged".to_owned(),
    }
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
        let mut view = json(&control.session);
        if let Some(fields) = view.as_object_mut() {
            let unwritten = control.unwritten_messages.into();
            fields.insert("unwritten_messages".to_owned(), unwritten);
            fields.insert("unrecorded".to_owned(), control.unrecorded.into());
        }
        return out::json(&view);
    }
    out::note(text);
    if control.unrecorded {
        out::note(
            "the coordinator cannot write to its disk: it asked the host all the same, and will \
             know of the end when there is space",
        );
    }
    Ok(())
}
