use std::time::Duration;

use muster_transport::{
    Cause, LinkState, ProtocolRange,
    link::{Input, LinkMachine, Output},
};
use proptest::prelude::*;

const START: Duration = Duration::from_secs(1000);

fn at(seconds: u64) -> Duration {
    START + Duration::from_secs(seconds)
}

/// Feeds inputs at their times and gives the last outputs.
fn run(machine: &mut LinkMachine, inputs: &[(u64, Input)]) -> Vec<Output> {
    let mut last = Vec::new();
    for (seconds, input) in inputs {
        last = machine.step(at(*seconds), 1.0, input.clone());
    }
    last
}

fn started(may_bootstrap: bool) -> LinkMachine {
    let mut machine = LinkMachine::new(START, may_bootstrap);
    assert_eq!(machine.start(START), [Output::Dial]);
    assert_eq!(machine.state(), &LinkState::Connecting);
    machine
}

fn connected() -> LinkMachine {
    let mut machine = started(false);
    let outputs = run(&mut machine, &[(0, Input::DialledOk)]);
    assert_eq!(outputs, [Output::Hello]);
    let outputs = run(&mut machine, &[(0, Input::HelloOk)]);
    assert_eq!(outputs, [Output::Changed(LinkState::Connected)]);
    machine
}

fn unreachable(cause: Cause) -> LinkState {
    LinkState::Unreachable { cause }
}

#[test]
fn h4_silence_makes_it_suspect_then_unreachable() {
    let mut machine = connected();
    for second in 1..5 {
        assert_eq!(run(&mut machine, &[(second, Input::Tick)]), []);
    }
    let outputs = run(&mut machine, &[(5, Input::Tick)]);
    assert_eq!(
        outputs,
        [Output::Changed(LinkState::Suspect), Output::Probe]
    );
    for second in 6..20 {
        assert_eq!(run(&mut machine, &[(second, Input::Tick)]), []);
    }
    let outputs = run(&mut machine, &[(20, Input::Tick)]);
    assert_eq!(
        outputs,
        [Output::Drop, Output::Changed(unreachable(Cause::Network))]
    );
    assert_eq!(
        machine.next_try_at(),
        Some(at(20) + Duration::from_millis(200))
    );
}

#[test]
fn any_byte_counts_as_life() {
    let mut machine = connected();
    run(&mut machine, &[(4, Input::Tick), (6, Input::Tick)]);
    assert_eq!(machine.state(), &LinkState::Suspect);
    let outputs = run(&mut machine, &[(7, Input::ByteSeen(at(7)))]);
    assert_eq!(outputs, [Output::Changed(LinkState::Connected)]);
    // A byte seen long ago is none.
    run(&mut machine, &[(13, Input::Tick)]);
    assert_eq!(run(&mut machine, &[(13, Input::ByteSeen(at(7)))]), []);
    assert_eq!(machine.state(), &LinkState::Suspect);
}

#[test]
fn bytes_without_beats_are_a_wedged_agent() {
    let mut machine = connected();
    let mut outputs = Vec::new();
    for second in 1..=60 {
        run(&mut machine, &[(second, Input::ByteSeen(at(second)))]);
        outputs = run(&mut machine, &[(second, Input::Tick)]);
    }
    assert_eq!(
        outputs,
        [
            Output::Drop,
            Output::Changed(unreachable(Cause::AgentWedged))
        ]
    );
}

#[test]
fn h5_a_sleep_is_probed_and_kills_nothing() {
    let mut machine = connected();
    run(&mut machine, &[(1, Input::Tick)]);
    let outputs = run(&mut machine, &[(3601, Input::Tick)]);
    assert_eq!(
        outputs,
        [Output::Changed(LinkState::Suspect), Output::Probe]
    );
    let outputs = run(&mut machine, &[(3602, Input::ByteSeen(at(3602)))]);
    assert_eq!(outputs, [Output::Changed(LinkState::Connected)]);

    // Without an answer it still dies, 15 s after the wake-up.
    let mut machine = connected();
    run(&mut machine, &[(1, Input::Tick), (3601, Input::Tick)]);
    for second in 3602..3616 {
        run(&mut machine, &[(second, Input::Tick)]);
    }
    assert_eq!(machine.state(), &LinkState::Suspect);
    run(&mut machine, &[(3616, Input::Tick)]);
    assert_eq!(machine.state(), &unreachable(Cause::Network));
}

#[test]
fn h5_after_a_sleep_a_waiting_link_dials_at_once_but_not_after_bad_credentials() {
    let mut machine = started(false);
    for _ in 0..8 {
        run(
            &mut machine,
            &[(1, Input::DialFailed(Cause::Network)), (1, Input::RetryNow)],
        );
    }
    run(
        &mut machine,
        &[(1, Input::DialFailed(Cause::Network)), (2, Input::Tick)],
    );
    assert_eq!(machine.next_try_at(), Some(at(31)));
    assert_eq!(run(&mut machine, &[(20, Input::Tick)]), [Output::Dial]);

    let mut machine = started(false);
    run(&mut machine, &[(1, Input::DialFailed(Cause::AuthFailed))]);
    assert_eq!(machine.next_try_at(), Some(at(601)));
    assert_eq!(run(&mut machine, &[(300, Input::Tick)]), []);
    assert_eq!(run(&mut machine, &[(601, Input::Tick)]), [Output::Dial]);
}

#[test]
fn h4_a_refused_host_key_waits_for_a_person() {
    let mut machine = started(false);
    let outputs = run(
        &mut machine,
        &[(1, Input::DialFailed(Cause::HostKeyRefused))],
    );
    assert_eq!(
        outputs,
        [Output::Changed(unreachable(Cause::HostKeyRefused))]
    );
    assert_eq!(machine.next_try_at(), None);
    assert_eq!(run(&mut machine, &[(100_000, Input::Tick)]), []);
    assert_eq!(
        run(&mut machine, &[(100_001, Input::RetryNow)]),
        [Output::Dial]
    );
}

#[test]
fn h1_an_agent_that_was_told_to_end_is_started_when_it_is_wanted_again() {
    let mut machine = started(true);
    run(&mut machine, &[(0, Input::DialledOk), (0, Input::HelloOk)]);
    let later = 60;
    assert_eq!(run(&mut machine, &[(later, Input::Rest)]), []);
    run(&mut machine, &[(later, Input::Lost)]);
    let down = Input::DialFailed(Cause::AgentDown);
    let outputs = run(&mut machine, &[(later, down.clone())]);
    assert!(!outputs.contains(&Output::Bootstrap), "{outputs:?}");
    assert_eq!(machine.state(), &unreachable(Cause::AgentDown));
    run(&mut machine, &[(later + 60, Input::Tick)]);
    let outputs = run(&mut machine, &[(later + 60, down.clone())]);
    assert!(!outputs.contains(&Output::Bootstrap), "{outputs:?}");
    let outputs = run(&mut machine, &[(later + 61, Input::RetryNow)]);
    assert_eq!(outputs, [Output::Dial]);
    let outputs = run(&mut machine, &[(later + 61, down)]);
    assert_eq!(outputs, [Output::Bootstrap]);
}

#[test]
fn h1_agent_down_bootstraps_once_per_attempt() {
    let mut machine = started(true);
    let down = Input::DialFailed(Cause::AgentDown);
    assert_eq!(run(&mut machine, &[(1, down.clone())]), [Output::Bootstrap]);
    assert_eq!(
        run(&mut machine, &[(2, Input::Bootstrapped(Ok(())))]),
        [Output::Dial]
    );
    let outputs = run(&mut machine, &[(2, down.clone())]);
    assert_eq!(outputs, [Output::Changed(unreachable(Cause::AgentDown))]);
    assert_eq!(run(&mut machine, &[(4, Input::Tick)]), [Output::Dial]);
    assert_eq!(run(&mut machine, &[(4, down)]), [Output::Bootstrap]);
    let text = "no space".to_owned();
    run(&mut machine, &[(5, Input::Bootstrapped(Err(text.clone())))]);
    assert_eq!(
        machine.state(),
        &unreachable(Cause::BootstrapFailed { text })
    );
    assert_eq!(machine.attempts(), 2);

    let mut machine = started(false);
    run(&mut machine, &[(1, Input::DialFailed(Cause::AgentDown))]);
    assert_eq!(machine.state(), &unreachable(Cause::AgentDown));
}

#[test]
fn a_failed_hello_drops_the_connection() {
    let mut machine = started(false);
    let (ours, theirs) = (
        ProtocolRange { min: 1, max: 2 },
        ProtocolRange { min: 3, max: 4 },
    );
    assert_eq!(ours.common(theirs), None);
    assert_eq!(ours.common(ProtocolRange { min: 2, max: 9 }), Some(2));
    let cause = Cause::Incompatible { ours, theirs };
    run(&mut machine, &[(1, Input::DialledOk)]);
    let outputs = run(&mut machine, &[(1, Input::HelloFailed(cause.clone()))]);
    assert_eq!(outputs, [Output::Drop, Output::Changed(unreachable(cause))]);
}

#[test]
fn a_good_connection_lost_is_dialled_at_once_a_bad_one_backs_off() {
    let mut machine = connected();
    run(
        &mut machine,
        &[(5, Input::ByteSeen(at(5))), (10, Input::Tick)],
    );
    let outputs = run(&mut machine, &[(10, Input::Lost)]);
    assert_eq!(
        outputs,
        [
            Output::Drop,
            Output::Changed(LinkState::Connecting),
            Output::Dial
        ]
    );

    let mut machine = connected();
    let mut waits = Vec::new();
    for _ in 0..4 {
        run(&mut machine, &[(1, Input::Lost)]);
        waits.push(machine.next_try_at().unwrap() - at(1));
        run(
            &mut machine,
            &[
                (1, Input::RetryNow),
                (1, Input::DialledOk),
                (1, Input::HelloOk),
            ],
        );
    }
    assert_eq!(waits, [200, 400, 800, 1600].map(Duration::from_millis));
}

#[test]
fn an_unreachable_host_stays_that_until_it_answers() {
    let mut machine = started(false);
    run(
        &mut machine,
        &[(1, Input::DialFailed(Cause::Network)), (2, Input::Tick)],
    );
    assert_eq!(machine.state(), &unreachable(Cause::Network));
    run(&mut machine, &[(2, Input::DialledOk)]);
    assert_eq!(machine.state(), &unreachable(Cause::Network));
    run(&mut machine, &[(2, Input::HelloOk)]);
    assert_eq!(machine.state(), &LinkState::Connected);
    assert_eq!(machine.since(), at(2));
}

fn inputs() -> impl Strategy<Value = Input> {
    let cause = prop_oneof![
        Just(Cause::Network),
        Just(Cause::Refused),
        Just(Cause::AuthFailed),
        Just(Cause::HostKeyRefused),
        Just(Cause::AgentDown),
    ];
    prop_oneof![
        Just(Input::DialledOk),
        cause.clone().prop_map(Input::DialFailed),
        Just(Input::Bootstrapped(Ok(()))),
        Just(Input::Bootstrapped(Err("text".into()))),
        Just(Input::HelloOk),
        cause.prop_map(Input::HelloFailed),
        (0..2000_u64).prop_map(|seconds| Input::ByteSeen(Duration::from_secs(seconds))),
        (0..2000_u64).prop_map(|seconds| Input::Beat(Duration::from_secs(seconds))),
        Just(Input::Lost),
        Just(Input::Tick),
        Just(Input::RetryNow),
        Just(Input::Rest),
    ]
}

proptest! {
    /// Whatever happens in whatever order: at most one dial, hello or bootstrap at a time,
    /// no second connection while one lives, and never a dead end without a next try, except
    /// for a refused host key.
    #[test]
    fn the_machine_never_doubles_and_never_strands(
        steps in prop::collection::vec((inputs(), 0..8000_u64, 0.0..1.0_f64), 0..200),
        may_bootstrap: bool,
    ) {
        let mut machine = LinkMachine::new(START, may_bootstrap);
        let mut now = START;
        let mut busy = !machine.start(now).is_empty();
        let mut live = false;
        for (input, millis, fraction) in steps {
            now += Duration::from_millis(millis);
            let is_answer = matches!(
                input,
                Input::DialledOk | Input::DialFailed(_) | Input::Bootstrapped(_)
                    | Input::HelloOk | Input::HelloFailed(_)
            );
            let before = machine.clone();
            let outputs = machine.step(now, fraction, input.clone());
            let changed = format!("{before:?}") != format!("{machine:?}");
            if is_answer && changed {
                busy = false;
            }
            if input == Input::DialledOk && changed {
                prop_assert!(!live);
                live = true;
            }
            for output in outputs {
                match output {
                    Output::Drop => {
                        prop_assert!(live);
                        live = false;
                        busy = false;
                    }
                    Output::Dial | Output::Bootstrap => {
                        prop_assert!(!busy && !live);
                        busy = true;
                    }
                    Output::Hello => {
                        prop_assert!(!busy && live);
                        busy = true;
                    }
                    Output::Probe => prop_assert!(live),
                    Output::Changed(state) => prop_assert_eq!(&state, machine.state()),
                }
            }
            let refused = machine.state() == &unreachable(Cause::HostKeyRefused);
            prop_assert!(busy || live || machine.next_try_at().is_some() || refused);
            prop_assert!(!machine.state().is_up() || live);
        }
    }
}
