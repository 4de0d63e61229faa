//! Runs, as coordinator and host agent speak of them.

use muster_domain::{
    Fault, SessionId, WorkspaceId,
    session::{Exit, Failure, Identity, Process, RunReport},
};

use super::{enums, id, time};
use crate::agent;

/// What stands in every mutating call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutation {
    /// Client-made id.
    pub request: String,
    /// On whose behalf.
    pub workspace: WorkspaceId,
    /// Lease epoch of the coordinator.
    pub epoch: u64,
}

impl From<Mutation> for agent::Mutation {
    fn from(mutation: Mutation) -> Self {
        Self {
            request_id: mutation.request,
            workspace_id: mutation.workspace.to_string(),
            epoch: mutation.epoch,
        }
    }
}

/// A mutation that must be there, whole. Whether its epoch is too old is the agent's to say.
///
/// # Errors
/// `MISSING_FIELD`, `INVALID`, `INVALID_ID`.
pub fn mutation(mutation: Option<agent::Mutation>) -> Result<Mutation, Fault> {
    let mutation = mutation.ok_or_else(|| Fault::missing("mutation"))?;
    id::client_key("mutation.request_id", &mutation.request_id)?;
    if mutation.epoch == 0 {
        return Err(Fault::missing("mutation.epoch"));
    }
    Ok(Mutation {
        workspace: id::workspace("mutation.workspace_id", &mutation.workspace_id)?,
        request: mutation.request_id,
        epoch: mutation.epoch,
    })
}

/// The wire form of a run's key.
pub fn run_ref(session: SessionId, run: u32) -> agent::RunRef {
    agent::RunRef {
        session_id: session.to_string(),
        run,
    }
}

/// A run's key that must be there; ordinals begin at 1.
///
/// # Errors
/// `MISSING_FIELD`, `INVALID_ID`.
pub fn run_key(run: Option<&agent::RunRef>) -> Result<(SessionId, u32), Fault> {
    let run = run.ok_or_else(|| Fault::missing("run"))?;
    if run.run == 0 {
        return Err(Fault::missing("run.run"));
    }
    Ok((id::id("run.session_id", &run.session_id)?, run.run))
}

impl From<&Identity> for agent::ProcessIdentity {
    fn from(identity: &Identity) -> Self {
        Self {
            boot_id: identity.boot.clone(),
            pid: identity.pid,
            start_ticks: identity.ticks,
        }
    }
}

impl TryFrom<agent::ProcessIdentity> for Identity {
    type Error = Fault;

    fn try_from(identity: agent::ProcessIdentity) -> Result<Self, Fault> {
        if identity.pid <= 1 {
            return Err(Fault::invalid("pid", "names no process of a session"));
        }
        Ok(Self {
            boot: identity.boot_id,
            pid: identity.pid,
            ticks: identity.start_ticks,
        })
    }
}

impl From<&Exit> for agent::ExitRecord {
    fn from(exit: &Exit) -> Self {
        Self {
            code: exit.code,
            signal: exit.signal,
            unknown: exit.unknown(),
            at: Some(time::timestamp(exit.at)),
            stream_size: exit.stream_size,
            stderr_size: exit.stderr_size,
            stdin_unread_bytes: exit.stdin_unread,
            survivors: exit.survivors.iter().map(Into::into).collect(),
            stop_requested: exit.stop_requested,
            user_time: None,
            system_time: None,
            max_rss_bytes: 0,
            stderr_tail: exit.stderr_tail.clone().into(),
        }
    }
}

impl TryFrom<agent::ExitRecord> for Exit {
    type Error = Fault;

    fn try_from(exit: agent::ExitRecord) -> Result<Self, Fault> {
        if exit.unknown && (exit.code.is_some() || exit.signal.is_some()) {
            return Err(Fault::invalid("exit.unknown", "contradicts what is known"));
        }
        Ok(Self {
            code: exit.code,
            signal: exit.signal,
            at: time::from_timestamp("exit.at", exit.at.as_ref())?,
            stream_size: exit.stream_size,
            stderr_size: exit.stderr_size,
            stdin_unread: exit.stdin_unread_bytes,
            survivors: exit
                .survivors
                .into_iter()
                .map(TryInto::try_into)
                .collect::<Result<_, _>>()?,
            stop_requested: exit.stop_requested,
            // Its first character may be cut, and programs print what they like.
            stderr_tail: String::from_utf8_lossy(&exit.stderr_tail).into_owned(),
        })
    }
}

/// The facts that say what this report says. Facts that reports do not have (argv, working
/// directory, stdin mode) stay empty.
pub fn run_facts(session: SessionId, report: &RunReport) -> agent::RunFacts {
    let (state, lost) = match report.process {
        None => (agent::RunState::NeverStarted, None),
        // Not a fact of a host: refused on receive.
        Some(Process::Unknown) => (agent::RunState::Unspecified, None),
        Some(Process::Starting) => (agent::RunState::Starting, None),
        Some(Process::Alive) => (agent::RunState::Alive, None),
        Some(Process::Exited) => (agent::RunState::Exited, None),
        Some(Process::Lost(reason)) => (agent::RunState::Lost, Some(reason)),
    };
    let failure = report.failure.as_ref();
    agent::RunFacts {
        run: Some(run_ref(session, report.run)),
        state: state.into(),
        lost_reason: lost.map_or(0, enums::number::<agent::LostReason>),
        process: report.identity.as_ref().map(Into::into),
        keeper: report.keeper.as_ref().map(Into::into),
        stdin_closed: report.stdin_closed,
        stream_size: report.stream_size,
        stderr_size: report.exit.as_ref().map_or(0, |exit| exit.stderr_size),
        exit: report.exit.as_ref().map(Into::into),
        cwd_exists: report.cwd_exists,
        started_at: time::timestamp_opt(report.started_at),
        stop_requested: report.exit.as_ref().is_some_and(|exit| exit.stop_requested),
        start_failure: failure.map_or_else(String::new, |failure| failure.text.clone()),
        start_failure_reason: failure.map_or_else(String::new, |failure| failure.reason.clone()),
        survivors: report
            .survivors
            .as_ref()
            .map(|living| agent::LivingSurvivors {
                processes: living.iter().map(Into::into).collect(),
            }),
        folder_missing: report.folder_missing,
        exit_damaged: report.exit_damaged,
        ..agent::RunFacts::default()
    }
}

/// The session that facts are about, and what they say of the run.
///
/// # Errors
/// `MISSING_FIELD`, `INVALID`, `INVALID_ID`: the agent speaks otherwise than the contract,
/// and nothing may be concluded from it.
pub fn report(facts: agent::RunFacts) -> Result<(SessionId, RunReport), Fault> {
    let (session, run) = run_key(facts.run.as_ref())?;
    let process = process(&facts)?;
    let exit: Option<Exit> = facts.exit.map(TryInto::try_into).transpose()?;
    if process == Some(Process::Exited) && exit.is_none() {
        return Err(Fault::missing("exit"));
    }
    let failure = id::text_opt(facts.start_failure_reason).map(|reason| Failure {
        reason,
        text: facts.start_failure,
    });
    let survivors = facts.survivors.map(|living| {
        let processes = living.processes.into_iter().map(TryInto::try_into);
        processes.collect::<Result<Vec<Identity>, _>>()
    });
    let report = RunReport {
        survivors: survivors.transpose()?,
        folder_missing: facts.folder_missing,
        exit_damaged: facts.exit_damaged,
        run,
        process,
        identity: facts.process.map(TryInto::try_into).transpose()?,
        keeper: facts.keeper.map(TryInto::try_into).transpose()?,
        stdin_closed: facts.stdin_closed,
        stream_size: facts.stream_size,
        exit,
        cwd_exists: facts.cwd_exists,
        started_at: time::from_timestamp_opt("started_at", facts.started_at.as_ref())?,
        failure,
    };
    Ok((session, report))
}

fn process(facts: &agent::RunFacts) -> Result<Option<Process>, Fault> {
    let state = agent::RunState::try_from(facts.state)
        .map_err(|_| Fault::invalid("state", "no known value"))?;
    Ok(match state {
        agent::RunState::Unspecified => return Err(Fault::missing("state")),
        agent::RunState::NeverStarted => None,
        agent::RunState::Starting => Some(Process::Starting),
        agent::RunState::Alive => Some(Process::Alive),
        agent::RunState::Exited => Some(Process::Exited),
        agent::RunState::Lost => Some(Process::Lost(enums::required::<agent::LostReason, _>(
            "lost_reason",
            facts.lost_reason,
        )?)),
    })
}

#[cfg(test)]
mod tests {
    use muster_domain::{Reason, Timestamp, session::LostReason};
    use proptest::{option, prelude::*};

    use super::*;

    fn identity() -> impl Strategy<Value = Identity> {
        ("[0-9a-f-]{36}", 2..i32::MAX, any::<u64>()).prop_map(|(boot, pid, ticks)| Identity {
            boot,
            pid,
            ticks,
        })
    }

    fn exit() -> impl Strategy<Value = Exit> {
        (
            (option::of(any::<i32>()), option::of(1..64_i32)),
            (0..4_000_000_000_000_000_i64, any::<u64>(), any::<u64>()),
            (option::of(any::<u64>()), any::<bool>(), ".{0,20}"),
            proptest::collection::vec(identity(), 0..3),
        )
            .prop_map(
                |((code, signal), (at, stream, stderr), (unread, stop, tail), survivors)| Exit {
                    code,
                    signal,
                    at: Timestamp::from_micros(at),
                    stream_size: stream,
                    stderr_size: stderr,
                    stdin_unread: unread,
                    survivors,
                    stop_requested: stop,
                    stderr_tail: tail,
                },
            )
    }

    fn reports() -> impl Strategy<Value = RunReport> {
        let process = prop_oneof![
            Just(None),
            Just(Some(Process::Starting)),
            Just(Some(Process::Alive)),
            Just(Some(Process::Exited)),
            Just(Some(Process::Lost(LostReason::Keeper))),
            Just(Some(Process::Lost(LostReason::Boot))),
            Just(Some(Process::Lost(LostReason::Folder))),
        ];
        (
            (1..u32::MAX, process, any::<u64>()),
            (option::of(identity()), option::of(identity())),
            (any::<bool>(), any::<bool>(), exit()),
            option::of(0..4_000_000_000_000_000_i64),
            option::of(("[A-Z_]{1,20}", ".{0,20}")),
            (
                option::of(proptest::collection::vec(identity(), 0..3)),
                any::<bool>(),
                any::<bool>(),
            ),
        )
            .prop_map(
                |(
                    (run, process, size),
                    (identity, keeper),
                    (closed, cwd, exit),
                    started,
                    failure,
                    (survivors, folder_missing, exit_damaged),
                )| RunReport {
                    survivors,
                    folder_missing,
                    exit_damaged,
                    run,
                    process,
                    identity,
                    keeper,
                    stdin_closed: closed,
                    stream_size: size,
                    exit: (process == Some(Process::Exited)).then_some(exit),
                    cwd_exists: cwd,
                    started_at: started.map(Timestamp::from_micros),
                    failure: failure.map(|(reason, text)| Failure { reason, text }),
                },
            )
    }

    fn session() -> SessionId {
        "0190b5d4-6a3e-7c11-9a2b-0123456789ab".parse().unwrap()
    }

    proptest! {
        #[test]
        fn reports_come_back(written in reports()) {
            let facts = run_facts(session(), &written);
            prop_assert_eq!(report(facts), Ok((session(), written)));
        }
    }

    #[test]
    fn r5_an_exit_without_its_record_is_no_fact() {
        let facts = agent::RunFacts {
            run: Some(run_ref(session(), 1)),
            state: agent::RunState::Exited.into(),
            ..agent::RunFacts::default()
        };
        assert_eq!(report(facts).unwrap_err().reason(), Reason::MissingField);
        let unspecified = agent::RunFacts {
            run: Some(run_ref(session(), 1)),
            ..agent::RunFacts::default()
        };
        assert!(report(unspecified).is_err());
    }

    #[test]
    fn r6_no_session_owns_pid_1() {
        for pid in [-1, 0, 1] {
            let identity = agent::ProcessIdentity {
                pid,
                ..agent::ProcessIdentity::default()
            };
            assert!(Identity::try_from(identity).is_err());
        }
    }

    #[test]
    fn mutations_are_checked_whole() {
        let whole = Mutation {
            request: "r".to_owned(),
            workspace: WorkspaceId::main(),
            epoch: 1,
        };
        let wire = agent::Mutation::from(whole.clone());
        assert_eq!(mutation(Some(wire.clone())), Ok(whole));
        for broken in [
            agent::Mutation {
                request_id: String::new(),
                ..wire.clone()
            },
            agent::Mutation {
                workspace_id: String::new(),
                ..wire.clone()
            },
            agent::Mutation {
                workspace_id: "A B".to_owned(),
                ..wire.clone()
            },
            agent::Mutation { epoch: 0, ..wire },
        ] {
            assert!(mutation(Some(broken)).is_err());
        }
        assert!(mutation(None).is_err());
    }
}
