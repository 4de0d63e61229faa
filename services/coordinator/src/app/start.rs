//! Starting a session (S7).

use std::{collections::BTreeMap, time::Duration};

use muster_domain::{
    Fault, HostId, Reason, SessionId, TaskId,
    changeset::Versioned,
    limits,
    session::{Access, Adapter, Input, Launch, Slot, Spec, State},
    task::{New, Task, check_slot},
};

use super::{App, SessionView, TRIES, no_session, not_found};
use crate::sessions::api::NewSession;

/// What a client wants to start. Empty texts are not given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartRequest {
    /// The client's key.
    pub client_key: String,
    /// Task, by id or unique prefix.
    pub task: String,
    /// Place at the task.
    pub slot: Option<Slot>,
    /// Host, by name.
    pub host: String,
    /// Working directory.
    pub cwd: String,
    /// Who translates.
    pub adapter: Adapter,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Additions to the environment.
    pub env: BTreeMap<String, String>,
    /// Title.
    pub title: String,
    /// First message.
    pub prompt: String,
    /// What it may do.
    pub access: Access,
    /// Who starts it.
    pub source: Input,
    /// Answer after the commit.
    pub no_wait: bool,
}

/// A session that was started, or had been.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// The session.
    pub session: SessionView,
    /// A call with the same client key was made before.
    pub replayed: bool,
}

impl App {
    /// Commits a session and starts it. Answers when the host has confirmed or refused the
    /// process, at the latest after `patience`; with `no_wait` after the commit.
    ///
    /// # Errors
    /// `INVALID`, `MISSING_FIELD`, `HOST_NOT_FOUND`, `CWD_REQUIRED`, `INVALID_PATH`,
    /// `SLOT_OCCUPIED`, `TASK_NOT_FOUND`, `KEY_REUSED`, `UNSUPPORTED`, `STORE_UNAVAILABLE`.
    pub async fn start(&self, request: StartRequest, patience: Duration) -> Result<Started, Fault> {
        check(&request)?;
        let mut tries = 0;
        let (state, replayed) = loop {
            if let Some(started) = self.started_before(&request).await? {
                break (started, true);
            }
            let new = self.new_session(&request).await?;
            match self.parts.sessions.start(new).await {
                Ok(state) => break (state, false),
                // Another call with this key, or a change of the task, came first.
                Err(fault)
                    if matches!(fault.reason(), Reason::KeyReused | Reason::VersionMismatch)
                        && tries < TRIES =>
                {
                    tries += 1;
                }
                Err(fault) => return Err(fault),
            }
        };
        if !request.no_wait {
            self.launched(state.spec.id, patience).await?;
        }
        let stored = self.parts.store.session(state.spec.id).await?;
        let state = super::newest(&*self.parts.sessions, stored.unwrap_or(state));
        Ok(Started {
            session: self.views().session(state).await?,
            replayed,
        })
    }

    async fn started_before(&self, request: &StartRequest) -> Result<Option<State>, Fault> {
        let found = self
            .parts
            .store
            .session_by_client_key(&self.parts.workspace, &request.client_key)
            .await?;
        match found {
            Some(state) if state.spec.argv != request.argv => Err(Fault::new(
                Reason::KeyReused,
                "the client key was used to start another program",
            )
            .with("session", state.spec.id)),
            found => Ok(found),
        }
    }

    async fn new_session(&self, request: &StartRequest) -> Result<NewSession, Fault> {
        let now = self.now();
        let id = SessionId::new(uuid::Uuid::now_v7());
        let mut task = self.task_of(request).await?;
        occupy(&mut task.row, request.slot, id)?;
        task.row.sessions.push(id);
        let surplus = task
            .row
            .sessions
            .len()
            .saturating_sub(limits::TASK_SESSIONS);
        task.row.sessions.drain(..surplus);
        task.row.updated_at = now;
        task.row.version = task.expected + 1;
        let spec = Spec {
            id,
            workspace: self.parts.workspace.clone(),
            task: Some(task.row.id),
            slot: request.slot,
            parent: None,
            root: id,
            host: self.host_of(request).await?,
            cwd: cwd(request)?,
            adapter: request.adapter,
            argv: request.argv.clone(),
            env: request.env.clone(),
            title: title(request),
            access: request.access,
            source: request.source,
            internal: false,
            client_key: request.client_key.clone(),
            created_at: now,
        };
        Ok(NewSession {
            spec,
            task: Some(task),
            prompt: (!request.prompt.is_empty()).then(|| request.prompt.clone()),
        })
    }

    async fn task_of(&self, request: &StartRequest) -> Result<Versioned<Task>, Fault> {
        if !request.task.is_empty() {
            let row = self.task(&request.task).await?;
            return Ok(Versioned {
                expected: row.version,
                row,
            });
        }
        let id = TaskId::new(uuid::Uuid::now_v7());
        let new = New {
            title: title(request),
            // The session's own key guards both: they are committed together.
            client_key: format!("of session task {id}"),
            ..New::default()
        };
        Ok(Versioned {
            expected: 0,
            row: new.create(id, self.parts.workspace.clone(), self.now())?,
        })
    }

    async fn host_of(&self, request: &StartRequest) -> Result<HostId, Fault> {
        let name = if request.host.is_empty() {
            &self.parts.workstation
        } else {
            &request.host
        };
        let host = self.parts.store.host_by_name(name).await?;
        host.map(|host| host.id)
            .ok_or_else(|| not_found(Reason::HostNotFound, "host", name))
    }

    /// Waits until it is committed that the start was confirmed or refused, at most
    /// `patience`.
    async fn launched(&self, id: SessionId, patience: Duration) -> Result<(), Fault> {
        let mut heads = self.parts.store.heads(&self.parts.workspace);
        let launched = async {
            loop {
                heads.borrow_and_update();
                let stored = self.parts.store.session(id).await?;
                let waits = stored.is_some_and(|state| state.run.launch.value == Launch::Requested);
                if !waits || heads.changed().await.is_err() {
                    return Ok(());
                }
            }
        };
        let launched = self.parts.clock.timeout(patience, launched).await;
        launched.unwrap_or_else(|_| {
            tracing::info!(session = %id, "the start was not confirmed in time");
            Ok(())
        })
    }

    /// The state of a session that a client names, by id or unique prefix.
    pub(super) async fn find(&self, text: &str) -> Result<State, Fault> {
        super::check_prefix("session", text)?;
        let id = match text.parse() {
            Ok(id) => id,
            Err(_) => {
                let found = self
                    .parts
                    .store
                    .sessions_by_prefix(&self.parts.workspace, text, super::CANDIDATES)
                    .await?;
                super::only(&found, text, Reason::SessionNotFound, "session")?
            }
        };
        let state = self.parts.store.session(id).await?;
        let state = state.filter(|state| state.spec.workspace == self.parts.workspace);
        let state = state.ok_or_else(|| no_session(text))?;
        Ok(super::newest(&*self.parts.sessions, state))
    }
}

fn check(request: &StartRequest) -> Result<(), Fault> {
    if request.client_key.is_empty() {
        return Err(Fault::missing("client_key"));
    }
    if request.client_key.len() > limits::CLIENT_KEY_BYTES {
        return Err(Fault::invalid(
            "client_key",
            format!("at most {} bytes", limits::CLIENT_KEY_BYTES),
        ));
    }
    if request.argv.first().is_none_or(String::is_empty) {
        return Err(Fault::missing("argv").with_hint("name the program to run"));
    }
    let env = request.env.iter();
    let bytes = request
        .argv
        .iter()
        .map(|word| word.len() + 1)
        .sum::<usize>()
        + env
            .map(|(name, value)| name.len() + value.len() + 2)
            .sum::<usize>();
    if bytes > limits::ARGV_BYTES {
        return Err(Fault::invalid(
            "argv",
            format!("with the environment at most {} bytes", limits::ARGV_BYTES),
        ));
    }
    if request.argv.iter().any(|word| word.contains('\0')) {
        return Err(Fault::invalid("argv", "a NUL character cannot be passed"));
    }
    for (name, value) in &request.env {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(Fault::invalid("env", "not a name and a value"));
        }
        if name.starts_with("MUSTER_") {
            return Err(Fault::invalid("env", format!("`{name}` belongs to Muster")));
        }
    }
    if request.access == Access::Readonly {
        // Nothing would keep a program that knows no access levels from writing (S11).
        return Err(Fault::unsupported(
            "readonly access for a program without an adapter",
        ));
    }
    if request.slot.is_some() && request.task.is_empty() {
        return Err(Fault::missing("task_id").with_hint("a slot is one of a task"));
    }
    Ok(())
}

/// S7: explicit, else nothing that this version knows.
fn cwd(request: &StartRequest) -> Result<String, Fault> {
    let cwd = &request.cwd;
    if cwd.is_empty() {
        return Err(Fault::new(
            Reason::CwdRequired,
            "no working directory is known for this session",
        )
        .with_hint("give one with `--cwd`"));
    }
    let absolute = cwd.starts_with('/') || cwd == "~" || cwd.starts_with("~/");
    if !absolute || cwd.contains('\0') || cwd.len() > limits::PATH_BYTES {
        return Err(Fault::new(
            Reason::InvalidPath,
            "the working directory must be an absolute path, or begin with `~/`",
        )
        .with("field", "cwd"));
    }
    Ok(cwd.clone())
}

/// Explicit, else the prompt's first line, else the program's name (S1).
fn title(request: &StartRequest) -> String {
    let line = |text: &str| {
        let line = text.lines().map(str::trim).find(|line| !line.is_empty());
        let clean = line.unwrap_or_default().chars().map(|c| match c {
            c if c.is_control() => ' ',
            c => c,
        });
        let cut: String = clean.take(limits::DERIVED_TITLE_CHARS).collect();
        cut.trim().to_owned()
    };
    let program = request.argv.first().map_or("", String::as_str);
    let program = program.rsplit('/').next().unwrap_or(program);
    [&request.title, &request.prompt, program]
        .into_iter()
        .map(line)
        .find(|title| !title.is_empty())
        .unwrap_or_else(|| "session".to_owned())
}

fn occupy(task: &mut Task, slot: Option<Slot>, session: SessionId) -> Result<(), Fault> {
    let Some(slot) = slot else { return Ok(()) };
    check_slot(task, slot, session)
        .map_err(|fault| fault.with_hint("stop that session, or start without a slot"))?;
    let place = match slot {
        Slot::Plan => &mut task.plan_session,
        Slot::Exec => &mut task.exec_session,
    };
    *place = Some(session);
    Ok(())
}
