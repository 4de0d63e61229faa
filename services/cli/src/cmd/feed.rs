//! `muster feed`.

use muster_client::{Topic, WatchEvent, json};
use serde_json::{Value, json};

use crate::{context::Context, cuts::Cuts, exit::Failure, out};

/// How long it tries to go on after a cut.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(120);

/// Prints what happens, one event a line, until it is interrupted.
pub(crate) async fn run(
    context: &Context,
    after: Option<u64>,
    session: Option<String>,
) -> Result<(), Failure> {
    let client = context.client()?;
    let topic = match session {
        None => Topic::Workspace,
        Some(session) => Topic::Session {
            id: client.get_session(&session).await?.id,
            tree: false,
        },
    };
    let mut watch = client.watch(PATIENCE);
    watch.subscribe(topic, after);
    let mut cuts = Cuts::new();
    loop {
        match watch.next().await? {
            WatchEvent::Refused { fault, .. } => return Err(fault.into()),
            WatchEvent::Reconnecting { cause } => cuts.cut(&cause),
            event => {
                cuts.alive();
                let line = render(&event);
                if context.json {
                    out::json_line(&line)?;
                } else {
                    out::line(&brief(&line))?;
                }
            }
        }
    }
}

fn render(event: &WatchEvent) -> Value {
    match event {
        WatchEvent::Event(event) => json(event),
        WatchEvent::Item(item) => json!({ "snapshot_item": json(item) }),
        WatchEvent::SnapshotBegin { session, revision } => {
            json!({ "snapshot_begin": { "session_id": session, "at": revision.to_string() } })
        }
        WatchEvent::SnapshotEnd { session, revision } => {
            json!({ "snapshot_end": { "session_id": session, "at": revision.to_string() } })
        }
        WatchEvent::Progress { revision } => json!({ "progress": { "at": revision.to_string() } }),
        WatchEvent::Gap {
            session,
            resume_from,
        } => {
            json!({ "gap": { "session_id": session, "resume_from": resume_from.to_string() } })
        }
        WatchEvent::Refused { fault, .. } | WatchEvent::Reconnecting { cause: fault } => {
            json!({ "error": fault.message() })
        }
    }
}

/// One line for people: revision, kind, and what it is about.
fn brief(line: &Value) -> String {
    let revision = line["revision"].as_str().unwrap_or("-");
    let Some((kind, body)) = line
        .as_object()
        .and_then(|fields| fields.iter().find(|(_, value)| value.is_object()))
    else {
        return line.to_string();
    };
    let body = body
        .as_object()
        .into_iter()
        .flatten()
        .find(|(_, value)| value.is_object())
        .map_or(body, |(_, value)| value);
    let word = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    let about = [
        word("id"),
        word("status"),
        word("state"),
        word("link"),
        word("phase"),
        word("title"),
        word("name"),
    ];
    let about: Vec<String> = about.into_iter().filter(|word| !word.is_empty()).collect();
    let text = format!("{revision:>8}  {kind:16}  {}", about.join("  "));
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_brief_for_people() {
        let line = json!({ "revision": "7", "session_changed": { "session": { "id": "0190", "status": "running", "title": "bash" } } });
        assert_eq!(
            brief(&line),
            "       7  session_changed   0190  running  bash"
        );
    }
}
