//! Control of programs while the store cannot be written.

use muster_domain::{
    Fault, Reason, SessionId,
    session::fold::{Command, Urgent, urgent},
};

use super::{
    Sessions,
    actor::{CALL, stop_call},
    api::Control,
    commands::{control, unreachable_host},
};
use crate::hosts::api::RunKey;

impl Sessions {
    /// Takes a stop or an interrupt: committed first. Where the store cannot be written, the host is asked all the
    /// same; what comes of it reaches the store with the report of the end.
    pub(super) async fn control(
        &self,
        session: SessionId,
        command: Command,
    ) -> Result<Control, Fault> {
        match self.ask(session, command.clone(), None).await {
            Ok(answer) => control(answer),
            Err(fault) if fault.reason() == Reason::StoreUnavailable => {
                self.at_host(session, &command, fault).await
            }
            Err(fault) => Err(fault),
        }
    }

    async fn at_host(
        &self,
        session: SessionId,
        command: &Command,
        refused: Fault,
    ) -> Result<Control, Fault> {
        let state = self.state(session).await?;
        let Some(urgent) = urgent(&state, command) else {
            return Err(refused);
        };
        let host = self.shared.hosts.get(state.spec.host);
        let host = host.ok_or_else(unreachable_host)?;
        let key = RunKey {
            session,
            run: state.run.no,
        };
        tracing::warn!(%session, cause = %refused, "asking the host without a record of it");
        let already_ended = match urgent {
            Urgent::Stop { rungs, survivors } => {
                let process = state.run.identity.clone();
                let call = stop_call(key, rungs, survivors, process);
                host.stop(call, CALL).await?.already_ended
            }
            Urgent::Signal(signal) => {
                host.signal(key, signal, CALL).await?;
                false
            }
        };
        let stops = matches!(command, Command::Stop { .. }) && !already_ended;
        Ok(Control {
            unwritten: if stops { state.waiting } else { 0 },
            state,
            already_ended,
            replayed: false,
            recorded: false,
        })
    }
}
