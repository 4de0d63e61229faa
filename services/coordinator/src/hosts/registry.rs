//! All hosts of this coordinator.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

use muster_domain::HostId;

use super::{
    api::{HostApi, HostsApi},
    calls,
    host::Host,
};

/// The hosts that are being reached. Cheap to clone; all clones are the same registry.
#[derive(Debug, Clone, Default)]
pub struct Hosts {
    hosts: Arc<RwLock<BTreeMap<HostId, Arc<dyn HostApi>>>>,
}

impl Hosts {
    /// Adds a host, or replaces the one with its id, whose link then ends.
    pub fn insert(&self, host: &Arc<Host>) {
        self.insert_api(calls::shared(host));
    }

    /// As [`Hosts::insert`], for any kind of host.
    pub fn insert_api(&self, host: Arc<dyn HostApi>) {
        let mut hosts = self.hosts.write().unwrap_or_else(PoisonError::into_inner);
        hosts.insert(host.id(), host);
    }
}

impl HostsApi for Hosts {
    fn get(&self, id: HostId) -> Option<Arc<dyn HostApi>> {
        let hosts = self.hosts.read().unwrap_or_else(PoisonError::into_inner);
        hosts.get(&id).cloned()
    }

    fn all(&self) -> Vec<Arc<dyn HostApi>> {
        let hosts = self.hosts.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = hosts.values().cloned().collect();
        drop(hosts);
        all.sort_by_key(|host| host.name());
        all
    }
}
