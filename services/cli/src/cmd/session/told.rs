//! What a person is told after a stop or an interrupt: what it did, and what comes next.

use muster_client::{
    Control, WaitFor,
    api::{Session, Survivor},
    limits::{STOP_CLOSE_WAIT, STOP_INT_WAIT, STOP_TERM_WAIT},
};

use super::word;

/// After `session stop`.
pub(super) fn stopped(control: &Control) -> String {
    let session = &control.session;
    let id = &session.id;
    if control.already_ended {
        return format!("there was nothing to stop: {}", ended(session));
    }
    if WaitFor::Exit.is_met(session) {
        return format!(
            "stopped: {}\nnext: `muster session resume {id}` starts the program again",
            ended(session)
        );
    }
    let patience = (STOP_CLOSE_WAIT + STOP_INT_WAIT + STOP_TERM_WAIT).as_secs();
    format!(
        "stopping: the program is told to end; what still runs after {patience} s is killed\n\
         {}next: `muster wait {id}` returns when it has ended",
        unwritten(control.unwritten_messages)
    )
}

/// After `session stop --survivors`, with the session as it is now.
pub(super) fn survivors_ended(control: &Control) -> String {
    let left = &control.session.survivors;
    let ended = control.survivors.iter().filter(|who| !left.contains(who));
    let ended = pids(ended);
    let mut text = match ended.as_slice() {
        [] if left.is_empty() => return "no process of the session is left".to_owned(),
        [] => "ended no process".to_owned(),
        [pid] => format!("ended the one process that the session had left behind (pid {pid})"),
        pids => format!(
            "ended {} processes that the session had left behind (pids {})",
            pids.len(),
            pids.join(", ")
        ),
    };
    if !left.is_empty() {
        text.push_str(&format!("; still alive: {}", pids(left.iter()).join(", ")));
    }
    text
}

fn pids<'a>(survivors: impl Iterator<Item = &'a Survivor>) -> Vec<String> {
    survivors.map(|survivor| survivor.pid.to_string()).collect()
}

/// After `session interrupt`.
pub(super) fn interrupted(control: &Control) -> String {
    let session = &control.session;
    if control.already_ended {
        return format!("there was nothing to interrupt: {}", ended(session));
    }
    format!(
        "the program was interrupted, as by Ctrl-C; what it makes of that is its own affair\n\
         next: `muster session show {0}` tells whether it goes on, `muster session stop {0}` ends it",
        session.id
    )
}

/// What `session show` offers, as commands.
pub(super) fn offers(session: &Session) -> String {
    let commands = session.offers.iter().map(|offer| match offer.as_str() {
        "stop" => format!(
            "`muster session stop {}`: an interrupt has not ended the program",
            session.id
        ),
        other => other.to_owned(),
    });
    commands.collect::<Vec<_>>().join("; ")
}

/// What becomes of what was sent and never written.
fn unwritten(messages: u32) -> String {
    match messages {
        0 => String::new(),
        1 => "one message was not written to it yet, and fails with its end\n".to_owned(),
        count => format!("{count} messages were not written to it yet, and fail with its end\n"),
    }
}

/// How an ended session ended.
fn ended(session: &Session) -> String {
    let status = word(session, "status");
    match (session.exit_code, session.exit_signal) {
        (Some(code), _) => format!("the session has ended ({status}, exit code {code})"),
        (None, Some(signal)) => format!("the session has ended ({status}, by signal {signal})"),
        (None, None) => format!("the session has ended ({status})"),
    }
}

#[cfg(test)]
mod tests {
    use muster_client::api::{ProcessState, SessionStatus};

    use super::*;

    fn control(status: SessionStatus, process: ProcessState) -> Control {
        Control {
            session: Session {
                id: "0190".to_owned(),
                status: status.into(),
                process: process.into(),
                ..Session::default()
            },
            already_ended: false,
            survivors: Vec::new(),
            unrecorded: false,
            unwritten_messages: 0,
        }
    }

    #[test]
    fn a_stop_says_what_it_did_and_what_comes_next() {
        let text = stopped(&control(SessionStatus::Running, ProcessState::Alive));
        assert!(text.starts_with("stopping: ") && text.contains("`muster wait 0190`"));
        let mut over = control(SessionStatus::Stopped, ProcessState::Exited);
        over.session.exit_signal = Some(15);
        assert_eq!(
            stopped(&over),
            "stopped: the session has ended (stopped, by signal 15)\n\
             next: `muster session resume 0190` starts the program again"
        );
        over.already_ended = true;
        assert_eq!(
            stopped(&over),
            "there was nothing to stop: the session has ended (stopped, by signal 15)"
        );
    }

    #[test]
    fn s40_a_stop_says_what_it_leaves_unwritten() {
        let mut stop = control(SessionStatus::Running, ProcessState::Alive);
        assert!(!stopped(&stop).contains("written"));
        stop.unwritten_messages = 3;
        assert!(stopped(&stop).contains("3 messages were not written"));
    }

    #[test]
    fn s39_what_is_offered_is_a_command() {
        let mut session = control(SessionStatus::Running, ProcessState::Alive).session;
        assert_eq!(offers(&session), "");
        session.offers = vec!["stop".to_owned()];
        assert!(offers(&session).starts_with("`muster session stop 0190`"));
    }

    #[test]
    fn survivors_are_counted_and_named() {
        let mut ended = control(SessionStatus::Exited, ProcessState::Exited);
        assert!(survivors_ended(&ended).contains("no process"));
        let survivor = |pid| Survivor {
            pid,
            start_ticks: 1,
        };
        ended.survivors = vec![survivor(7)];
        assert!(survivors_ended(&ended).contains("the one process"));
        ended.survivors.push(survivor(9));
        assert!(survivors_ended(&ended).contains("2 processes"));
        assert!(survivors_ended(&ended).contains("pids 7, 9"));
        // One of them does not end.
        ended.session.survivors = vec![survivor(9)];
        let text = survivors_ended(&ended);
        assert!(text.contains("(pid 7)") && text.ends_with("still alive: 9"));
        ended.session.survivors.push(survivor(7));
        assert_eq!(
            survivors_ended(&ended),
            "ended no process; still alive: 9, 7"
        );
    }
}
