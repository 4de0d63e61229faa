//! The machine and this agent on it: who they are, what they allow, and which coordinator
//! may still give orders.

mod audit;
mod epoch;
mod limits;

use std::path::PathBuf;

use muster_domain::{Fault, Reason, Timestamp};
use muster_proto::{
    agent::{HelloRequest, HelloResponse},
    convert::time::timestamp,
};
use muster_runtime::Clock;

pub(crate) use audit::{Audit, Entry};
pub(crate) use epoch::Epochs;
pub(crate) use limits::{DiskFloor, read_limits};

/// Lowest version of the agent protocol that this build speaks.
const PROTOCOL_MIN: u32 = 1;
/// Highest.
const PROTOCOL_MAX: u32 = 1;
/// Optional features, by name.
const FEATURES: &[&str] = &["tails", "files", "pipes", "processes"];

/// What does not change while the agent runs.
#[derive(Clone, Debug)]
pub(crate) struct HostFacts {
    pub(crate) instance_id: String,
    pub(crate) boot_id: String,
    pub(crate) started_at: Timestamp,
    pub(crate) user_home: PathBuf,
    pub(crate) agent_home: PathBuf,
    pub(crate) disk_floor: DiskFloor,
}

impl HostFacts {
    /// The answer to a greeting that speaks a version of ours.
    pub(crate) fn hello(
        &self,
        clock: &Clock,
        request: &HelloRequest,
    ) -> Result<HelloResponse, Fault> {
        let protocol = common(request.protocol_min, request.protocol_max)?;
        let system = rustix::system::uname();
        let now = Timestamp::from_micros(clock.now_micros());
        Ok(HelloResponse {
            protocol,
            protocol_min: PROTOCOL_MIN,
            protocol_max: PROTOCOL_MAX,
            build: env!("CARGO_PKG_VERSION").to_owned(),
            features: FEATURES.iter().map(|&name| name.to_owned()).collect(),
            instance_id: self.instance_id.clone(),
            boot_id: self.boot_id.clone(),
            pid: rustix::process::getpid().as_raw_nonzero().get(),
            started_at: Some(timestamp(self.started_at)),
            now: Some(timestamp(now)),
            limits: Some(read_limits(&self.agent_home, self.disk_floor)),
            os: system.sysname().to_string_lossy().into_owned(),
            arch: system.machine().to_string_lossy().into_owned(),
            host_name: system.nodename().to_string_lossy().into_owned(),
            user_home: self.user_home.to_string_lossy().into_owned(),
            agent_home: self.agent_home.to_string_lossy().into_owned(),
        })
    }
}

/// The highest version that both sides speak.
fn common(min: u32, max: u32) -> Result<u32, Fault> {
    let version = max.min(PROTOCOL_MAX);
    if min <= version && version >= PROTOCOL_MIN {
        return Ok(version);
    }
    let why = format!(
        "the agent speaks protocol {PROTOCOL_MIN} to {PROTOCOL_MAX}, the coordinator {min} to {max}"
    );
    Err(Fault::new(Reason::Incompatible, why)
        .with_hint("upgrade the older of the two")
        .with("protocol_min", PROTOCOL_MIN)
        .with("protocol_max", PROTOCOL_MAX)
        .with("caller_min", min)
        .with("caller_max", max)
        .with("build", env!("CARGO_PKG_VERSION")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h9_ranges_that_overlap_meet_at_the_highest_common_version() {
        for (min, max, expected) in [
            (1, 1, Some(1)),
            (1, 7, Some(1)),
            (0, 1, Some(1)),
            (2, 7, None),
            (0, 0, None),
            (7, 1, None),
        ] {
            let fault = match common(min, max) {
                Ok(version) => {
                    assert_eq!(Some(version), expected, "{min}..{max}");
                    continue;
                }
                Err(fault) => fault,
            };
            assert_eq!(expected, None, "{min}..{max}");
            assert_eq!(fault.reason(), Reason::Incompatible);
            assert_eq!(fault.metadata()["protocol_max"], "1");
        }
    }
}
