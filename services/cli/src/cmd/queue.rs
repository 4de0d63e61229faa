//! `muster queue`.

use muster_client::{Reason, json, message_text};
use serde_json::json;

use crate::{
    args,
    context::Context,
    exit::{self, Failure},
    out, table,
};

/// Prints what waits to be written, or takes a message back.
pub(crate) async fn run(context: &Context, queue: args::Queue) -> Result<(), Failure> {
    let client = context.client()?;
    if let Some(args::QueueCommand::Cancel { message }) = queue.command {
        let session = client.get_session(&queue.session).await?;
        let found = client.get_message(&message).await?;
        if found.session_id != session.id {
            let text = "that message was not sent to this session";
            return Err(Failure::with_code(exit::NOT_FOUND, text)
                .reason(Reason::MessageNotFound.as_str())
                .with("session", &found.session_id)
                .hint(format!(
                    "`muster queue {}` is where it waits",
                    found.session_id
                )));
        }
        let message = client.cancel_message(&message).await?;
        if context.json {
            return out::json(&json(&message));
        }
        out::note("taken back: the message will not be written");
        return Ok(());
    }
    let messages = client.list_queue(&queue.session).await?;
    if context.json {
        let messages: Vec<_> = messages.iter().map(json).collect();
        return out::json(&json!({ "messages": messages }));
    }
    let rows: Vec<Vec<String>> = messages
        .iter()
        .map(|message| {
            let state = json(message)["state"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            let text: String = message_text(message).chars().take(60).collect();
            vec![
                message.position.to_string(),
                state,
                message.id.clone(),
                text,
            ]
        })
        .collect();
    out::bytes(table::render(&["#", "STATE", "MESSAGE", "TEXT"], &rows).as_bytes())
}
