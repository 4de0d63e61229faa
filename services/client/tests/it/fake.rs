//! A coordinator in this process, over a connection that it can cut at any step.

mod feed;
mod messages;
mod sessions;
mod unused;

use std::{
    collections::VecDeque,
    io,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use muster_client::{Client, Fault, Options};
use muster_proto::{
    fault::into_status,
    public::{
        self as pb, feed_service_server::FeedServiceServer,
        messages_service_server::MessagesServiceServer,
        sessions_service_server::SessionsServiceServer,
    },
};
use muster_runtime::{ServerBuilder, Tasks};
use muster_transport::{
    Clock, Dial, DialFault, Faults, InProcess, SERVER_WINDOWS, dial::BoxIo, in_process,
};
use tonic::{Status, async_trait};

pub(crate) use feed::Outbox;
pub(crate) use sessions::Output;

/// What happens at the next step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// The next dial fails.
    RefuseDial,
    /// The next call is cut before it does anything.
    CutBefore,
    /// The next call is cut after it did everything.
    CutAfter,
    /// The next call works.
    Pass,
    /// The next call is refused.
    Refuse(Fault),
}

/// Everything that the coordinator knows, shared with the test.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) plan: VecDeque<Step>,
    /// Stored messages, in order.
    pub(crate) messages: Vec<pb::Message>,
    pub(crate) sessions: Vec<pb::Session>,
    /// Keys of starts that were made.
    pub(crate) starts: Vec<String>,
    pub(crate) output: Output,
    pub(crate) outbox: Outbox,
}

#[derive(Debug, Clone)]
pub(crate) struct Fake {
    state: Arc<Mutex<State>>,
    dial: InProcess,
    tasks: Tasks,
}

impl Fake {
    pub(crate) fn start() -> Self {
        let (dial, incoming) = in_process();
        let fake = Self {
            state: Arc::default(),
            dial,
            tasks: Tasks::new("fake"),
        };
        let server = ServerBuilder::new(SERVER_WINDOWS)
            .service(MessagesServiceServer::new(fake.clone()))
            .service(SessionsServiceServer::new(fake.clone()))
            .service(FeedServiceServer::new(fake.clone()));
        let token = fake.tasks.token();
        fake.tasks
            .spawn("serve", server.serve(incoming, token, Duration::ZERO));
        fake
    }

    /// A client that tries again at once.
    pub(crate) fn client(&self) -> Client {
        let options = Options {
            backoff: Duration::from_millis(3),
            clock: Clock::system(),
            ..Options::default()
        };
        Client::with_dial(Arc::new(self.clone()), "test:", options)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn plan(&self, steps: &[Step]) {
        self.state().plan = steps.to_vec().into();
    }

    pub(crate) fn faults(&self) -> Faults {
        self.dial.faults()
    }

    pub(crate) async fn stop(self) {
        let _ = self.tasks.shutdown(crate::LONG).await;
    }

    /// Cuts every connection; nothing comes of this call any more.
    async fn cut<T>(&self) -> T {
        self.faults().cut();
        std::future::pending().await
    }

    /// One call as planned.
    async fn planned<T>(
        &self,
        act: impl FnOnce(&mut State) -> Result<T, Fault>,
    ) -> Result<T, Status> {
        let step = {
            let mut state = self.state();
            match state.plan.front() {
                None | Some(Step::RefuseDial) => Step::Pass,
                Some(_) => state.plan.pop_front().unwrap(),
            }
        };
        match step {
            Step::CutBefore => self.cut().await,
            Step::Refuse(fault) => Err(into_status(&fault)),
            Step::CutAfter => {
                let _ = act(&mut self.state());
                self.cut().await
            }
            Step::Pass | Step::RefuseDial => {
                act(&mut self.state()).map_err(|fault| into_status(&fault))
            }
        }
    }
}

#[async_trait]
impl Dial for Fake {
    async fn dial(&self) -> io::Result<BoxIo> {
        let refused = {
            let mut state = self.state();
            state
                .plan
                .pop_front_if(|step| *step == Step::RefuseDial)
                .is_some()
        };
        if refused {
            return Err(DialFault::AgentDown.error(io::ErrorKind::ConnectionRefused.into()));
        }
        self.dial.dial().await
    }
}
