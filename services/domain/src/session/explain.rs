//! What a session's status rests on, and what is not concluded, by name (S6, R5).

use super::state::{Launch, Observed, Process, Source, State};
use crate::{Timestamp, limits};

/// A fact in use, with its evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// Closed name, as in `process`.
    pub name: &'static str,
    /// Value, in words.
    pub value: String,
    /// What said so.
    pub source: Source,
    /// When it was said.
    pub at: Timestamp,
    /// The rule that concluded it.
    pub rule: String,
}

/// What is not concluded, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The link is not up: nothing is said about the process.
    HostUnreachable,
    /// The host has not reported the run since the link came up.
    ProcessUnconfirmed,
    /// The start was asked for and not answered: not taken for failed.
    StartUnanswered,
    /// There is an exit record, and the output was not read to its end: no outcome yet.
    StreamNotRead,
    /// A delivery was begun and nobody has said how it ended.
    DeliveryUnanswered,
    /// The exit record has neither code nor signal.
    ExitCodeUnknown,
    /// The output is damaged: what is missing is not taken for silence.
    StreamDamaged,
    /// An interrupt had no effect yet; a stop is offered, nothing escalates by itself.
    InterruptWithoutEffect,
    /// A stop was asked for, and the process has not ended.
    StopUnfinished,
    /// The turn has been silent for long; silence is not taken for an end.
    SilentTurn,
}

impl Refusal {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::HostUnreachable,
        Self::ProcessUnconfirmed,
        Self::StartUnanswered,
        Self::StreamNotRead,
        Self::DeliveryUnanswered,
        Self::ExitCodeUnknown,
        Self::StreamDamaged,
        Self::InterruptWithoutEffect,
        Self::StopUnfinished,
        Self::SilentTurn,
    ];

    /// The closed name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::HostUnreachable => "host_unreachable",
            Self::ProcessUnconfirmed => "process_unconfirmed",
            Self::StartUnanswered => "start_unanswered",
            Self::StreamNotRead => "stream_not_read",
            Self::DeliveryUnanswered => "delivery_unanswered",
            Self::ExitCodeUnknown => "exit_code_unknown",
            Self::StreamDamaged => "stream_damaged",
            Self::InterruptWithoutEffect => "interrupt_without_effect",
            Self::StopUnfinished => "stop_unfinished",
            Self::SilentTurn => "silent_turn",
        }
    }
}

/// The facts that the status of `state` rests on, and the refusals to conclude at `now`.
pub fn explain(state: &State, now: Timestamp) -> (Vec<Fact>, Vec<Refusal>) {
    (facts(state), refusals(state, now))
}

fn facts(state: &State) -> Vec<Fact> {
    let run = &state.run;
    let mut facts = vec![
        observed("link", &state.link, word(state.link.value)),
        observed("launch", &run.launch, word(run.launch.value)),
        observed("process", &run.process, process_words(run.process.value)),
    ];
    if let Some(turn) = &state.turn {
        facts.push(match &turn.outcome {
            Some(outcome) => observed("turn", outcome, word(outcome.value)),
            None => Fact {
                name: "turn",
                value: "active".to_owned(),
                source: Source::File(turn.began.offset),
                at: turn.began_at,
                rule: "s22_turn_of_the_run".to_owned(),
            },
        });
    }
    let plain = |name, value: String, source, at, rule: &str| Fact {
        name,
        value,
        source,
        at,
        rule: rule.to_owned(),
    };
    let active = state.last_activity;
    let read = format!("{} bytes of run {}", run.consumed, run.no);
    let source = Source::File(run.consumed);
    facts.push(plain("output_read", read, source, active, "r2_consumed"));
    if let Some(exit) = &run.exit {
        let value = match (exit.code, exit.signal) {
            (Some(code), _) => format!("code {code}, {} bytes", exit.stream_size),
            (None, Some(signal)) => format!("signal {signal}, {} bytes", exit.stream_size),
            (None, None) => format!("unknown, {} bytes", exit.stream_size),
        };
        let source = Source::Process;
        facts.push(plain("exit", value, source, exit.at, "s29_exit_record"));
    }
    if let Some(damage) = &run.damage {
        facts.push(observed("damage", damage, damage.value.as_str().to_owned()));
    }
    if let Some(stop) = state.stop {
        let value = format!("run {}", stop.run);
        facts.push(plain(
            "stop",
            value,
            Source::User,
            stop.at,
            "s39_stop_asked",
        ));
    }
    if run.exit_damaged {
        let value = "damaged".to_owned();
        let (source, rule) = (Source::Process, "s29_exit_record_damaged");
        facts.push(plain("exit_record", value, source, active, rule));
    }
    if run.folder_missing {
        let value = "missing".to_owned();
        let (source, rule) = (Source::Process, "r5_run_folder_gone");
        facts.push(plain("run_folder", value, source, active, rule));
    }
    if !run.survivors().is_empty() {
        let pids: Vec<String> = run
            .survivors()
            .iter()
            .map(|who| who.pid.to_string())
            .collect();
        let (value, source) = (pids.join(" "), Source::Process);
        facts.push(plain("survivors", value, source, active, "s33_survivors"));
    }
    if !run.cwd_exists {
        let value = "missing".to_owned();
        facts.push(plain("cwd", value, Source::Process, active, "s33_cwd"));
    }
    facts
}

fn refusals(state: &State, now: Timestamp) -> Vec<Refusal> {
    let run = &state.run;
    let live = !state.is_over();
    let up = state.link.value.is_up();
    let unknown = run.process.value == Process::Unknown;
    let unread = run
        .exit
        .as_ref()
        .is_some_and(|exit| run.file_consumed() < exit.stream_size);
    let vague = run.exit.as_ref().is_some_and(super::Exit::unknown);
    let silent = state
        .interrupted_at
        .is_some_and(|at| now.since(at) >= limits::INTERRUPT_EFFECT);
    let named = [
        (live && !up, Refusal::HostUnreachable),
        (
            live && up && unknown && run.exit.is_none(),
            Refusal::ProcessUnconfirmed,
        ),
        (
            live && run.launch.value == Launch::Requested,
            Refusal::StartUnanswered,
        ),
        (live && unread, Refusal::StreamNotRead),
        (state.in_flight.is_some(), Refusal::DeliveryUnanswered),
        (vague, Refusal::ExitCodeUnknown),
        (run.damage.is_some(), Refusal::StreamDamaged),
        (live && silent, Refusal::InterruptWithoutEffect),
        (live && state.is_stopping(), Refusal::StopUnfinished),
        (
            live && super::status::is_stalled(state, now),
            Refusal::SilentTurn,
        ),
    ];
    let holds = named.into_iter().filter(|(holds, _)| *holds);
    holds.map(|(_, refusal)| refusal).collect()
}

fn observed<T>(name: &'static str, fact: &Observed<T>, value: String) -> Fact {
    Fact {
        name,
        value,
        source: fact.source,
        at: fact.at,
        rule: fact.rule.clone(),
    }
}

fn process_words(process: Process) -> String {
    match process {
        Process::Lost(reason) => format!("lost ({})", word(reason)),
        Process::Starting | Process::Alive | Process::Exited | Process::Unknown => word(process),
    }
}

/// The names of these enums are one word each.
fn word(value: impl std::fmt::Debug) -> String {
    format!("{value:?}").to_lowercase()
}
