//! The feed.

use muster_domain::{Fault, session::Outcome};

use crate::public::{self, subscribe_response::Frame};

/// The frame that refuses a command.
pub fn error(command: u64, fault: &Fault) -> public::SubscribeResponse {
    // Through the one table, so that bounds and secrets are kept here too.
    let told = crate::fault::from_status(&crate::fault::into_status(fault));
    frame(Frame::Error(public::CommandError {
        id: command,
        reason: told.reason().as_str().to_owned(),
        message: told.message().to_owned(),
        metadata: told.metadata().clone().into_iter().collect(),
    }))
}

/// The fault of a command that was refused.
pub fn fault(error: &public::CommandError) -> Fault {
    let reason = muster_domain::Reason::parse(&error.reason);
    let mut fault = Fault::new(
        reason.unwrap_or(muster_domain::Reason::Internal),
        error.message.clone(),
    );
    for (key, value) in &error.metadata {
        fault = fault.with(key, value);
    }
    if reason.is_none() {
        fault = fault.with(crate::fault::UNKNOWN_REASON, &error.reason);
    }
    fault
}

/// Wraps a frame.
pub fn frame(frame: Frame) -> public::SubscribeResponse {
    public::SubscribeResponse { frame: Some(frame) }
}

/// The word of how a turn ended.
pub fn outcome_word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Completed => "completed",
        Outcome::Failed => "failed",
        Outcome::Interrupted => "interrupted",
        Outcome::Unknown => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use muster_domain::Reason;

    use super::*;

    #[test]
    fn refused_commands_come_back() {
        let refusal = Fault::new(Reason::RevisionCompacted, "gone").with("oldest_revision", 7);
        let Some(Frame::Error(told)) = error(3, &refusal).frame else {
            panic!("no error");
        };
        assert_eq!(told.id, 3);
        assert_eq!(fault(&told), refusal);
        let newer = public::CommandError {
            reason: "FROM_THE_FUTURE".to_owned(),
            ..told
        };
        let read = fault(&newer);
        assert_eq!(read.reason(), Reason::Internal);
        assert_eq!(
            read.metadata()[crate::fault::UNKNOWN_REASON],
            "FROM_THE_FUTURE"
        );
    }
}
