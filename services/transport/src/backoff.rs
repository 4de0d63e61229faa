//! How long to wait before the next attempt. Pure: chance is an argument.

use std::time::Duration;

/// The longest first wait.
pub const BASE: Duration = Duration::from_millis(200);
/// The longest wait of all.
pub const CAP: Duration = Duration::from_secs(30);
/// The wait after an authentication failure: servers ban those who ask again soon.
pub const AFTER_AUTH_FAILURE: Duration = Duration::from_secs(600);

/// The wait before attempt `attempt + 1`, with full jitter: `fraction` of a limit that
/// doubles from [`BASE`] with each attempt up to [`CAP`]. `fraction` is a random number in
/// 0..1 and is clamped to that.
pub fn delay(attempt: u32, fraction: f64) -> Duration {
    let fraction = if fraction.is_finite() {
        fraction.clamp(0.0, 1.0)
    } else {
        1.0
    };
    let limit = 2_u32
        .checked_pow(attempt)
        .and_then(|factor| BASE.checked_mul(factor))
        .map_or(CAP, |limit| limit.min(CAP));
    limit.mul_f64(fraction)
}
