//! Spans of time as people type them.

use std::time::Duration;

/// Reads `250ms`, `90s`, `5m`, `2h`, `1d`, or plain seconds.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let split = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let count: u64 = digits.parse().map_err(|_| usage(text))?;
    let millis = match unit {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(usage(text)),
    };
    count
        .checked_mul(millis)
        .map(Duration::from_millis)
        .ok_or_else(|| usage(text))
}

fn usage(text: &str) -> String {
    format!("`{text}` is no span of time; write 250ms, 90s, 5m, 2h or 1d")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_and_nonsense_is_refused() {
        assert_eq!(parse("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse("90"), Ok(Duration::from_secs(90)));
        assert_eq!(parse("2h"), Ok(Duration::from_secs(7_200)));
        for bad in [
            "",
            "s",
            "-1s",
            "1.5s",
            "1w",
            "99999999999999999999s",
            "18446744073709551615d",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
