//! `muster wait`.

use muster_client::{WaitFor, json};

use crate::{args, context::Context, exit::Failure, out};

/// Waits for a session; ends well only at the real end.
pub(crate) async fn run(context: &Context, wait: args::Wait) -> Result<(), Failure> {
    let client = context.client()?;
    let wait_for = match wait.wait_for {
        args::WaitFor::Exit => WaitFor::Exit,
        args::WaitFor::Attention => WaitFor::Attention,
        args::WaitFor::Idle => {
            client.get_session(&wait.session).await?;
            return Err(Failure::failed("a generic program is never idle")
                .hint("`--for exit` waits for its end"));
        }
    };
    let session = client
        .wait_session(&wait.session, wait_for, wait.timeout)
        .await?;
    if context.json {
        out::json(&json(&session))
    } else {
        Ok(())
    }
}
