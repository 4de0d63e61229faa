//! What a failed call to an agent means. An agent's own refusal carries a reason; everything
//! else happened on the way, and says nothing about what was asked (R5).

use muster_domain::{Fault, Reason, session::Link};
use muster_proto::fault;
use muster_transport::{LinkError, LinkState};
use tonic::{Code, Status};

use super::api::LinkView;

/// What the agent said, where it was the agent that spoke.
pub(super) fn said(status: &Status) -> Option<Fault> {
    fault::is_answer(status).then(|| fault::from_agent(status))
}

pub(super) fn failed(host: &str, link: &LinkView, status: &Status) -> Fault {
    if let Some(fault) = said(status) {
        return fault.with("host", host);
    }
    match status.code() {
        Code::ResourceExhausted => Fault::new(
            Reason::StreamLimit,
            format!("host `{host}` has too many calls open"),
        )
        .with_internal(status.message()),
        Code::OutOfRange => {
            Fault::new(Reason::TooLarge, "the answer is too large").with_internal(status.message())
        }
        Code::Unimplemented => Fault::unsupported(format!("what was asked of host `{host}`"))
            .with_hint("its agent may be older than this coordinator"),
        Code::DeadlineExceeded => late(host, link),
        _ => unreachable_host(host, link).with_internal(status.message()),
    }
}

/// The call's time is over and nobody knows what became of it.
pub(super) fn late(host: &str, link: &LinkView) -> Fault {
    if !link.is_up() {
        return unreachable_host(host, link);
    }
    Fault::new(
        Reason::Cancelled,
        format!("host `{host}` did not answer in time"),
    )
    .with("host", host)
}

pub(super) fn no_channel(host: &str, link: &LinkView, error: &LinkError) -> Fault {
    match error {
        LinkError::HostUnreachable { state, cause } => {
            let cause = cause
                .as_ref()
                .map(|cause| (cause.name(), cause.to_string()));
            let state = state.name();
            match cause {
                Some((name, text)) => Fault::new(
                    Reason::HostUnreachable,
                    format!("host `{host}` cannot be reached: {text}"),
                )
                .with("cause", name),
                None => Fault::new(
                    Reason::HostUnreachable,
                    format!("host `{host}` cannot be reached: {state}"),
                )
                .with("cause", state),
            }
            .with("host", host)
            .with_hint("`muster status` shows the hosts, and why one is not reached")
        }
        LinkError::Exhausted { .. } => Fault::new(
            Reason::StreamLimit,
            format!("all streams to host `{host}` are in use"),
        )
        .with("host", host),
        LinkError::Closed => unreachable_host(host, link).with("cause", "closed"),
    }
}

fn unreachable_host(host: &str, link: &LinkView) -> Fault {
    let cause = link.cause.clone().unwrap_or_else(|| "network".to_owned());
    Fault::new(
        Reason::HostUnreachable,
        format!("host `{host}` cannot be reached: {cause}"),
    )
    .with("host", host)
    .with("cause", cause)
    .with_hint("`muster status` shows the hosts, and why one is not reached")
}

/// The link's state in the words of the domain.
pub(super) fn state(state: &LinkState) -> Link {
    match state {
        LinkState::Connecting => Link::Connecting,
        LinkState::Connected => Link::Connected,
        LinkState::Suspect => Link::Suspect,
        LinkState::Unreachable { .. } => Link::Unreachable,
    }
}
