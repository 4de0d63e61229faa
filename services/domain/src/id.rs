//! Ids, one type per kind of thing, so that mixing them up does not compile.
//!
//! Fresh ids are made by the shell (UUID v7); derived ids are deterministic (UUID v5), so
//! that what is derived twice from the same bytes is the same thing.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Namespace of all derived ids; never changes.
const NAMESPACE: Uuid = Uuid::from_u128(0x6d75_7374_6572_4a1e_8f0b_2c96_51d3_7a40);

/// The text is no id in canonical form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no id")]
pub struct InvalidId(pub String);

macro_rules! uuid_ids {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// Wraps a UUID that the shell made.
            pub const fn new(id: Uuid) -> Self {
                Self(id)
            }

            /// The UUID.
            pub const fn as_uuid(self) -> Uuid {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.as_hyphenated().fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            /// Accepts the canonical form only: lower case, with hyphens.
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                let id = Uuid::try_parse(text).map_err(|_| InvalidId(shorten(text)))?;
                if id.as_hyphenated().to_string() == text {
                    Ok(Self(id))
                } else {
                    Err(InvalidId(shorten(text)))
                }
            }
        }
    )*};
}

uuid_ids! {
    /// A conversation with one program.
    SessionId,
    /// A task.
    TaskId,
    /// A machine.
    HostId,
    /// A message, said or printed.
    MessageId,
    /// One unit of work of a session.
    TurnId,
    /// One payload on its way to a program's stdin.
    DeliveryId,
    /// A permission, question or plan.
    InteractionId,
}

fn shorten(text: &str) -> String {
    text.chars().take(64).collect()
}

/// The name space that everything belongs to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkspaceId(String);

impl WorkspaceId {
    /// The workspace that exists from the first start.
    pub fn main() -> Self {
        Self("main".to_owned())
    }

    /// Checks the form: 1 to 64 of `a-z0-9-`.
    ///
    /// # Errors
    /// The text has another form.
    pub fn parse(text: &str) -> Result<Self, InvalidId> {
        let fits = (1..=64).contains(&text.len())
            && text
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        if fits {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidId(shorten(text)))
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WorkspaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A position in the output of one run of one session.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct At {
    /// Ordinal of the run, from 1.
    pub run: u32,
    /// Byte offset in its stream.
    pub offset: u64,
}

impl MessageId {
    /// The message that the bytes at `at` became; `index` counts within them.
    pub fn derived(session: SessionId, at: At, index: u32) -> Self {
        Self(derive(
            "message",
            session,
            &format!("{}/{}/{index}", at.run, at.offset),
        ))
    }

    /// The message that a client sent under `key`.
    pub fn sent(session: SessionId, key: &str) -> Self {
        Self(derive("sent", session, key))
    }
}

impl TurnId {
    /// The turn that a delivery opened.
    pub fn of_delivery(session: SessionId, delivery: DeliveryId) -> Self {
        Self(derive("turn", session, &delivery.to_string()))
    }

    /// The turn that the program opened by itself, or the start of a run did.
    pub fn of_output(session: SessionId, at: At) -> Self {
        Self(derive(
            "turn",
            session,
            &format!("{}/{}", at.run, at.offset),
        ))
    }
}

impl DeliveryId {
    /// The delivery of a message into a run; one per pair.
    pub fn of_message(message: MessageId, run: u32) -> Self {
        Self(Uuid::new_v5(
            &message.0,
            format!("delivery/{run}").as_bytes(),
        ))
    }
}

fn derive(kind: &str, session: SessionId, name: &str) -> Uuid {
    let scope = Uuid::new_v5(&NAMESPACE, format!("{kind}/{session}").as_bytes());
    Uuid::new_v5(&scope, name.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_canonical_form_is_an_id() {
        let id = "0190b5d4-6a3e-7c11-9a2b-0123456789ab";
        assert_eq!(id.parse::<SessionId>().unwrap().to_string(), id);
        for bad in [
            "",
            "..",
            "0190B5D4-6A3E-7C11-9A2B-0123456789AB",
            "0190b5d46a3e7c119a2b0123456789ab",
            "{0190b5d4-6a3e-7c11-9a2b-0123456789ab}",
        ] {
            assert!(bad.parse::<SessionId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn r2_derived_ids_are_the_same_every_time_and_differ_by_place() {
        let session = SessionId::new(Uuid::from_u128(7));
        let at = At { run: 1, offset: 42 };
        assert_eq!(
            MessageId::derived(session, at, 0),
            MessageId::derived(session, at, 0)
        );
        assert_ne!(
            MessageId::derived(session, at, 0),
            MessageId::derived(session, at, 1)
        );
        assert_ne!(
            MessageId::derived(session, at, 0),
            MessageId::derived(session, At { run: 2, ..at }, 0)
        );
        assert_ne!(
            MessageId::sent(session, "1/42/0"),
            MessageId::derived(session, at, 0)
        );
    }
}
