//! `HostsService`.

use muster_proto::{
    convert::{id, page},
    public::{self as pb, hosts_service_server::HostsService},
};
use tonic::{Request, Response, Status, async_trait};

use super::Rpc;

#[async_trait]
impl HostsService for Rpc {
    async fn get_host(
        &self,
        request: Request<pb::GetHostRequest>,
    ) -> Result<Response<pb::GetHostResponse>, Status> {
        let request = request.into_inner();
        self.answer("GetHost", async {
            let host = self.app.host(id::required("name", &request.name)?).await?;
            Ok(pb::GetHostResponse {
                host: Some((&host).into()),
            })
        })
        .await
    }

    async fn list_hosts(
        &self,
        request: Request<pb::ListHostsRequest>,
    ) -> Result<Response<pb::ListHostsResponse>, Status> {
        let request = request.into_inner();
        self.answer("ListHosts", async {
            let asked = page::request(request.page_size, request.page_token);
            let found = self.app.list_hosts(asked).await?;
            let (hosts, next_page_token) = page::page(found, |host| (&host).into());
            Ok(pb::ListHostsResponse {
                hosts,
                next_page_token,
            })
        })
        .await
    }
}
