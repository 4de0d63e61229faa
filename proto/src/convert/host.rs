//! Hosts.

use muster_domain::host::View;

use super::{enums, time};
use crate::public;

impl From<&View> for public::Host {
    fn from(view: &View) -> Self {
        let agent = view.agent.clone().unwrap_or_default();
        Self {
            id: view.host.id.to_string(),
            name: view.host.name.clone(),
            address: view.host.dialler.to_string(),
            link: enums::number::<public::LinkState>(view.link),
            cause: view.cause.clone().unwrap_or_default(),
            attempts: view.attempts,
            next_try_at: time::timestamp_opt(view.next_try),
            since: Some(time::timestamp(view.since)),
            agent_pid: agent.pid,
            agent_version: agent.version,
            instance_id: agent.instance,
            boot_id: if agent.boot.is_empty() {
                view.host.boot.clone().unwrap_or_default()
            } else {
                agent.boot
            },
            sessions: view.sessions,
            os: agent.os,
            arch: agent.arch,
            warnings: agent.warnings,
        }
    }
}
