//! Enums that have the same words on both sides.

use muster_domain::{Fault, interaction, message, session};

use crate::{agent, keeper, public};

/// A domain enum that has the wire's enum `W` as its form there.
pub trait Enum<W>: Sized {
    /// The wire's form.
    fn to_wire(self) -> W;

    /// The domain's form; `None` for unspecified.
    fn from_wire(wire: W) -> Option<Self>;
}

/// The number on the wire.
pub fn number<W: Into<i32>>(value: impl Enum<W>) -> i32 {
    value.to_wire().into()
}

/// An enum that must be specified.
///
/// # Errors
/// `MISSING_FIELD` when unspecified, `INVALID` when this version does not know the number.
pub fn required<W, D>(field: &'static str, number: i32) -> Result<D, Fault>
where
    W: TryFrom<i32>,
    D: Enum<W>,
{
    optional(field, number)?.ok_or_else(|| Fault::missing(field))
}

/// An enum that may be unspecified.
///
/// # Errors
/// `INVALID` when this version does not know the number.
pub fn optional<W, D>(field: &'static str, number: i32) -> Result<Option<D>, Fault>
where
    W: TryFrom<i32>,
    D: Enum<W>,
{
    match W::try_from(number) {
        Ok(wire) => Ok(D::from_wire(wire)),
        Err(_) => Err(Fault::invalid(field, format!("{number} is no known value"))),
    }
}

macro_rules! same_words {
    ($($domain:ty => $wire:ty { $($word:ident),* $(,)? })*) => {$(
        impl Enum<$wire> for $domain {
            fn to_wire(self) -> $wire {
                match self { $(Self::$word => <$wire>::$word,)* }
            }

            fn from_wire(wire: $wire) -> Option<Self> {
                match wire {
                    <$wire>::Unspecified => None,
                    $(<$wire>::$word => Some(Self::$word),)*
                }
            }
        }
    )*};
}

same_words! {
    session::Link => public::LinkState { Connecting, Connected, Suspect, Unreachable }
    session::Access => public::AccessLevel { Full, Workspace, Readonly }
    session::Access => agent::AccessLevel { Full, Workspace, Readonly }
    session::Input => public::SessionSource { Cli, Console, Connector, Agent }
    session::Attention => public::Attention { None, Permission, Question, Plan, Error }
    session::LostReason => agent::LostReason { Keeper, Boot, Folder }
    session::Status => public::SessionStatus {
        Starting, Running, WaitingPermission, WaitingQuestion, WaitingPlan, Retrying,
        Compacting, Idle, IdleBackground, Stalled, Failed, Interrupted, Stopped, Exited,
        Lost, Orphaned, Unreachable,
    }
    message::Kind => public::MessageKind {
        User, Assistant, Reasoning, ToolCall, ToolResult, Notice, Request, Output,
    }
    message::Delivery => public::MessageState {
        Accepted, Written, Seen, Done, Held, Rejected, Cancelled, Unconfirmed, Interrupted,
        Parked, Failed,
    }
    interaction::Kind => public::InteractionKind { Permission, Question, Plan }
    interaction::State => public::InteractionState {
        Open, Answered, Delivered, Applied, Withdrawn, Expired, Lost,
    }
}

impl From<keeper::StdinMode> for agent::StdinMode {
    fn from(mode: keeper::StdinMode) -> Self {
        match mode {
            keeper::StdinMode::Unspecified => Self::Unspecified,
            keeper::StdinMode::Held => Self::Held,
            keeper::StdinMode::Closable => Self::Closable,
        }
    }
}

impl From<agent::StdinMode> for keeper::StdinMode {
    fn from(mode: agent::StdinMode) -> Self {
        match mode {
            agent::StdinMode::Unspecified => Self::Unspecified,
            agent::StdinMode::Held => Self::Held,
            agent::StdinMode::Closable => Self::Closable,
        }
    }
}

impl From<keeper::OutcomeKind> for agent::OutcomeKind {
    fn from(kind: keeper::OutcomeKind) -> Self {
        match kind {
            keeper::OutcomeKind::Unspecified => Self::Unspecified,
            keeper::OutcomeKind::Delivered => Self::Delivered,
            keeper::OutcomeKind::Retry => Self::Retry,
            keeper::OutcomeKind::InFlight => Self::InFlight,
            keeper::OutcomeKind::Busy => Self::Busy,
            keeper::OutcomeKind::StdinClosed => Self::StdinClosed,
            keeper::OutcomeKind::Exited => Self::Exited,
            keeper::OutcomeKind::DiskFull => Self::DiskFull,
            keeper::OutcomeKind::Unknown => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_domain::Reason;

    use super::*;

    fn round_trip<W, D>() -> usize
    where
        W: TryFrom<i32> + Into<i32>,
        D: Enum<W>,
    {
        let mut known = 0;
        for at in 0..64 {
            if let Ok(Some(value)) = optional::<W, D>("field", at) {
                assert_eq!(number::<W>(value), at);
                known += 1;
            }
        }
        known
    }

    #[test]
    fn every_word_comes_back() {
        assert_eq!(round_trip::<public::LinkState, session::Link>(), 4);
        assert_eq!(round_trip::<public::AccessLevel, session::Access>(), 3);
        assert_eq!(round_trip::<agent::AccessLevel, session::Access>(), 3);
        assert_eq!(round_trip::<public::SessionSource, session::Input>(), 4);
        assert_eq!(round_trip::<public::Attention, session::Attention>(), 5);
        assert_eq!(round_trip::<public::SessionStatus, session::Status>(), 17);
        assert_eq!(round_trip::<public::MessageKind, message::Kind>(), 8);
        assert_eq!(round_trip::<public::MessageState, message::Delivery>(), 11);
        assert_eq!(
            round_trip::<public::InteractionKind, interaction::Kind>(),
            3
        );
        assert_eq!(
            round_trip::<public::InteractionState, interaction::State>(),
            7
        );
        assert_eq!(round_trip::<agent::LostReason, session::LostReason>(), 3);
    }

    #[test]
    fn unspecified_and_unknown_are_refused_apart() {
        let missing = required::<public::LinkState, session::Link>("link", 0).unwrap_err();
        assert_eq!(missing.reason(), Reason::MissingField);
        let unknown = required::<public::LinkState, session::Link>("link", 99).unwrap_err();
        assert_eq!(unknown.reason(), Reason::Invalid);
    }
}
