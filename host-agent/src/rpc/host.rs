use std::time::Duration;

use async_stream::try_stream;
use futures_util::Stream;
use muster_domain::{Fault, limits};
use muster_proto::{
    agent::{
        Beat, DrainRequest, DrainResponse, HelloRequest, HelloResponse, Limits, Moved,
        WatchRequest, WatchResponse, host_service_server::HostService, watch_response::Event,
    },
    convert,
};
use tonic::{Request, Response, Status, Streaming, async_trait};

use super::{Responses, Services, admitted, enter, refuse};
use crate::host::read_limits;

/// How often limits are looked at.
const LIMITS_EVERY: Duration = Duration::from_secs(10);

#[async_trait]
impl HostService for Services {
    type WatchStream = Responses<WatchResponse>;

    async fn hello(
        &self,
        request: Request<HelloRequest>,
    ) -> Result<Response<HelloResponse>, Status> {
        let request = request.into_inner();
        convert::id::required("coordinator_id", &request.coordinator_id)
            .map_err(|fault| refuse(&fault))?;
        let answer = self.blocking("hello", move |shared| {
            let answer = shared.facts.hello(&shared.clock, &request)?;
            shared.epochs.check(request.epoch)?;
            Ok(answer)
        });
        answer.await.map(Response::new)
    }

    async fn watch(
        &self,
        request: Request<Streaming<WatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let permit = enter(&request)?;
        let events = self.clone().beats(request.into_inner());
        Ok(Response::new(admitted(permit, events)))
    }

    async fn drain(
        &self,
        request: Request<DrainRequest>,
    ) -> Result<Response<DrainResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        let order = self.order("Host.Drain", &extensions, request.mutation, String::new());
        self.audited(order, 0, |_| async {
            tracing::info!("drain: the agent ends, sessions go on");
            // This call is among those that the server lets finish.
            self.shared.tasks.token().cancel();
            Ok(Response::new(DrainResponse {}))
        })
        .await
    }
}

impl Services {
    fn beats(
        self,
        mut theirs: Streaming<WatchRequest>,
    ) -> impl Stream<Item = Result<WatchResponse, Fault>> + Send {
        let clock = self.shared.clock.clone();
        let token = self.shared.tasks.token();
        try_stream! {
            let mut echo = 0;
            let mut beat = 0;
            let mut next_beat = clock.boottime();
            let mut next_limits = next_beat;
            let mut known = Limits::default();
            loop {
                let now = clock.boottime();
                if now >= next_beat {
                    next_beat = now + limits::BEAT;
                    beat += 1;
                    let boottime = Some(convert::time::duration(now));
                    yield event(Event::Beat(Beat { echo, beat, boottime }));
                }
                if now >= next_limits {
                    next_limits = now + LIMITS_EVERY;
                    let limits = self.limits().await?;
                    if changed(&known, &limits) {
                        known = limits.clone();
                        yield event(Event::Limits(limits));
                    }
                }
                tokio::select! {
                    () = token.cancelled() => {
                        yield event(Event::Moved(Moved {}));
                        return;
                    }
                    () = clock.sleep_until(next_beat.min(next_limits)) => {}
                    received = theirs.message() => match received {
                        Ok(Some(request)) => echo = request.beat,
                        // The caller is gone, and with it the reader of this stream.
                        Ok(None) | Err(_) => return,
                    },
                }
            }
        }
    }

    async fn limits(&self) -> Result<Limits, Fault> {
        let shared = self.shared.clone();
        let read = move || read_limits(&shared.facts.agent_home, shared.facts.disk_floor);
        let read = self.shared.tasks.spawn_blocking("limits", read);
        read.await.map_err(Fault::internal)
    }
}

/// Figures move all the time; only new maxima and new warnings are news.
fn changed(known: &Limits, now: &Limits) -> bool {
    let fixed = |limits: &Limits| {
        (
            limits.inotify_watches_max,
            limits.inotify_instances_max,
            limits.open_files_max,
            limits.pids_max,
            limits.disk_total_bytes,
            limits.warnings.len(),
        )
    };
    fixed(known) != fixed(now)
}

fn event(event: Event) -> WatchResponse {
    WatchResponse { event: Some(event) }
}
