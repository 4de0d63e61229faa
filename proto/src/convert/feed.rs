//! The feed.

use muster_domain::{
    Fault, HostId, SessionId,
    feed::{Change, Preview},
    message::Message,
    session::{Outcome, State},
};

use super::id;
use crate::public::{self, feed_event, subscribe_response::Frame};

/// What an event does not know of itself. All answers are as of now.
pub trait Lookup {
    /// The wire form of a session.
    fn session(&self, state: &State) -> public::Session;

    /// The wire form of a message.
    fn message(&self, message: &Message) -> public::Message;

    /// The wire form of a host; `None` when it is gone.
    fn host(&self, host: HostId) -> Option<public::Host>;
}

/// The frame of a semantic event for the subscription of `session` (`None`: the workspace's).
/// `None` when what it is about is gone.
pub fn event(
    revision: u64,
    session: Option<SessionId>,
    change: &Change,
    lookup: &impl Lookup,
) -> Option<public::SubscribeResponse> {
    let event = change_event(change, lookup)?;
    Some(frame(Frame::Event(public::FeedEvent {
        revision: Some(revision),
        session_id: id::id_text(session),
        event: Some(event),
    })))
}

/// The frame of a preview: growth without a revision.
pub fn preview(preview: Preview) -> public::SubscribeResponse {
    frame(Frame::Event(public::FeedEvent {
        revision: None,
        session_id: preview.session.to_string(),
        event: Some(feed_event::Event::MessageDelta(public::MessageDelta {
            message_id: preview.message.to_string(),
            from_byte: preview.from,
            text: preview.text,
        })),
    }))
}

/// The frame that refuses a command.
pub fn error(command: u64, fault: &Fault) -> public::SubscribeResponse {
    // Through the one table, so that bounds and secrets are kept here too.
    let told = crate::fault::from_status(&crate::fault::into_status(fault));
    frame(Frame::Error(public::CommandError {
        id: command,
        reason: told.reason().as_str().to_owned(),
        message: told.message().to_owned(),
        metadata: told.metadata().clone().into_iter().collect(),
    }))
}

/// The fault of a command that was refused.
pub fn fault(error: &public::CommandError) -> Fault {
    let reason = muster_domain::Reason::parse(&error.reason);
    let mut fault = Fault::new(
        reason.unwrap_or(muster_domain::Reason::Internal),
        error.message.clone(),
    );
    for (key, value) in &error.metadata {
        fault = fault.with(key, value);
    }
    if reason.is_none() {
        fault = fault.with(crate::fault::UNKNOWN_REASON, &error.reason);
    }
    fault
}

/// Wraps a frame.
pub fn frame(frame: Frame) -> public::SubscribeResponse {
    public::SubscribeResponse { frame: Some(frame) }
}

/// The word of how a turn ended.
pub fn outcome_word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Completed => "completed",
        Outcome::Failed => "failed",
        Outcome::Interrupted => "interrupted",
        Outcome::Unknown => "unknown",
    }
}

fn change_event(change: &Change, lookup: &impl Lookup) -> Option<feed_event::Event> {
    use feed_event::Event;
    Some(match change {
        Change::Session(state) => Event::SessionChanged(public::SessionChanged {
            session: Some(lookup.session(state)),
        }),
        Change::Task(task) => Event::TaskChanged(public::TaskChanged {
            task: Some(task.as_ref().into()),
        }),
        Change::Host(host) => Event::HostChanged(public::HostChanged {
            host: Some(lookup.host(*host)?),
        }),
        Change::Interaction(interaction) => Event::InteractionChanged(public::InteractionChanged {
            interaction: Some(interaction.as_ref().into()),
        }),
        Change::MessageAdded(message) => Event::MessageAdded(public::MessageAdded {
            message: Some(lookup.message(message)),
        }),
        Change::MessageChanged(message) => Event::MessageChanged(public::MessageChanged {
            message: Some(lookup.message(message)),
        }),
        Change::MessageDelta {
            message,
            from,
            text,
        } => Event::MessageDelta(public::MessageDelta {
            message_id: message.to_string(),
            from_byte: *from,
            text: text.clone(),
        }),
        Change::Turn { id, outcome, more } => Event::TurnChanged(public::TurnChanged {
            turn_id: id.to_string(),
            state: match outcome {
                None => public::TurnState::Active.into(),
                Some(_) => public::TurnState::Idle.into(),
            },
            outcome: outcome.map_or_else(String::new, |word| outcome_word(word).to_owned()),
            more: *more,
        }),
    })
}
