//! What clients ask for, and why it is refused.

use super::{
    Fold,
    end::ladder,
    types::{Accepted, Action, Command, Mode, Text},
};
use crate::{
    Fault, MessageId, Reason, Timestamp,
    id::At,
    limits,
    message::{Body, Delivery, Kind, Message, Sent},
    session::{Launch, Resumed, StopMark},
    task::check_client_key,
};

impl Fold {
    /// Takes a command, or refuses it. What is accepted may be answered once
    /// [`Fold::pending`], as it is after this call, is committed.
    ///
    /// # Errors
    /// `RUN_ENDED`, `STDIN_CLOSED`, `MULTILINE_TEXT`, `MESSAGE_TOO_LARGE`, `QUEUE_FULL`,
    /// `UNSUPPORTED`, `INVALID`, `MISSING_FIELD` (send); `HOST_UNREACHABLE`
    /// (stop, interrupt, resume); `NOT_READY` (interrupt); `SESSION_ALIVE` (resume);
    /// `MESSAGE_NOT_FOUND`, `ALREADY_WRITTEN` (cancel).
    pub fn command(&mut self, command: Command, now: Timestamp) -> Result<Accepted, Fault> {
        let accepted = match command {
            Command::Send {
                text,
                mode,
                if_turn,
                images,
            } => self.send(text, mode, if_turn.is_some(), images, now),
            Command::Stop { survivors: false } => self.stop(now),
            Command::Stop { survivors: true } => self.stop_survivors(),
            Command::Interrupt => self.ask_interrupt(now),
            Command::Resume { client_key } => self.resume(client_key, now),
            Command::Cancel { message } => self.cancel(message, now),
        }?;
        self.pump(now);
        Ok(self.as_it_is(accepted))
    }

    /// The fold knows a message with this key; otherwise the store may.
    pub fn knows(&self, client_key: &str) -> bool {
        self.knows_message(MessageId::sent(self.state.spec.id, client_key))
    }

    /// The fold knows this message; otherwise the store may.
    pub fn knows_message(&self, message: MessageId) -> bool {
        self.queue.get(message).is_some()
    }

    /// Hands in a user message of this session that the store has, so that a command about it
    /// is answered with it.
    pub fn remember(&mut self, message: Message) {
        if message.session == self.state.spec.id && message.sent.is_some() {
            self.queue.remember(message);
        }
    }

    /// The answer with the message as the pump left it.
    fn as_it_is(&self, accepted: Accepted) -> Accepted {
        match accepted {
            Accepted::Message {
                message, replayed, ..
            } => {
                let position = self.position(message.id);
                let message = self.queue.get(message.id).cloned().map(Box::new);
                match message {
                    Some(message) => Accepted::Message {
                        message,
                        position,
                        replayed,
                    },
                    None => unreachable!("what was accepted is known until it is committed"),
                }
            }
            Accepted::Session { .. } => accepted,
        }
    }

    /// Place in the queue from 1; 0 = not waiting.
    pub fn position(&self, message: MessageId) -> u32 {
        let flight = self.flight.as_ref().map(super::Flight::message);
        if flight == Some(message) {
            return 1;
        }
        let place = self.queue.place(message);
        let place = place.map_or(0, |place| place + usize::from(flight.is_some()));
        u32::try_from(place).unwrap_or(u32::MAX)
    }

    fn send(
        &mut self,
        text: Text,
        mode: Mode,
        precondition: bool,
        images: usize,
        now: Timestamp,
    ) -> Result<Accepted, Fault> {
        check_client_key(&text.client_key)?;
        let id = MessageId::sent(self.state.spec.id, &text.client_key);
        if let Some(stored) = self.queue.get(id) {
            return Ok(replay(stored));
        }
        if mode != Mode::Queue {
            return Err(Fault::unsupported(
                "a mode other than `queue` for a program without turns",
            ));
        }
        if precondition {
            return Err(Fault::unsupported(
                "a precondition on a program without turns",
            ));
        }
        if images > 0 {
            return Err(Fault::unsupported(
                "an image for a program that reads lines",
            ));
        }
        self.accept(text, now)
    }

    /// Stores a message; it is delivered as soon as the program takes it.
    pub(super) fn accept(&mut self, text: Text, now: Timestamp) -> Result<Accepted, Fault> {
        check_client_key(&text.client_key)?;
        check_text(&text.text)?;
        self.check_takes_messages()?;
        if !self.queue.has_room(text.source, text.text.len()) {
            return Err(
                Fault::new(Reason::QueueFull, "too many messages wait in this session")
                    .with_hint("wait until some are written"),
            );
        }
        self.state.accepted += 1;
        self.state.messages += 1;
        let message = self.new_message(text, now);
        self.pending.add(&message);
        self.queue.push(message.clone());
        self.count_waiting();
        self.write_row(now);
        Ok(Accepted::Message {
            message: Box::new(message),
            position: 0,
            replayed: false,
        })
    }

    fn new_message(&self, text: Text, now: Timestamp) -> Message {
        let spec = &self.state.spec;
        // Order among messages at the same place; output there comes after all of them.
        let index = u32::try_from(self.state.accepted).unwrap_or(u32::MAX - 1);
        Message {
            id: MessageId::sent(spec.id, &text.client_key),
            session: spec.id,
            turn: self.state.open_turn().map(|turn| turn.id),
            kind: Kind::User,
            at: At {
                run: self.state.run.no,
                offset: self.state.run.consumed,
            },
            index: index.min(u32::MAX - 1),
            bytes: text.text.len() as u64,
            body: Body::Text(text.text),
            complete: true,
            created_at: now,
            updated_at: now,
            sent: Some(Sent {
                client_key: text.client_key,
                source: text.source,
                state: Delivery::Accepted,
                reason: None,
                text: None,
                delivery: None,
                sequence: self.state.accepted,
            }),
        }
    }

    fn check_takes_messages(&self) -> Result<(), Fault> {
        let ended = |why: &str| {
            let fault = Fault::new(Reason::RunEnded, why);
            let hint = format!("muster session resume {}", self.state.spec.id);
            Err(fault.with_hint(hint).with("run", self.state.run.no))
        };
        if self.has_ended() {
            return ended("the program has ended; a message does not start it again");
        }
        if self.state.is_stopping() {
            return ended("the session is being stopped");
        }
        if self.state.run.folder_missing {
            let fault = Fault::new(
                Reason::NoKeeper,
                "the folder of the run is gone, and with it the way to the program's stdin",
            );
            let hint = format!("muster session stop {}", self.state.spec.id);
            return Err(fault.with_hint(hint));
        }
        if self.state.run.stdin_closed {
            return Err(Fault::new(
                Reason::StdinClosed,
                "the program's stdin is at its end",
            ));
        }
        Ok(())
    }

    fn stop(&mut self, now: Timestamp) -> Result<Accepted, Fault> {
        if self.has_ended() {
            return Ok(told(true));
        }
        self.check_link()?;
        if !self.state.is_stopping() {
            self.state.stop = Some(StopMark {
                run: self.state.run.no,
                at: now,
            });
            self.calls.stop_stored = false;
            self.announce(now);
        }
        Ok(Accepted::Session {
            already_ended: false,
            replayed: false,
            unwritten: self.state.waiting,
        })
    }

    fn stop_survivors(&mut self) -> Result<Accepted, Fault> {
        if !self.has_ended() {
            return Err(
                Fault::new(Reason::SessionAlive, "the session has not ended")
                    .with_hint("stop it without `--survivors`"),
            );
        }
        if !self.state.run.survivors().is_empty() {
            self.check_link()?;
            self.at_once(Action::Stop {
                run: self.state.run.no,
                rungs: ladder(),
                survivors: true,
            });
        }
        Ok(told(true))
    }

    fn ask_interrupt(&mut self, now: Timestamp) -> Result<Accepted, Fault> {
        if self.has_ended() {
            return Ok(told(true));
        }
        self.check_link()?;
        if self.state.run.launch.value != Launch::Confirmed {
            return Err(Fault::new(Reason::NotReady, "the session is being started"));
        }
        self.interrupt(now);
        Ok(told(false))
    }

    fn resume(&mut self, client_key: String, now: Timestamp) -> Result<Accepted, Fault> {
        check_client_key(&client_key)?;
        if self
            .state
            .resumes
            .iter()
            .any(|resumed| resumed.client_key == client_key)
        {
            return Ok(Accepted::Session {
                already_ended: false,
                replayed: true,
                unwritten: 0,
            });
        }
        if !self.state.is_over() {
            return Err(
                Fault::new(Reason::SessionAlive, "the session has not ended")
                    .with_hint("`muster session stop` ends it"),
            );
        }
        self.check_link()?;
        self.next_run(now);
        self.state.resumes.push(Resumed {
            client_key,
            run: self.state.run.no,
        });
        let beyond = self
            .state
            .resumes
            .len()
            .saturating_sub(limits::REMEMBERED_RESUMES);
        self.state.resumes.drain(..beyond);
        Ok(told(false))
    }

    fn check_link(&self) -> Result<(), Fault> {
        if self.state.link.value.is_up() {
            return Ok(());
        }
        Err(Fault::new(
            Reason::HostUnreachable,
            "the session's host cannot be reached",
        )
        .with_hint("muster status"))
    }

    fn cancel(&mut self, id: MessageId, now: Timestamp) -> Result<Accepted, Fault> {
        let stored = self.queue.get(id).and_then(|message| message.sent.as_ref());
        let Some(state) = stored.map(|sent| sent.state) else {
            return Err(Fault::new(Reason::MessageNotFound, "no such message"));
        };
        let flying = self.flight.as_ref().map(super::Flight::message) == Some(id);
        if flying || (state.is_final() && state != Delivery::Cancelled) {
            return Err(Fault::new(
                Reason::AlreadyWritten,
                "the message waits no more",
            ));
        }
        self.finish(id, Delivery::Cancelled, None, now);
        self.known(id, state == Delivery::Cancelled)
    }

    fn known(&self, id: MessageId, replayed: bool) -> Result<Accepted, Fault> {
        let message = self.queue.get(id).cloned();
        let message = message.ok_or_else(|| Fault::new(Reason::MessageNotFound, "no such message"));
        Ok(Accepted::Message {
            message: Box::new(message?),
            position: 0,
            replayed,
        })
    }
}

fn told(already_ended: bool) -> Accepted {
    Accepted::Session {
        already_ended,
        replayed: false,
        unwritten: 0,
    }
}

/// The stored message for a repeat of its key (S14), whatever the repeat says: a client that sees another text than
/// its own used one key for two messages.
fn replay(stored: &Message) -> Accepted {
    Accepted::Message {
        message: Box::new(stored.clone()),
        position: 0,
        replayed: true,
    }
}

fn check_text(text: &str) -> Result<(), Fault> {
    if text.len() > limits::MESSAGE_TEXT_BYTES {
        let fault = Fault::new(
            Reason::MessageTooLarge,
            format!(
                "the text is longer than {} bytes",
                limits::MESSAGE_TEXT_BYTES
            ),
        );
        return Err(fault.with("bytes", text.len()));
    }
    if text.contains('\n') {
        let fault = Fault::new(
            Reason::MultilineText,
            "the program reads one line per message",
        );
        return Err(fault.with_hint("send each line as a message of its own"));
    }
    if text.contains('\0') {
        return Err(Fault::invalid("text", "it has a NUL character"));
    }
    Ok(())
}
