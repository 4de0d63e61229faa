use std::time::Duration;

use muster_transport::backoff::{BASE, CAP, delay};
use proptest::prelude::*;

#[test]
fn the_limit_doubles_up_to_the_cap() {
    let limits: Vec<u128> = (0..10)
        .map(|attempt| delay(attempt, 1.0).as_millis())
        .collect();
    let expected = [200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000];
    assert_eq!(limits, expected);
    assert_eq!(delay(3, 0.5), Duration::from_millis(800));
    assert_eq!(delay(u32::MAX, 1.0), CAP);
    assert_eq!(delay(0, f64::NAN), BASE);
}

proptest! {
    #[test]
    fn any_delay_is_within_its_bounds(attempt: u32, fraction: f64) {
        prop_assert!(delay(attempt, fraction) <= CAP);
    }
}
