//! Messages.

use muster_domain::{
    id::At,
    message::{Body, Message},
};

use super::{enums, id, time};
use crate::public;

/// What a message's row does not know of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Context<'a> {
    /// Name of the session's host, for references.
    pub host: &'a str,
    /// Place in the queue from 1 while it waits, else 0.
    pub position: u32,
    /// The answer repeats an earlier one.
    pub replayed: bool,
}

impl From<At> for public::OutputCursor {
    fn from(at: At) -> Self {
        Self {
            run: at.run,
            offset: at.offset,
        }
    }
}

impl From<public::OutputCursor> for At {
    fn from(cursor: public::OutputCursor) -> Self {
        Self {
            run: cursor.run,
            offset: cursor.offset,
        }
    }
}

/// The wire form of a message.
pub fn message(message: &Message, context: Context<'_>) -> public::Message {
    let sent = message.sent.as_ref();
    let state = sent.map(|sent| sent.state);
    public::Message {
        id: message.id.to_string(),
        session_id: message.session.to_string(),
        turn_id: id::id_text(message.turn),
        kind: enums::number::<public::MessageKind>(message.kind),
        state: state.map_or(0, enums::number::<public::MessageState>),
        position: context.position,
        parts: vec![part(&message.body, context.host)],
        at: Some(message.at.into()),
        created_at: Some(time::timestamp(message.created_at)),
        updated_at: Some(time::timestamp(message.updated_at)),
        client_key: sent.map_or_else(String::new, |sent| sent.client_key.clone()),
        replayed: context.replayed,
        delivery_id: id::id_text(sent.and_then(|sent| sent.delivery)),
        state_reason: sent
            .and_then(|sent| sent.reason.clone())
            .unwrap_or_default(),
        version: 0,
        state_text: sent.and_then(|sent| sent.text.clone()).unwrap_or_default(),
    }
}

fn part(body: &Body, host: &str) -> public::Part {
    let part = match body {
        Body::Text(text) => public::part::Part::Text(text.clone()),
        Body::Reference {
            host: _,
            run,
            offset,
            length,
        } => public::part::Part::Reference(public::Reference {
            host: host.to_owned(),
            run: *run,
            offset: *offset,
            length: *length,
        }),
    };
    public::Part { part: Some(part) }
}

/// The text of a message on the wire; empty where its bytes are referenced.
pub fn text(message: &public::Message) -> String {
    message
        .parts
        .iter()
        .filter_map(|part| match &part.part {
            Some(public::part::Part::Text(text)) => Some(text.as_str()),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use muster_domain::{
        Timestamp,
        message::{Delivery, Kind, Sent},
        session::Input,
    };

    use super::*;

    fn sample() -> Message {
        Message {
            id: "0190b5d4-6a3e-7c11-9a2b-0123456789ab".parse().unwrap(),
            session: "0190b5d4-6a3e-7c11-9a2b-0123456789ac".parse().unwrap(),
            turn: None,
            kind: Kind::User,
            at: At { run: 2, offset: 7 },
            index: 0,
            body: Body::Text("hello".to_owned()),
            bytes: 5,
            complete: true,
            created_at: Timestamp::from_micros(1),
            updated_at: Timestamp::from_micros(2),
            sent: Some(Sent {
                client_key: "key".to_owned(),
                source: Input::Cli,
                state: Delivery::Written,
                reason: None,
                text: None,
                delivery: None,
                sequence: 1,
            }),
        }
    }

    #[test]
    fn what_was_said_shows_its_delivery() {
        let wire = message(&sample(), Context::default());
        assert_eq!(wire.state(), public::MessageState::Written);
        assert_eq!(wire.client_key, "key");
        assert_eq!(text(&wire), "hello");
        assert_eq!(wire.at.map(At::from), Some(At { run: 2, offset: 7 }));
    }

    #[test]
    fn s22_a_reference_names_the_host_and_has_no_text() {
        let output = Message {
            kind: Kind::Output,
            body: Body::Reference {
                host: "0190b5d4-6a3e-7c11-9a2b-0123456789ad".parse().unwrap(),
                run: 2,
                offset: 7,
                length: 9,
            },
            sent: None,
            ..sample()
        };
        let context = Context {
            host: "local",
            ..Context::default()
        };
        let wire = message(&output, context);
        assert_eq!(wire.state(), public::MessageState::Unspecified);
        assert_eq!(text(&wire), "");
        let Some(public::part::Part::Reference(reference)) = &wire.parts[0].part else {
            panic!("no reference: {wire:?}");
        };
        assert_eq!(reference.host, "local");
    }
}
