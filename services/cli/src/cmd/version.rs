//! `muster version`.

use serde_json::json;

use crate::{context::Context, exit::Failure, out};

/// Prints the versions of this command and, when one answers, of the coordinator.
pub(crate) async fn run(context: &Context) -> Result<(), Failure> {
    let own = env!("CARGO_PKG_VERSION");
    let coordinator = match context.client() {
        Ok(client) => client.status().await.ok().map(|status| status.version),
        Err(_) => None,
    };
    if context.json {
        return out::json(&json!({ "version": own, "coordinator": coordinator }));
    }
    out::line(&format!("muster {own}"))?;
    match coordinator {
        Some(version) => out::line(&format!("coordinator {version}")),
        None => Ok(()),
    }
}
