//! `muster wait`.

use muster_client::{Reason, WaitFor, json};

use super::session::word;
use crate::{args, context::Context, cuts::Cuts, exit::Failure, out};

/// Waits for a session; ends well only at the real end.
pub(crate) async fn run(context: &Context, wait: args::Wait) -> Result<(), Failure> {
    let client = context.client()?;
    let wait_for = match wait.wait_for {
        args::WaitFor::Exit => WaitFor::Exit,
        args::WaitFor::Attention => WaitFor::Attention,
        args::WaitFor::Idle => {
            client.get_session(&wait.session).await?;
            return Err(Failure::failed("a generic program is never idle")
                .reason(Reason::Unsupported.as_str())
                .hint("`--for exit` waits for its end"));
        }
    };
    let mut cuts = Cuts::new();
    let session = client
        .wait_session_told(&wait.session, wait_for, wait.timeout, |cut| match cut {
            Some(cause) => cuts.cut(cause),
            None => cuts.alive(),
        })
        .await?;
    if context.json {
        out::json(&json(&session))
    } else {
        out::line(&word(&session, "status"))
    }
}
