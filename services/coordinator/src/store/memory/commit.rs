//! Checks a changeset, then writes it: after the checks nothing can fail.

use muster_domain::{
    SessionId, Timestamp,
    changeset::{Changeset, Committed, Conflict, Versioned},
    host::Host,
    message::Message,
};

use super::{super::model::no_workspace, Rows};

impl Rows {
    pub(super) fn commit(
        &mut self,
        changeset: Changeset,
        now: Timestamp,
    ) -> Result<Committed, Conflict> {
        if self.closed {
            return Err(Conflict::Unavailable("the store is closed".to_owned()));
        }
        self.check_rows(&changeset)?;
        self.check_hosts(&changeset.hosts)?;
        self.check_references(&changeset)?;
        self.check_messages(&changeset.messages)?;
        if !self.spaces.contains_key(&changeset.workspace) {
            return Err(Conflict::Unavailable(no_workspace(&changeset.workspace)));
        }
        Ok(self.write(changeset, now))
    }

    fn check_rows(&self, changeset: &Changeset) -> Result<(), Conflict> {
        if let Some(session) = &changeset.session {
            let spec = &session.row.spec;
            let found = self.sessions.get(&spec.id).map_or(0, |row| row.0);
            check_version("session", session, found)?;
            let taken = self.sessions.values().any(|(_, other)| {
                other.spec.id != spec.id
                    && other.spec.workspace == spec.workspace
                    && same_key(&other.spec.client_key, &spec.client_key)
            });
            refuse_if(taken)?;
        }
        for task in &changeset.tasks {
            let row = &task.row;
            let found = self.tasks.get(&row.id).map_or(0, |row| row.0);
            check_version("task", task, found)?;
            let taken = self.tasks.values().any(|(_, other)| {
                other.id != row.id
                    && other.workspace == row.workspace
                    && same_key(&other.client_key, &row.client_key)
            });
            refuse_if(taken)?;
        }
        Ok(())
    }

    fn check_hosts(&self, hosts: &[Host]) -> Result<(), Conflict> {
        for host in hosts {
            let mut others = self.hosts.values();
            refuse_if(others.any(|other| other.id != host.id && other.name == host.name))?;
        }
        Ok(())
    }

    fn check_messages(&self, messages: &[Message]) -> Result<(), Conflict> {
        for message in messages {
            let Some(sent) = &message.sent else { continue };
            let taken = self.messages.values().any(|other| {
                other.id != message.id
                    && other.session == message.session
                    && other
                        .sent
                        .as_ref()
                        .is_some_and(|other| same_key(&other.client_key, &sent.client_key))
            });
            refuse_if(taken)?;
        }
        Ok(())
    }

    /// What rows point to must be there, or come with them.
    fn check_references(&self, changeset: &Changeset) -> Result<(), Conflict> {
        let new = changeset
            .session
            .as_ref()
            .map(|session| session.row.spec.id);
        let known = |id: SessionId| Some(id) == new || self.sessions.contains_key(&id);
        let turns = changeset.turns.iter().map(|(session, _)| *session);
        let messages = changeset.messages.iter().map(|message| message.session);
        let deliveries = changeset.deliveries.iter().map(|delivery| delivery.session);
        for session in turns.chain(messages).chain(deliveries) {
            if !known(session) {
                return Err(Conflict::Unavailable(format!("no session {session}")));
            }
        }
        for chunk in &changeset.chunks {
            let here = changeset
                .messages
                .iter()
                .any(|message| message.id == chunk.message);
            if !here && !self.messages.contains_key(&chunk.message) {
                return Err(Conflict::Unavailable(format!(
                    "no message {}",
                    chunk.message
                )));
            }
        }
        Ok(())
    }

    fn write(&mut self, changeset: Changeset, now: Timestamp) -> Committed {
        if let Some(Versioned { expected, row }) = changeset.session {
            self.sessions.insert(row.spec.id, (expected + 1, row));
        }
        for Versioned { expected, row } in changeset.tasks {
            self.tasks.insert(row.id, (expected + 1, row));
        }
        let hosts = changeset.hosts.into_iter();
        self.hosts.extend(hosts.map(|host| (host.id, host)));
        let turns = changeset.turns.into_iter();
        self.turns
            .extend(turns.map(|(session, turn)| (turn.id, (session, turn))));
        let messages = changeset.messages.into_iter();
        self.messages
            .extend(messages.map(|message| (message.id, message)));
        for chunk in changeset.chunks {
            let place = (chunk.message, chunk.from);
            self.chunks.entry(place).or_insert(chunk.text);
        }
        let deliveries = changeset.deliveries.into_iter();
        self.deliveries
            .extend(deliveries.map(|delivery| (delivery.id, delivery)));
        let space = self.spaces.entry(changeset.workspace).or_default();
        if !changeset.events.is_empty() {
            space.head += 1;
            space.outbox.insert(space.head, (now, changeset.events));
        }
        Committed {
            revision: space.head,
        }
    }
}

fn check_version<T>(what: &'static str, row: &Versioned<T>, found: u64) -> Result<(), Conflict> {
    if found == row.expected {
        return Ok(());
    }
    Err(Conflict::Version {
        what,
        expected: row.expected,
        found,
    })
}

fn refuse_if(taken: bool) -> Result<(), Conflict> {
    if taken {
        return Err(Conflict::KeyTaken);
    }
    Ok(())
}

/// Rows made without a client key have none that could be taken.
fn same_key(one: &str, other: &str) -> bool {
    !one.is_empty() && one == other
}
