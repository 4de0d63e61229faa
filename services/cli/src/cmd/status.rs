//! `muster status`.

use futures_util::{StreamExt as _, TryStreamExt as _};
use muster_client::{api::Host, json, pages};
use serde_json::json;

use crate::{context::Context, exit::Failure, out, table};

/// Hosts that are shown at most.
const HOSTS: usize = 10_000;

/// Prints what runs, and which hosts are reached.
pub(crate) async fn run(context: &Context) -> Result<(), Failure> {
    let client = context.client()?;
    let status = client.status().await?;
    let hosts: Vec<Host> = Box::pin(pages(|page| client.list_hosts(page)).take(HOSTS))
        .try_collect()
        .await?;
    if context.json {
        let hosts: Vec<_> = hosts.iter().map(json).collect();
        let coordinator = json(&status);
        return out::json(&json!({ "coordinator": coordinator, "hosts": hosts }));
    }
    out::bytes(
        table::pairs(&[
            (
                "coordinator",
                format!("pid {}, version {}", status.pid, status.version),
            ),
            ("address", status.address.clone()),
            ("database", status.database.clone()),
            ("data", status.data_dir.clone()),
            (
                "ready",
                if status.ready { "yes" } else { "not yet" }.to_owned(),
            ),
        ])
        .as_bytes(),
    )?;
    let rows: Vec<Vec<String>> = hosts
        .iter()
        .map(|host| {
            let word = json(host)["link"].as_str().unwrap_or_default().to_owned();
            let link = if host.cause.is_empty() {
                word
            } else {
                format!("{word} ({})", host.cause)
            };
            let agent = if host.agent_pid == 0 {
                String::new()
            } else {
                host.agent_pid.to_string()
            };
            vec![
                host.name.clone(),
                link,
                agent,
                host.agent_version.clone(),
                host.sessions.to_string(),
                host.address.clone(),
            ]
        })
        .collect();
    out::bytes(
        table::render(
            &["HOST", "LINK", "AGENT", "VERSION", "SESSIONS", "ADDRESS"],
            &rows,
        )
        .as_bytes(),
    )?;
    for host in &hosts {
        for warning in &host.warnings {
            out::note(&format!("warning: {}: {warning}", host.name));
        }
    }
    Ok(())
}
