//! What became of deliveries.

use muster_domain::{DeliveryId, Fault, delivery::Answer};

use super::id;
use crate::{agent, keeper};

/// The wire form of an answer about a delivery.
pub fn outcome(delivery: DeliveryId, answer: Answer) -> agent::DeliveryOutcome {
    use agent::OutcomeKind as Kind;
    let kind = match answer {
        Answer::Delivered { .. } => Kind::Delivered,
        Answer::Retry => Kind::Retry,
        Answer::InFlight => Kind::InFlight,
        Answer::Busy => Kind::Busy,
        Answer::StdinClosed => Kind::StdinClosed,
        Answer::NoKeeper => Kind::NoKeeper,
        Answer::Exited { .. } => Kind::Exited,
        Answer::DiskFull => Kind::DiskFull,
        Answer::Unseen => Kind::Unknown,
    };
    let mut outcome = agent::DeliveryOutcome {
        delivery_id: delivery.to_string(),
        kind: kind.into(),
        ..agent::DeliveryOutcome::default()
    };
    match answer {
        Answer::Delivered { before, after } => {
            outcome.stream_size_before = before;
            outcome.stream_size_after = after;
        }
        Answer::Exited { written } => outcome.bytes_written = written,
        Answer::Retry
        | Answer::InFlight
        | Answer::Busy
        | Answer::StdinClosed
        | Answer::NoKeeper
        | Answer::DiskFull
        | Answer::Unseen => {}
    }
    outcome
}

/// Which delivery an outcome is about, and what it says.
///
/// # Errors
/// `MISSING_FIELD`, `INVALID`, `INVALID_ID`: nothing may be concluded from it.
pub fn answer(outcome: Option<&agent::DeliveryOutcome>) -> Result<(DeliveryId, Answer), Fault> {
    use agent::OutcomeKind as Kind;
    let outcome = outcome.ok_or_else(|| Fault::missing("outcome"))?;
    let kind = Kind::try_from(outcome.kind)
        .map_err(|_| Fault::invalid("outcome.kind", "no known value"))?;
    let answer = match kind {
        Kind::Unspecified => return Err(Fault::missing("outcome.kind")),
        Kind::Delivered => Answer::Delivered {
            before: outcome.stream_size_before,
            after: outcome.stream_size_after,
        },
        Kind::Retry => Answer::Retry,
        Kind::InFlight => Answer::InFlight,
        Kind::Busy => Answer::Busy,
        Kind::StdinClosed => Answer::StdinClosed,
        Kind::NoKeeper => Answer::NoKeeper,
        Kind::Exited => Answer::Exited {
            written: outcome.bytes_written,
        },
        Kind::DiskFull => Answer::DiskFull,
        Kind::Unknown => Answer::Unseen,
    };
    Ok((id::id("outcome.delivery_id", &outcome.delivery_id)?, answer))
}

impl From<keeper::Outcome> for agent::DeliveryOutcome {
    fn from(outcome: keeper::Outcome) -> Self {
        Self {
            kind: agent::OutcomeKind::from(outcome.kind()).into(),
            delivery_id: outcome.delivery_id,
            stream_size_before: outcome.stream_size_before,
            stream_size_after: outcome.stream_size_after,
            bytes_written: outcome.bytes_written,
            busy_with: outcome.busy_with,
            already: outcome.already,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn answers() -> impl Strategy<Value = Answer> {
        prop_oneof![
            (any::<u64>(), any::<u64>())
                .prop_map(|(before, after)| Answer::Delivered { before, after }),
            Just(Answer::Retry),
            Just(Answer::InFlight),
            Just(Answer::Busy),
            Just(Answer::StdinClosed),
            Just(Answer::NoKeeper),
            any::<u64>().prop_map(|written| Answer::Exited { written }),
            Just(Answer::DiskFull),
            Just(Answer::Unseen),
        ]
    }

    fn delivery() -> DeliveryId {
        "0190b5d4-6a3e-7c11-9a2b-0123456789ab".parse().unwrap()
    }

    proptest! {
        #[test]
        fn answers_come_back(given in answers()) {
            let wire = outcome(delivery(), given);
            prop_assert_eq!(answer(Some(&wire)), Ok((delivery(), given)));
        }
    }

    #[test]
    fn every_outcome_of_a_keeper_has_its_twin() {
        for number in 0..16 {
            let Ok(kind) = keeper::OutcomeKind::try_from(number) else {
                continue;
            };
            let twin = agent::OutcomeKind::from(kind);
            assert_eq!(kind.as_str_name(), twin.as_str_name());
        }
    }

    #[test]
    fn r5_an_unspecified_outcome_says_nothing() {
        let mut wire = outcome(delivery(), Answer::Retry);
        wire.kind = 0;
        assert!(answer(Some(&wire)).is_err());
        wire.kind = 99;
        assert!(answer(Some(&wire)).is_err());
        assert!(answer(None).is_err());
    }
}
