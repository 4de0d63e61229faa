//! The plumbing crates know no domain, so they repeat a few of its limits: here the two must agree.

use muster_domain::limits;
use muster_runtime::{ServerWindows, server};
use muster_transport::{Profile, SERVER_WINDOWS, backoff, link};

#[test]
fn plumbing_and_domain_have_the_same_limits() {
    assert_eq!(server::MAX_PROTOCOL_STREAMS, limits::SERVER_STREAMS);
    assert_eq!(SERVER_WINDOWS.max_streams, limits::SERVER_STREAMS);
    assert_eq!(SERVER_WINDOWS, ServerWindows::default());
    assert_eq!(server::MAX_APPLICATION_STREAMS, limits::ADMITTED_STREAMS);
    let tails = Profile::Tails.windows().streams as usize;
    assert_eq!(tails, limits::ADMITTED_STREAMS);
    assert_eq!(link::SUSPECT_AFTER, limits::SUSPECT_AFTER);
    assert_eq!(link::UNREACHABLE_AFTER, limits::UNREACHABLE_AFTER);
    assert_eq!(backoff::CAP, limits::RECONNECT_CAP);
    assert_eq!(backoff::AFTER_AUTH_FAILURE, limits::RECONNECT_AFTER_AUTH);
}
