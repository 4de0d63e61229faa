//! The machines.

use std::sync::Arc;

use muster_domain::{Fault, Reason, host, limits, page};

use super::{App, not_found};
use crate::hosts::api::HostApi;

impl App {
    /// A host by name.
    ///
    /// # Errors
    /// `HOST_NOT_FOUND`.
    pub async fn host(&self, name: &str) -> Result<host::View, Fault> {
        let row = self.parts.store.host_by_name(name).await?;
        let row = row.ok_or_else(|| not_found(Reason::HostNotFound, "host", name))?;
        Ok(self.views().host(row))
    }

    /// Hosts, by name. The token of a page is the name that the page before ended with.
    ///
    /// # Errors
    /// `BAD_PAGE_TOKEN`.
    pub async fn list_hosts(&self, page: page::Request) -> Result<page::Page<host::View>, Fault> {
        let rows = page.rows(limits::PAGE_DEFAULT, limits::PAGE_MAX) as usize;
        let hosts = self.parts.store.hosts().await?;
        if !page.token.is_empty() && hosts.iter().all(|host| host.name != page.token) {
            return Err(page::bad_token());
        }
        let mut later = hosts
            .into_iter()
            .filter(|host| host.name > page.token)
            .peekable();
        let taken: Vec<_> = later.by_ref().take(rows).collect();
        let next = later.peek().and(taken.last()).map(|host| host.name.clone());
        let views = self.views();
        Ok(page::Page {
            items: taken.into_iter().map(|row| views.host(row)).collect(),
            next,
        })
    }

    /// What reaches the host with this name.
    pub(super) async fn reach(&self, name: &str) -> Result<Arc<dyn HostApi>, Fault> {
        if name.is_empty() {
            return Err(Fault::missing("host"));
        }
        let row = self.parts.store.host_by_name(name).await?;
        row.and_then(|row| self.parts.hosts.get(row.id))
            .ok_or_else(|| not_found(Reason::HostNotFound, "host", name))
    }
}
