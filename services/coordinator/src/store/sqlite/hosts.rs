//! Reads of hosts.

use async_trait::async_trait;
use muster_domain::{HostId, host::Host};

use super::{
    super::{Hosts, Result},
    SqliteStore,
    read::{document, readable, unavailable},
};

const LIST: &str = "SELECT doc FROM hosts ORDER BY name";
const GET: &str = "SELECT doc FROM hosts WHERE id = $1";
const BY_NAME: &str = "SELECT doc FROM hosts WHERE name = $1";

impl SqliteStore {
    async fn host_where(&self, sql: &'static str, value: &str) -> Result<Option<Host>> {
        let doc: Option<String> = sqlx::query_scalar(sql)
            .bind(value)
            .fetch_optional(&self.readers)
            .await
            .map_err(unavailable)?;
        doc.as_deref().map(document).transpose()
    }
}

#[async_trait]
impl Hosts for SqliteStore {
    async fn hosts(&self) -> Result<Vec<Host>> {
        let docs: Vec<String> = sqlx::query_scalar(LIST)
            .fetch_all(&self.readers)
            .await
            .map_err(unavailable)?;
        Ok(docs
            .iter()
            .filter_map(|doc| readable(document(doc)))
            .collect())
    }

    async fn host(&self, id: HostId) -> Result<Option<Host>> {
        self.host_where(GET, &id.to_string()).await
    }

    async fn host_by_name(&self, name: &str) -> Result<Option<Host>> {
        self.host_where(BY_NAME, name).await
    }
}
