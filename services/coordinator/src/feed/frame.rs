//! The words between a feed and its client.

use std::sync::Arc;

use muster_domain::{
    Fault, MessageId, SessionId, TurnId, host, interaction::Interaction, message::Message,
    session::Outcome, task::Task,
};

use crate::app::SessionView;

/// What a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Tasks, sessions, hosts, interactions.
    SubscribeWorkspace {
        /// Resume after this revision; `None` = with a snapshot.
        after: Option<u64>,
    },
    /// One session with its messages.
    SubscribeSession {
        /// Which session.
        session: SessionId,
        /// Resume after this revision; `None` = with a snapshot.
        after: Option<u64>,
    },
    /// No more of this session.
    Unsubscribe(SessionId),
    /// Growth of this session goes first; `None` = of none.
    Focus(Option<SessionId>),
    /// A fresh look at a session's repository.
    RefreshGit(SessionId),
    /// Are you there?
    Ping,
}

/// What a frame belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subscription {
    /// The workspace.
    Workspace,
    /// One session.
    Session(SessionId),
}

/// What a client gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// The command with this id was taken.
    Ack(u64),
    /// The command with this id was not.
    Error(u64, Fault),
    /// A snapshot begins; what follows it is after this revision.
    SnapshotBegin(Subscription, u64),
    /// A piece of a snapshot.
    Item(Subscription, Item),
    /// The snapshot is complete.
    SnapshotEnd(Subscription, u64),
    /// Something happened.
    Event {
        /// Where it stands; `None` for a preview.
        revision: Option<u64>,
        /// What it belongs to.
        subscription: Subscription,
        /// What happened.
        event: Box<Event>,
    },
    /// Events are missing; a new snapshot as of about this revision follows.
    Gap(Subscription, u64),
    /// Everything up to this revision was sent.
    Progress(u64),
}

/// A piece of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// A session.
    Session(Box<SessionView>),
    /// A task.
    Task(Box<Task>),
    /// A host.
    Host(Box<host::View>),
    /// A message, with its text so far, and the name of its host.
    Message(Box<Message>, Arc<str>),
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A session is now so.
    Session(Box<SessionView>),
    /// A task is now so.
    Task(Box<Task>),
    /// A host is now so.
    Host(Box<host::View>),
    /// An interaction is now so.
    Interaction(Box<Interaction>),
    /// A message is there; with the name of its host.
    MessageAdded(Box<Message>, Arc<str>),
    /// A message changed, but for its growing text; with the name of its host.
    MessageChanged(Box<Message>, Arc<str>),
    /// A text grew.
    MessageDelta {
        /// Which message.
        message: MessageId,
        /// Byte at which the piece begins.
        from: u64,
        /// The piece.
        text: String,
    },
    /// A turn opened or closed.
    Turn {
        /// Which turn.
        id: TurnId,
        /// `None`: it opened.
        outcome: Option<Outcome>,
        /// More input waits.
        more: bool,
    },
}
