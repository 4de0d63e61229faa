//! What use cases ask of actors.

use std::sync::Arc;

use async_trait::async_trait;
use muster_domain::{
    Fault, HostId, MessageId, Reason, SessionId,
    message::Message,
    session::{
        Fold, State,
        fold::{Accepted, Command, Fact, Mode, Text},
    },
    task::check_slot,
};
use tokio::sync::{oneshot, watch};

use super::{
    Sessions,
    actor::{Place, Seed, link_of},
    api::{Control, Live, NewSession, SendMode, Sending, SentMessage, SessionsApi},
    owner,
    registry::{Answer, Request},
    wall::Wall,
};

/// How often a command is handed in anew when the actor ended just then.
const TRIES: u32 = 5;

#[async_trait]
impl SessionsApi for Sessions {
    async fn start(&self, start: NewSession) -> Result<State, Fault> {
        self.check_up()?;
        let id = start.spec.id;
        let host = self.shared.hosts.get(start.spec.host);
        let host = host.ok_or_else(|| Fault::new(Reason::HostNotFound, "there is no such host"))?;
        let now = Wall::new(self.shared.clock.clone()).now();
        let prompt = start.prompt.map(|text| Text {
            client_key: start.spec.client_key.clone(),
            text,
            source: start.spec.source,
        });
        let mut fold = Fold::start(start.spec, prompt, now)?;
        fold.input(Fact::Link(link_of(&host)), now);
        let (reply, answer) = oneshot::channel();
        let seed = Seed::New {
            fold: Box::new(fold),
            task: start.task.map(Box::new),
            reply,
        };
        let fresh = self.shared.registry.insert(id, |entry, inbox| {
            let place = Place::new(&self.shared, id, entry);
            self.shared.spawn(place, inbox, seed);
        });
        if !fresh {
            return Err(Fault::new(Reason::KeyReused, "the session exists"));
        }
        match answer.await {
            Ok(result) => result,
            Err(_) => Err(self.gone()),
        }
    }

    async fn send(&self, session: SessionId, sending: Sending) -> Result<SentMessage, Fault> {
        let command = Command::Send {
            text: Text {
                client_key: sending.client_key,
                text: sending.text,
                source: sending.source,
            },
            mode: match sending.mode {
                SendMode::Queue => Mode::Queue,
                SendMode::AfterTurn => Mode::AfterTurn,
                SendMode::Interrupt => Mode::Interrupt,
            },
            if_turn: Some(sending.if_turn).filter(|turn| !turn.is_empty()),
            images: sending.images,
        };
        let answer = self.ask(session, command, None).await?;
        let (message, position, replayed) = message(answer)?;
        Ok(SentMessage {
            message,
            position,
            replayed,
        })
    }

    async fn cancel(&self, session: SessionId, id: MessageId) -> Result<Message, Fault> {
        let command = Command::Cancel { message: id };
        let answer = self.ask(session, command, None).await?;
        Ok(message(answer)?.0)
    }

    async fn stop(&self, session: SessionId, survivors: bool) -> Result<Control, Fault> {
        self.control(session, Command::Stop { survivors }).await
    }

    async fn interrupt(&self, session: SessionId) -> Result<Control, Fault> {
        self.control(session, Command::Interrupt).await
    }

    async fn resume(&self, session: SessionId, client_key: String) -> Result<Control, Fault> {
        self.check_up()?;
        let state = self.state(session).await?;
        let taken = |key: &str| state.resumes.iter().any(|done| done.client_key == key);
        let free_after = if state.is_over() && !taken(&client_key) {
            let host = self.shared.hosts.get(state.spec.host);
            let host = host.filter(|host| host.link().borrow().is_up());
            let Some(host) = host else {
                return Err(unreachable_host());
            };
            self.check_slot(&state).await?;
            owner::confirm_free(&*host, &state).await?;
            Some(state.run.no)
        } else {
            None
        };
        let command = Command::Resume { client_key };
        control(self.ask(session, command, free_after).await?)
    }

    fn live(&self, session: SessionId) -> Option<watch::Receiver<Arc<Live>>> {
        self.shared.registry.get(session)?.live()
    }

    fn count(&self, host: HostId) -> u32 {
        self.shared.registry.count(host)
    }
}

impl Sessions {
    /// Has the session's actor take a command; answered after its commit.
    pub(super) async fn ask(
        &self,
        session: SessionId,
        command: Command,
        free_after: Option<u32>,
    ) -> Result<Answer, Fault> {
        for _ in 0..TRIES {
            self.check_up()?;
            let entry = self.shared.entry(session);
            let (reply, answer) = oneshot::channel();
            let request = Request {
                command: command.clone(),
                free_after,
                reply,
            };
            if entry.send(request).await
                && let Ok(result) = answer.await
            {
                return result;
            }
        }
        Err(self.gone())
    }

    /// The session as committed.
    pub(super) async fn state(&self, session: SessionId) -> Result<State, Fault> {
        if let Some(live) = self.live(session) {
            return Ok(live.borrow().state.clone());
        }
        let stored = self.shared.store.session(session).await?;
        stored.ok_or_else(|| not_found(session))
    }

    /// The session's slot is free, or its own; the commit that takes it looks again.
    async fn check_slot(&self, state: &State) -> Result<(), Fault> {
        let Some((task, slot)) = state.spec.task.zip(state.spec.slot) else {
            return Ok(());
        };
        match self.shared.store.task(task).await? {
            Some(task) => check_slot(&task, slot, state.spec.id)
                .map_err(|fault| fault.with_hint("stop that session, then resume this one")),
            None => Ok(()),
        }
    }

    fn check_up(&self) -> Result<(), Fault> {
        if self.shared.tasks.is_cancelled() {
            return Err(shutting_down());
        }
        Ok(())
    }

    /// The actor ended without an answer.
    fn gone(&self) -> Fault {
        match self.check_up() {
            Err(fault) => fault,
            Ok(()) => Fault::internal("the session's actor ended without an answer"),
        }
    }
}

pub(super) fn not_found(session: SessionId) -> Fault {
    let text = format!("there is no session `{session}`");
    Fault::new(Reason::SessionNotFound, text).with("id", session)
}

fn shutting_down() -> Fault {
    Fault::new(Reason::ShuttingDown, "the coordinator is ending")
}

pub(super) fn unreachable_host() -> Fault {
    Fault::new(
        Reason::HostUnreachable,
        "the session's host cannot be reached",
    )
    .with_hint("muster status")
}

fn message(answer: Answer) -> Result<(Message, u32, bool), Fault> {
    match answer.accepted {
        Accepted::Message {
            message,
            position,
            replayed,
        } => Ok((*message, position, replayed)),
        Accepted::Session { .. } => Err(Fault::internal("a message was answered as a control")),
    }
}

pub(super) fn control(answer: Answer) -> Result<Control, Fault> {
    match answer.accepted {
        Accepted::Session {
            already_ended,
            replayed,
            unwritten,
        } => Ok(Control {
            state: answer.state,
            already_ended,
            replayed,
            unwritten,
            recorded: true,
        }),
        Accepted::Message { .. } => Err(Fault::internal("a control was answered as a message")),
    }
}
