//! Sessions.

use muster_domain::{
    Fault, Timestamp,
    session::{
        self, Adapter, Attention, Link, LostReason, Process, Slot, Source, State, explain::Fact,
    },
    task::Phase,
};

use super::{enums, feed, id, time};
use crate::public;

/// What a session's row does not know of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context<'a> {
    /// Name of its host.
    pub host: &'a str,
    /// The host's link now; shown for sessions that are over. The others know theirs.
    pub link: Link,
    /// Phase of its task.
    pub phase: Option<&'a Phase>,
    /// What its open interactions ask for; `None` without any.
    pub attention: Option<Attention>,
    /// Now, by the coordinator's clock.
    pub now: Timestamp,
}

/// The wire form of a session, with the status that its states amount to. Of its
/// environment only the names.
pub fn session(state: &State, context: Context<'_>) -> public::Session {
    let spec = &state.spec;
    let attention = context.attention.unwrap_or_else(|| state.attention());
    let (status, since) = session::status(state, attention, context.now);
    let link = if state.is_over() {
        context.link
    } else {
        state.link.value
    };
    let mut wire = public::Session {
        id: spec.id.to_string(),
        workspace_id: spec.workspace.to_string(),
        task_id: id::id_text(spec.task),
        slot: spec.slot.map_or("", slot_word).to_owned(),
        host: context.host.to_owned(),
        cwd: spec.cwd.clone(),
        adapter: adapter_word(spec.adapter).to_owned(),
        argv: spec.argv.clone(),
        title: spec.title.clone(),
        access: enums::number::<public::AccessLevel>(spec.access),
        source: enums::number::<public::SessionSource>(spec.source),
        env_names: spec.env.keys().cloned().collect(),
        link: enums::number::<public::LinkState>(link),
        attention: enums::number::<public::Attention>(attention),
        task_phase: context
            .phase
            .map_or(0, |phase| public::TaskPhase::from(phase).into()),
        status: enums::number::<public::SessionStatus>(status),
        status_since: Some(time::timestamp(since)),
        stop_requested: state.is_stopping(),
        message_count: state.messages,
        queued_messages: state.waiting,
        offers: session::offers(state, context.now)
            .iter()
            .map(|offer| offer.as_str().to_owned())
            .collect(),
        created_at: Some(time::timestamp(spec.created_at)),
        last_activity_at: Some(time::timestamp(state.last_activity)),
        version: state.version,
        internal: spec.internal,
        parent_id: id::id_text(spec.parent),
        root_id: spec.root.to_string(),
        archived: state.archived,
        ..public::Session::default()
    };
    show_run(&mut wire, state);
    show_turn(&mut wire, state);
    wire
}

fn show_run(wire: &mut public::Session, state: &State) {
    let run = &state.run;
    let process = run.process.value;
    wire.process = public::ProcessState::from(process).into();
    wire.run = run.no;
    wire.cursor = Some(public::OutputCursor {
        run: run.no,
        offset: run.consumed,
    });
    wire.pid = run.identity.as_ref().map_or(0, |identity| identity.pid);
    wire.keeper_pid = run.keeper.as_ref().map_or(0, |identity| identity.pid);
    wire.started_at = time::timestamp_opt(run.started_at);
    wire.late_bytes = run.late_bytes;
    wire.damaged_lines = run.damaged_lines;
    wire.run_folder_missing = run.folder_missing;
    wire.exit_record_damaged = run.exit_damaged;
    if let Some(damage) = &run.damage {
        damage.value.as_str().clone_into(&mut wire.damage);
    }
    let survivors = run.survivors().iter().map(|survivor| public::Survivor {
        pid: survivor.pid,
        start_ticks: survivor.ticks,
    });
    wire.survivors = survivors.collect();
    if let Process::Lost(reason) = process {
        wire.lost_reason = lost_word(reason).to_owned();
        wire.ended_at = Some(time::timestamp(run.process.at));
    }
    if let Some(failure) = &run.failure {
        wire.failure_reason.clone_from(&failure.reason);
        wire.failure_text.clone_from(&failure.text);
    }
    if let Some(exit) = &run.exit {
        wire.exit_code = exit.code;
        wire.exit_signal = exit.signal;
        wire.stderr_tail.clone_from(&exit.stderr_tail);
        wire.ended_at = Some(time::timestamp(exit.at));
    }
}

fn show_turn(wire: &mut public::Session, state: &State) {
    let turn = if state.open_turn().is_some() {
        public::TurnState::Active
    } else {
        public::TurnState::Idle
    };
    wire.turn = turn.into();
    if let Some(turn) = &state.turn {
        wire.turn_id = turn.id.to_string();
        let outcome = turn.outcome.as_ref();
        wire.turn_outcome = outcome
            .map_or("", |outcome| feed::outcome_word(outcome.value))
            .to_owned();
    }
}

impl From<Process> for public::ProcessState {
    fn from(process: Process) -> Self {
        match process {
            Process::Starting => Self::Starting,
            Process::Alive => Self::Alive,
            Process::Exited => Self::Exited,
            Process::Lost(_) => Self::Lost,
            Process::Unknown => Self::Unknown,
        }
    }
}

impl From<&Fact> for public::Fact {
    fn from(fact: &Fact) -> Self {
        let (source, offset) = match fact.source {
            Source::File(offset) => ("file", Some(offset)),
            Source::Process => ("process", None),
            Source::Link => ("link", None),
            Source::Clock => ("clock", None),
            Source::User => ("user", None),
        };
        Self {
            name: fact.name.to_owned(),
            value: fact.value.clone(),
            source: source.to_owned(),
            offset,
            observed_at: Some(time::timestamp(fact.at)),
            rule: fact.rule.clone(),
        }
    }
}

/// The word of a slot.
pub fn slot_word(slot: Slot) -> &'static str {
    match slot {
        Slot::Plan => "plan",
        Slot::Exec => "exec",
    }
}

/// The slot with this word; empty = none.
///
/// # Errors
/// `INVALID`.
pub fn slot_opt(word: &str) -> Result<Option<Slot>, Fault> {
    match word {
        "" => Ok(None),
        "plan" => Ok(Some(Slot::Plan)),
        "exec" => Ok(Some(Slot::Exec)),
        _ => Err(Fault::invalid("slot", "neither `plan` nor `exec`")),
    }
}

/// The word of an adapter.
pub fn adapter_word(adapter: Adapter) -> &'static str {
    match adapter {
        Adapter::Generic => "generic",
    }
}

/// The adapter with this word; empty = generic.
///
/// # Errors
/// `UNSUPPORTED`.
pub fn adapter(word: &str) -> Result<Adapter, Fault> {
    match word {
        "" | "generic" => Ok(Adapter::Generic),
        other => {
            let shown: String = other.chars().take(64).collect();
            Err(Fault::unsupported(format!("adapter `{shown}`"))
                .with_hint("this version has the adapter `generic`"))
        }
    }
}

fn lost_word(reason: LostReason) -> &'static str {
    match reason {
        LostReason::Keeper => "keeper",
        LostReason::Boot => "boot",
        LostReason::Folder => "folder",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use muster_domain::{
        WorkspaceId,
        session::{Access, Exit, Identity, Input, Launch, Observed, Run, Spec},
    };

    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(9_000_000);

    fn observed<T>(value: T) -> Observed<T> {
        Observed::new(value, Source::Process, Timestamp::from_micros(5), "test")
    }

    fn spec() -> Spec {
        let id = "0190b5d4-6a3e-7c11-9a2b-0123456789ab".parse().unwrap();
        Spec {
            id,
            workspace: WorkspaceId::main(),
            task: None,
            slot: Some(Slot::Exec),
            parent: None,
            root: id,
            host: "0190b5d4-6a3e-7c11-9a2b-0123456789ac".parse().unwrap(),
            cwd: "/w".to_owned(),
            adapter: Adapter::Generic,
            argv: vec!["true".to_owned()],
            env: BTreeMap::from([("TOKEN".to_owned(), "hunter2".to_owned())]),
            title: "t".to_owned(),
            access: Access::Workspace,
            source: Input::Cli,
            internal: false,
            client_key: "k".to_owned(),
            created_at: Timestamp::from_micros(1),
        }
    }

    fn state(process: Process) -> State {
        State {
            spec: spec(),
            version: 3,
            link: observed(Link::Connected),
            run: Run {
                no: 1,
                launch: observed(Launch::Confirmed),
                process: observed(process),
                identity: Some(Identity {
                    boot: "b".to_owned(),
                    pid: 42,
                    ticks: 1,
                }),
                keeper: None,
                stdin_closed: false,
                consumed: 10,
                cursor: Vec::new(),
                exit: None,
                failure: None,
                cwd_exists: true,
                started_at: None,
                outputs: 0,
                damaged_lines: 0,
                late_bytes: 0,
                damage: None,
                partial: Vec::new(),
                line_damaged: false,
                base: 0,
                survivors: None,
                folder_missing: false,
                exit_damaged: false,
            },
            turn: None,
            stop: None,
            interrupted_at: None,
            messages: 0,
            waiting: 0,
            in_flight: None,
            last_activity: NOW,
            archived: false,
            accepted: 0,
            resumes: Vec::new(),
        }
    }

    fn shown(state: &State) -> public::Session {
        let context = Context {
            host: "local",
            link: Link::Unreachable,
            phase: Some(&Phase::InProgress),
            attention: None,
            now: NOW,
        };
        session(state, context)
    }

    #[test]
    fn r4_the_five_states_and_what_they_amount_to() {
        let wire = shown(&state(Process::Alive));
        assert_eq!(wire.link(), public::LinkState::Connected);
        assert_eq!(wire.process(), public::ProcessState::Alive);
        assert_eq!(wire.turn(), public::TurnState::Idle);
        assert_eq!(wire.attention(), public::Attention::None);
        assert_eq!(wire.task_phase(), public::TaskPhase::InProgress);
        assert_eq!(wire.status(), public::SessionStatus::Idle);
        assert_eq!((wire.pid, wire.host.as_str()), (42, "local"));
    }

    #[test]
    fn r12_of_the_environment_only_names_are_shown() {
        let wire = shown(&state(Process::Alive));
        assert_eq!(wire.env_names, ["TOKEN"]);
        assert!(!format!("{wire:?}").contains("hunter2"));
    }

    #[test]
    fn the_end_shows_its_record_and_the_host_s_link_now() {
        let mut ended = state(Process::Exited);
        ended.run.exit = Some(Exit {
            code: Some(3),
            signal: None,
            at: Timestamp::from_micros(7),
            stream_size: 10,
            stderr_size: 0,
            stdin_unread: None,
            survivors: vec![Identity {
                boot: "b".to_owned(),
                pid: 43,
                ticks: 2,
            }],
            stop_requested: false,
            stderr_tail: "why".to_owned(),
        });
        let wire = shown(&ended);
        assert_eq!(wire.link(), public::LinkState::Unreachable);
        assert_eq!(wire.exit_code, Some(3));
        assert_eq!(wire.survivors[0].pid, 43);
        assert_eq!(wire.stderr_tail, "why");
        let lost = shown(&state(Process::Lost(LostReason::Boot)));
        assert_eq!(lost.lost_reason, "boot");
        assert_eq!(lost.status(), public::SessionStatus::Lost);
    }

    #[test]
    fn words_come_back() {
        for slot in [Slot::Plan, Slot::Exec] {
            assert_eq!(slot_opt(slot_word(slot)), Ok(Some(slot)));
        }
        assert_eq!(slot_opt(""), Ok(None));
        assert!(slot_opt("third").is_err());
        assert_eq!(
            adapter(adapter_word(Adapter::Generic)),
            Ok(Adapter::Generic)
        );
        let refused = adapter("claude").unwrap_err();
        assert_eq!(refused.reason(), muster_domain::Reason::Unsupported);
    }
}
