//! `muster send`.

use std::io::Read as _;

use muster_client::{
    Client, Fault, Reason, SendMessage, SendMode, WaitMessage,
    api::{Message, MessageState, part},
    json,
    limits::MESSAGE_TEXT_BYTES,
    new_key,
};

use crate::{args, context::Context, exit::Failure, out};

/// Sends a message: exactly once, or it says that it was not accepted, or that nobody knows.
pub(crate) async fn run(context: &Context, send: args::Send) -> Result<(), Failure> {
    let client = context.client()?;
    let key = send.id.unwrap_or_else(new_key);
    let text = text(send.text)?;
    let message = SendMessage {
        session: send.session,
        client_key: key,
        text: text.clone(),
        mode: match send.mode {
            args::Mode::Queue => SendMode::Queue,
            args::Mode::AfterTurn => SendMode::AfterTurn,
            args::Mode::Interrupt => SendMode::Interrupt,
        },
        if_turn: send.if_turn,
        source: None,
    };
    if client.reach().await.is_err() {
        let seconds = send.timeout.as_secs();
        out::note(&format!("no coordinator answers; trying for {seconds} s"));
    } else if let Some(args::WaitMessage::Seen | args::WaitMessage::Done) = send.wait {
        echoes(&client, &message.session).await?;
    }
    let message = client.send_message(message, send.timeout).await?;
    let replayed = message.replayed;
    if replayed && says_otherwise(&message, &text) {
        out::note(
            "this id belongs to a message with another text: that one stands, this one was not sent",
        );
    }
    let mut message = match send.wait {
        None => message,
        Some(wait) => settled(&client, &message, wait, send.timeout).await?,
    };
    message.replayed = replayed;
    // A repeat may find that what was accepted has come to nothing since.
    if send.wait.is_some() || (replayed && message.state() == MessageState::Failed) {
        came_through(&message)?;
    }
    if context.json {
        return out::json(&json(&message));
    }
    let state = json(&message)["state"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let again = if message.replayed {
        ", sent before"
    } else {
        ""
    };
    out::note(&format!("{state}{again} (message {})", message.id));
    Ok(())
}

/// Refuses before anything is said: what can never be seen must not be said twice for it (S16).
async fn echoes(client: &Client, session: &str) -> Result<(), Failure> {
    let session = client.get_session(session).await?;
    if session.adapter == "generic" {
        let why = "a generic program does not echo what it is told; nothing was sent";
        return Err(Failure::failed(why)
            .reason(Reason::Unsupported.as_str())
            .hint("`--wait written` waits until it is in its input"));
    }
    Ok(())
}

async fn settled(
    client: &Client,
    message: &Message,
    wait: args::WaitMessage,
    timeout: std::time::Duration,
) -> Result<Message, Failure> {
    let wait = match wait {
        args::WaitMessage::Written => WaitMessage::Written,
        args::WaitMessage::Seen => WaitMessage::Seen,
        args::WaitMessage::Done => WaitMessage::Done,
    };
    client
        .wait_message(&message.id, wait, timeout)
        .await
        .map_err(|fault: Fault| match fault.reason() {
            // It stands; only the waiting is over.
            Reason::WaitTimeout => Failure::failed(format!(
                "accepted, and not there yet (message {})",
                message.id
            ))
            .reason(fault.reason().as_str())
            .with("message", &message.id)
            .hint("it stands and is written as soon as the program reads; `muster queue` shows it"),
            _ => fault.into(),
        })
}

/// A message that can come no further has an end of its own; some ends are no success.
fn came_through(message: &Message) -> Result<(), Failure> {
    match message.state() {
        MessageState::Written | MessageState::Seen | MessageState::Done => Ok(()),
        _ => {
            let state = &json(message)["state"];
            let state = state.as_str().unwrap_or_default();
            let why = match message.state_reason.as_str() {
                "" => String::new(),
                reason if message.state_text.is_empty() => format!(" ({reason})"),
                reason => format!(" ({reason}: {})", message.state_text),
            };
            let text = format!("the message is {state}{why} (message {})", message.id);
            Err(Failure::failed(text)
                .reason("NOT_DELIVERED")
                .with("message", &message.id)
                .with("state", state)
                .with("state_reason", &message.state_reason)
                .hint("`muster session show` tells how its session stands"))
        }
    }
}

/// The stored message of a repeated id is not what was to be said now.
fn says_otherwise(message: &Message, text: &str) -> bool {
    message.parts.iter().any(|part| match &part.part {
        Some(part::Part::Text(stored)) => stored != text,
        _ => false,
    })
}

/// The text itself, or what standard input has, without its last newline.
fn text(text: String) -> Result<String, Failure> {
    if text != "-" {
        return Ok(text);
    }
    let mut read = String::new();
    let bound = MESSAGE_TEXT_BYTES as u64 + 2;
    std::io::stdin()
        .take(bound)
        .read_to_string(&mut read)
        .map_err(|error| Failure::usage(format!("read the text from standard input: {error}")))?;
    if read.ends_with('\n') {
        read.pop();
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_was_never_read_is_no_success() {
        let message = |state: MessageState| Message {
            state: state.into(),
            ..Message::default()
        };
        for good in [
            MessageState::Written,
            MessageState::Seen,
            MessageState::Done,
        ] {
            assert!(came_through(&message(good)).is_ok(), "{good:?}");
        }
        for bad in [
            MessageState::Failed,
            MessageState::Rejected,
            MessageState::Cancelled,
            MessageState::Unconfirmed,
            MessageState::Interrupted,
        ] {
            assert!(came_through(&message(bad)).is_err(), "{bad:?}");
        }
    }
}
