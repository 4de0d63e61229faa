//! The coordinator, its hosts, and what asks for a person.

use muster_domain::{Fault, limits, page};
use muster_proto::public as pb;

use super::{Page, call, page as to_page, there};
use crate::{
    Client,
    api::{Host, Interaction, Status},
};

/// What a coordinator did before it ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ShutDown {
    /// Sessions that were stopped.
    pub stopped_sessions: u32,
    /// Sessions that were told to end and have not yet; their keepers go on with it.
    pub stopping_sessions: u32,
    /// Why the host agent was not told to end, where it should have been.
    pub agent_failure: Option<String>,
}

impl Client {
    /// The coordinator itself.
    ///
    /// # Errors
    /// `COORDINATOR_UNREACHABLE`.
    pub async fn status(&self) -> Result<Status, Fault> {
        let request = pb::GetStatusRequest {};
        self.again(self.call_deadline(), call!(system.get_status(request)))
            .await
    }

    /// Ends the coordinator; gives what was stopped first.
    ///
    /// # Errors
    /// `COORDINATOR_UNREACHABLE`: it may have ended before it answered.
    pub async fn shutdown(&self, stop_sessions: bool, stop_agent: bool) -> Result<ShutDown, Fault> {
        let request = pb::ShutdownRequest {
            stop_sessions,
            stop_agent,
        };
        let deadline = self.call_deadline().max(limits::START_DEADLINE);
        let answer = self.once(deadline, call!(system.shutdown(request))).await?;
        Ok(ShutDown {
            stopped_sessions: answer.stopped_sessions,
            stopping_sessions: answer.stopping_sessions,
            agent_failure: Some(answer.agent_failure).filter(|failure| !failure.is_empty()),
        })
    }

    /// A host by its name.
    ///
    /// # Errors
    /// `HOST_NOT_FOUND`, `COORDINATOR_UNREACHABLE`.
    pub async fn get_host(&self, name: &str) -> Result<Host, Fault> {
        let request = pb::GetHostRequest {
            name: name.to_owned(),
        };
        let answer = self
            .again(self.call_deadline(), call!(hosts.get_host(request)))
            .await?;
        there(answer.host, "host")
    }

    /// The hosts, by name.
    ///
    /// # Errors
    /// `BAD_PAGE_TOKEN`, `COORDINATOR_UNREACHABLE`.
    pub async fn list_hosts(&self, page: page::Request) -> Result<Page<Host>, Fault> {
        let request = pb::ListHostsRequest {
            page_size: page.size,
            page_token: page.token,
        };
        let answer = self
            .again(self.call_deadline(), call!(hosts.list_hosts(request)))
            .await?;
        Ok(to_page(answer.hosts, answer.next_page_token))
    }

    /// Permissions, questions and plans, open ones first; of one session, or of all.
    ///
    /// # Errors
    /// `BAD_PAGE_TOKEN`, `COORDINATOR_UNREACHABLE`.
    pub async fn list_interactions(
        &self,
        session: Option<&str>,
        page: page::Request,
    ) -> Result<Page<Interaction>, Fault> {
        let request = pb::ListInteractionsRequest {
            page_size: page.size,
            page_token: page.token,
            session_id: session.unwrap_or_default().to_owned(),
        };
        let call = call!(interactions.list_interactions(request));
        let answer = self.again(self.call_deadline(), call).await?;
        Ok(to_page(answer.interactions, answer.next_page_token))
    }
}
