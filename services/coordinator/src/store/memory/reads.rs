//! Reads of sessions, messages, tasks and hosts.

use std::cmp::Reverse;

use async_trait::async_trait;
use muster_domain::{
    HostId, MessageId, SessionId, TaskId, WorkspaceId,
    delivery::Progress,
    host::Host,
    limits::{PAGE_DEFAULT, PAGE_MAX},
    message::Message,
    page::{Page, Request},
    session::{State, Turn},
    task::{Phase, Task},
};

use super::{
    super::{
        Hosts, Messages, Result, SessionFilter, SessionSnapshot, Sessions, StoredSession, Tasks,
        model::{self, Place, live, waits},
        token,
    },
    MemoryStore, Rows, page_of, weight,
};

#[async_trait]
impl Sessions for MemoryStore {
    async fn load(&self, id: SessionId) -> Result<Option<StoredSession>> {
        let rows = self.read()?;
        let Some((_, state)) = rows.sessions.get(&id) else {
            return Ok(None);
        };
        let mut waiting: Vec<Message> = rows
            .messages_of(id)
            .into_iter()
            .filter(|message| waits(message))
            .map(|message| rows.whole(message))
            .collect();
        waiting.sort_by_key(|message| {
            let sequence = message.sent.as_ref().map_or(0, |sent| sent.sequence);
            (sequence, message.id)
        });
        let mut deliveries: Vec<_> = rows
            .deliveries
            .values()
            .filter(|delivery| delivery.session == id && delivery.progress == Progress::Committed)
            .cloned()
            .collect();
        deliveries.sort_by_key(|delivery| (delivery.created_at, delivery.id));
        let growing = rows
            .messages_of(id)
            .into_iter()
            .rfind(|message| !message.complete)
            .map(|message| rows.whole(message));
        Ok(Some(StoredSession {
            state: state.clone(),
            waiting,
            deliveries,
            growing,
        }))
    }

    async fn session(&self, id: SessionId) -> Result<Option<State>> {
        Ok(self.read()?.sessions.get(&id).map(|row| row.1.clone()))
    }

    async fn sessions_by_prefix(
        &self,
        workspace: &WorkspaceId,
        prefix: &str,
        limit: u32,
    ) -> Result<Vec<SessionId>> {
        let rows = self.read()?;
        let here = rows
            .sessions
            .values()
            .filter(|(_, state)| state.spec.workspace == *workspace);
        let ids = here.map(|(_, state)| state.spec.id);
        Ok(ids
            .filter(|id| id.to_string().starts_with(prefix))
            .take(limit as usize)
            .collect())
    }

    async fn session_by_client_key(
        &self,
        workspace: &WorkspaceId,
        key: &str,
    ) -> Result<Option<State>> {
        let rows = self.read()?;
        let found = rows.sessions.values().find(|(_, state)| {
            state.spec.workspace == *workspace && !key.is_empty() && state.spec.client_key == key
        });
        Ok(found.map(|(_, state)| state.clone()))
    }

    async fn sessions(
        &self,
        workspace: &WorkspaceId,
        filter: SessionFilter,
        page: &Request,
    ) -> Result<Page<State>> {
        let list = model::sessions_list(workspace, filter);
        let after = newest_first_key::<SessionId>(&list, &page.token)?;
        let rows = self.read()?;
        let key = |state: &State| Reverse((state.spec.created_at.as_micros(), state.spec.id));
        let mut states: Vec<&State> = rows
            .sessions
            .values()
            .map(|(_, state)| state)
            .filter(|state| state.spec.workspace == *workspace && !state.archived)
            .filter(|state| filter.internal || !state.spec.internal)
            .filter(|state| !filter.live || live(state))
            .filter(|state| filter.task.is_none() || state.spec.task == filter.task)
            .filter(|state| after.is_none_or(|after| key(state) > Reverse(after)))
            .collect();
        states.sort_by_key(|state| key(state));
        let limit = page.rows(PAGE_DEFAULT, PAGE_MAX);
        let (taken, more) = page_of(states.into_iter(), limit, weight);
        let next = taken.last().filter(|_| more).map(|state| {
            let created_at = state.spec.created_at.as_micros().to_string();
            token::make(&list, &[created_at, state.spec.id.to_string()])
        });
        let items = taken.into_iter().cloned().collect();
        Ok(Page { items, next })
    }

    async fn live_sessions(&self, workspace: &WorkspaceId) -> Result<Vec<SessionId>> {
        let rows = self.read()?;
        let mut states: Vec<_> = rows
            .sessions
            .values()
            .map(|(_, state)| state)
            .filter(|state| state.spec.workspace == *workspace && live(state))
            .map(|state| (state.spec.created_at, state.spec.id))
            .collect();
        states.sort_unstable();
        Ok(states.into_iter().map(|(_, id)| id).collect())
    }

    async fn turns(&self, session: SessionId, limit: u32) -> Result<Vec<Turn>> {
        let rows = self.read()?;
        let mut turns: Vec<_> = rows
            .turns
            .values()
            .filter(|(of, _)| *of == session)
            .map(|(_, turn)| turn.clone())
            .collect();
        turns.sort_by_key(|turn| Reverse((turn.began, turn.began_at, turn.id)));
        turns.truncate(limit.min(PAGE_MAX) as usize);
        Ok(turns)
    }

    async fn session_snapshot(
        &self,
        session: SessionId,
        limit: u32,
    ) -> Result<Option<SessionSnapshot>> {
        let rows = self.read()?;
        let Some((_, state)) = rows.sessions.get(&session) else {
            return Ok(None);
        };
        let newest_first = rows.messages_of(session).into_iter().rev();
        let whole = newest_first.map(|message| rows.whole(message));
        let limit = limit.min(PAGE_MAX);
        let (mut messages, _) = page_of(whole.take(limit as usize), limit, weight);
        messages.reverse();
        let space = rows.spaces.get(&state.spec.workspace);
        Ok(Some(SessionSnapshot {
            revision: space.map_or(0, |space| space.head),
            state: state.clone(),
            messages,
        }))
    }
}

impl Rows {
    /// The messages of a session in their order.
    fn messages_of(&self, session: SessionId) -> Vec<&Message> {
        let mut messages: Vec<_> = self
            .messages
            .values()
            .filter(|message| message.session == session)
            .collect();
        messages.sort_by_key(|message| Place::of(message));
        messages
    }
}

#[async_trait]
impl Messages for MemoryStore {
    async fn message(&self, id: MessageId) -> Result<Option<Message>> {
        let rows = self.read()?;
        Ok(rows.messages.get(&id).map(|message| rows.whole(message)))
    }

    async fn message_by_client_key(
        &self,
        session: SessionId,
        key: &str,
    ) -> Result<Option<Message>> {
        let rows = self.read()?;
        let found = rows.messages.values().find(|message| {
            let sent = message.sent.as_ref();
            message.session == session
                && !key.is_empty()
                && sent.is_some_and(|sent| sent.client_key == key)
        });
        Ok(found.map(|message| rows.whole(message)))
    }

    async fn said_last(&self, session: SessionId, run: u32, bytes: u64) -> Result<Vec<Message>> {
        let rows = self.read()?;
        let sequence = |message: &Message| message.sent.as_ref().map_or(0, |sent| sent.sequence);
        let mut said: Vec<_> = rows
            .messages
            .values()
            .filter(|message| message.session == session && message.at.run == run)
            .filter(|message| sequence(message) > 0)
            .cloned()
            .collect();
        said.sort_by_key(|message| std::cmp::Reverse(sequence(message)));
        let mut left = bytes;
        let wanted = said.into_iter().take_while(|message| {
            let wanted = left > 0;
            left = left.saturating_sub(message.bytes + 1);
            wanted
        });
        Ok(wanted.collect())
    }

    async fn messages(&self, session: SessionId, page: &Request) -> Result<Page<Message>> {
        let list = model::messages_list(session);
        let after = model::place_of_token(token::read::<5>(&list, &page.token)?)?;
        let rows = self.read()?;
        let rest = rows
            .messages_of(session)
            .into_iter()
            .filter(|message| after.is_none_or(|after| Place::of(message) > after));
        let whole = rest.map(|message| rows.whole(message));
        let (items, more) = page_of(whole, page.rows(PAGE_DEFAULT, PAGE_MAX), weight);
        let next = items
            .last()
            .filter(|_| more)
            .map(|last| token::make(&list, &model::place_token(Place::of(last))));
        Ok(Page { items, next })
    }
}

#[async_trait]
impl Tasks for MemoryStore {
    async fn task(&self, id: TaskId) -> Result<Option<Task>> {
        Ok(self.read()?.tasks.get(&id).map(|row| row.1.clone()))
    }

    async fn tasks_by_prefix(
        &self,
        workspace: &WorkspaceId,
        prefix: &str,
        limit: u32,
    ) -> Result<Vec<TaskId>> {
        let rows = self.read()?;
        let here = rows
            .tasks
            .values()
            .filter(|(_, task)| task.workspace == *workspace);
        let ids = here.map(|(_, task)| task.id);
        Ok(ids
            .filter(|id| id.to_string().starts_with(prefix))
            .take(limit as usize)
            .collect())
    }

    async fn task_by_client_key(&self, workspace: &WorkspaceId, key: &str) -> Result<Option<Task>> {
        let rows = self.read()?;
        let found = rows.tasks.values().find(|(_, task)| {
            task.workspace == *workspace && !key.is_empty() && task.client_key == key
        });
        Ok(found.map(|(_, task)| task.clone()))
    }

    async fn tasks(
        &self,
        workspace: &WorkspaceId,
        phase: Option<&Phase>,
        page: &Request,
    ) -> Result<Page<Task>> {
        let list = model::tasks_list(workspace, phase);
        let after = newest_first_key::<TaskId>(&list, &page.token)?;
        let rows = self.read()?;
        let key = |task: &Task| Reverse((task.created_at.as_micros(), task.id));
        let mut tasks: Vec<&Task> = rows
            .tasks
            .values()
            .map(|(_, task)| task)
            .filter(|task| task.workspace == *workspace)
            .filter(|task| phase.is_none_or(|phase| task.phase == *phase))
            .filter(|task| after.is_none_or(|after| key(task) > Reverse(after)))
            .collect();
        tasks.sort_by_key(|task| key(task));
        let limit = page.rows(PAGE_DEFAULT, PAGE_MAX);
        let (taken, more) = page_of(tasks.into_iter(), limit, weight);
        let next = taken.last().filter(|_| more).map(|task| {
            let created_at = task.created_at.as_micros().to_string();
            token::make(&list, &[created_at, task.id.to_string()])
        });
        let items = taken.into_iter().cloned().collect();
        Ok(Page { items, next })
    }
}

/// Where a list that shows the newest first goes on.
fn newest_first_key<Id: std::str::FromStr>(list: &str, text: &str) -> Result<Option<(i64, Id)>> {
    let Some([created_at, id]) = token::read::<2>(list, text)? else {
        return Ok(None);
    };
    Ok(Some((token::part(&created_at)?, token::part(&id)?)))
}

#[async_trait]
impl Hosts for MemoryStore {
    async fn hosts(&self) -> Result<Vec<Host>> {
        let mut hosts: Vec<Host> = self.read()?.hosts.values().cloned().collect();
        hosts.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(hosts)
    }

    async fn host(&self, id: HostId) -> Result<Option<Host>> {
        Ok(self.read()?.hosts.get(&id).cloned())
    }

    async fn host_by_name(&self, name: &str) -> Result<Option<Host>> {
        let rows = self.read()?;
        Ok(rows.hosts.values().find(|host| host.name == name).cloned())
    }
}
