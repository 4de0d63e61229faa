//! `SystemService`.

use std::time::Duration;

use muster_proto::public::{self as pb, system_service_server::SystemService};
use tonic::{Request, Response, Status, async_trait};

use super::Rpc;
use crate::app::StopAll;

/// Stopping every session takes their ladders' time.
const SHUTDOWN: Duration = Duration::from_secs(120);

#[async_trait]
impl SystemService for Rpc {
    async fn get_status(
        &self,
        _request: Request<pb::GetStatusRequest>,
    ) -> Result<Response<pb::GetStatusResponse>, Status> {
        self.answer("GetStatus", async {
            let status = self.app.status();
            Ok(pb::GetStatusResponse {
                pid: i32::try_from(std::process::id()).unwrap_or_default(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                address: status.about.address,
                database: status.about.database,
                ready: status.ready,
                workspace_id: status.workspace.to_string(),
                data_dir: status.about.data_dir.to_string_lossy().into_owned(),
            })
        })
        .await
    }

    async fn shutdown(
        &self,
        request: Request<pb::ShutdownRequest>,
    ) -> Result<Response<pb::ShutdownResponse>, Status> {
        let request = request.into_inner();
        self.answer_within("Shutdown", SHUTDOWN, async {
            let what = StopAll {
                sessions: request.stop_sessions,
                agent: request.stop_agent,
            };
            let done = self.app.shutdown(what).await?;
            let failure = done.agent_failure.map(|fault| fault.to_string());
            Ok(pb::ShutdownResponse {
                stopped_sessions: done.stopped,
                stopping_sessions: done.stopping,
                agent_failure: failure.unwrap_or_default(),
            })
        })
        .await
    }
}
