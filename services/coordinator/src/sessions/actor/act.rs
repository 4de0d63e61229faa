//! What a fold wants done in the world.

use std::sync::Arc;

use muster_domain::session::{
    Identity,
    fold::{Action, Fact},
};

use super::running::Running;
use crate::{
    hosts::api::{DeliverCall, HostApi, RunKey},
    store,
};

impl Running {
    /// Begins to do it. Everything in it is committed.
    pub(super) fn act(&mut self, store: &store::Handle, action: Action) {
        let session = self.fold.state().spec.id;
        let key = |run| RunKey { session, run };
        if let Action::Recall { run, bytes } = action {
            return self.calls.recall(store.clone(), key(run), bytes);
        }
        let Some(host) = self.reach.host().cloned() else {
            return self.cannot(&action);
        };
        match action {
            Action::Spawn { run } => {
                let spec = &self.fold.state().spec;
                self.calls.spawn(host, key(run), spec);
            }
            Action::AskRun { run } => self.calls.ask_run(host, key(run), self.program()),
            Action::Deliver {
                run,
                delivery,
                payload,
                single_line,
            } => {
                let call = DeliverCall {
                    key: key(run),
                    delivery,
                    payload: payload.into(),
                    single_line,
                };
                self.calls.deliver(host, call);
            }
            Action::AskDelivery { run, delivery } => {
                self.calls.ask_delivery(host, key(run), delivery);
            }
            Action::Stop {
                run,
                rungs,
                survivors,
            } => {
                let process = self.program();
                self.calls.stop(host, key(run), rungs, survivors, process);
            }
            Action::Signal { run, signal } => self.calls.signal(host, key(run), signal),
            Action::Attach { run, cursor } => self.attach(host, key(run), cursor),
            Action::Detach { run: _ } => self.tail.detach(),
            Action::Recall { .. } => {}
        }
    }

    /// The program of the latest run, for a host that may find its folder gone.
    fn program(&self) -> Option<Identity> {
        self.fold.state().run.identity.clone()
    }

    fn attach(&mut self, host: Arc<dyn HostApi>, key: RunKey, cursor: Vec<u8>) {
        let consumed = self.fold.state().run.file_consumed();
        self.tail.attach(host, key, cursor, consumed);
    }

    /// There is no such host any more; the fold decides again when there is.
    fn cannot(&mut self, action: &Action) {
        match *action {
            Action::Spawn { run } | Action::AskRun { run } => {
                self.calls.failed(Fact::RunUnknown { run });
            }
            Action::Deliver { delivery, .. } | Action::AskDelivery { delivery, .. } => {
                self.calls.failed(Fact::DeliveryUnknown { delivery });
            }
            Action::Stop { run, .. } | Action::Signal { run, .. } => {
                self.calls.failed(Fact::ControlUnknown { run });
            }
            Action::Attach { run, .. } => self.tail.lost(run),
            Action::Detach { run: _ } => self.tail.detach(),
            // It asks no host.
            Action::Recall { .. } => {}
        }
    }
}
