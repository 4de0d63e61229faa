//! Points in time and spans.

use std::time::Duration;

use muster_domain::{Fault, Timestamp};

/// Microseconds in a second.
const MICROS: i64 = 1_000_000;

/// The wire form of a point in time.
pub fn timestamp(at: Timestamp) -> prost_types::Timestamp {
    let micros = at.as_micros();
    prost_types::Timestamp {
        seconds: micros.div_euclid(MICROS),
        // Below 10^9 by the remainder.
        nanos: i32::try_from(micros.rem_euclid(MICROS) * 1_000).unwrap_or_default(),
    }
}

/// The wire form of a point in time that may be missing.
pub fn timestamp_opt(at: Option<Timestamp>) -> Option<prost_types::Timestamp> {
    at.map(timestamp)
}

/// A point in time that must be there. Parts of a microsecond are dropped.
///
/// # Errors
/// `MISSING_FIELD`; `INVALID` when it is not between the years 1 and 9999, or malformed.
pub fn from_timestamp(
    field: &'static str,
    at: Option<&prost_types::Timestamp>,
) -> Result<Timestamp, Fault> {
    from_timestamp_opt(field, at)?.ok_or_else(|| Fault::missing(field))
}

/// A point in time that may be missing. Parts of a microsecond are dropped.
///
/// # Errors
/// `INVALID` when it is not between the years 1 and 9999, or malformed.
pub fn from_timestamp_opt(
    field: &'static str,
    at: Option<&prost_types::Timestamp>,
) -> Result<Option<Timestamp>, Fault> {
    let Some(at) = at else { return Ok(None) };
    let in_range = (-62_135_596_800..=253_402_300_799).contains(&at.seconds)
        && (0..1_000_000_000).contains(&at.nanos);
    if !in_range {
        return Err(Fault::invalid(field, "not a point in time"));
    }
    Ok(Some(Timestamp::from_micros(
        at.seconds * MICROS + i64::from(at.nanos) / 1_000,
    )))
}

/// The wire form of a span; spans above the format's 10,000 years become that.
pub fn duration(span: Duration) -> prost_types::Duration {
    const LONGEST: i64 = 315_576_000_000;
    prost_types::Duration {
        seconds: i64::try_from(span.as_secs())
            .unwrap_or(LONGEST)
            .min(LONGEST),
        // Below 10^9 by the type.
        nanos: i32::try_from(span.subsec_nanos()).unwrap_or_default(),
    }
}

/// A span that must be there.
///
/// # Errors
/// `MISSING_FIELD`; `INVALID` when it is negative or malformed.
pub fn from_duration(
    field: &'static str,
    span: Option<&prost_types::Duration>,
) -> Result<Duration, Fault> {
    from_duration_opt(field, span)?.ok_or_else(|| Fault::missing(field))
}

/// A span that may be missing.
///
/// # Errors
/// `INVALID` when it is negative or malformed.
pub fn from_duration_opt(
    field: &'static str,
    span: Option<&prost_types::Duration>,
) -> Result<Option<Duration>, Fault> {
    let Some(span) = span else { return Ok(None) };
    let seconds = u64::try_from(span.seconds);
    let nanos = u32::try_from(span.nanos)
        .ok()
        .filter(|n| *n < 1_000_000_000);
    match (seconds, nanos) {
        (Ok(seconds), Some(nanos)) => Ok(Some(Duration::new(seconds, nanos))),
        _ => Err(Fault::invalid(field, "not a span of time")),
    }
}

#[cfg(test)]
mod tests {
    use muster_domain::Reason;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn points_in_time_come_back(micros in -62_135_596_800_000_000..253_402_300_799_000_000_i64) {
            let at = Timestamp::from_micros(micros);
            let back = from_timestamp("at", Some(&timestamp(at)));
            prop_assert_eq!(back, Ok(at));
        }

        #[test]
        fn spans_come_back(seconds in 0..315_576_000_000_u64, nanos in 0..1_000_000_000_u32) {
            let span = Duration::new(seconds, nanos);
            prop_assert_eq!(from_duration("wait", Some(&duration(span))), Ok(span));
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        let bad = prost_types::Timestamp {
            seconds: i64::MAX,
            nanos: 0,
        };
        assert_eq!(
            from_timestamp("at", Some(&bad)).unwrap_err().reason(),
            Reason::Invalid
        );
        assert_eq!(
            from_timestamp("at", None).unwrap_err().reason(),
            Reason::MissingField
        );
        let negative = prost_types::Duration {
            seconds: -1,
            nanos: 0,
        };
        assert!(from_duration("wait", Some(&negative)).is_err());
    }
}
