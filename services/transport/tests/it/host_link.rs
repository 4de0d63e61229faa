use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use muster_runtime::{Clock, ManualClock, PeerListener, PeerPolicy, Tasks, socket};
use muster_transport::{
    Bootstrap, BootstrapError, Cause, Dial, DialFault, Faults, Handshake, HelloOk, HostLink,
    InProcess, LinkConfig, LinkError, LinkParts, LinkState, LinkView, Profile, ProtocolRange,
    Pulse, Unix, in_process,
};
use tonic::transport::Channel;

use crate::{
    LONG,
    service::{Served, echo},
    soon, until,
};

/// Says hello with a real call; a test may order another answer.
#[derive(Debug, Default)]
struct Greeter {
    failure: Mutex<Option<Cause>>,
    hangs: Mutex<bool>,
    hellos: AtomicUsize,
}

#[async_trait]
impl Handshake for Greeter {
    async fn hello(&self, channel: Channel) -> Result<HelloOk, Cause> {
        self.hellos.fetch_add(1, Ordering::SeqCst);
        let (failure, hangs) = (
            self.failure.lock().expect("not poisoned").clone(),
            *self.hangs.lock().expect("not poisoned"),
        );
        if hangs {
            std::future::pending::<()>().await;
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
        let build = echo(channel, "build").await.map_err(|_| Cause::Network)?;
        Ok(HelloOk {
            build,
            ..HelloOk::default()
        })
    }

    async fn watch(&self, _channel: Channel, pulse: Pulse) {
        pulse.beat();
        std::future::pending::<()>().await;
    }
}

/// Counts its calls and then does what `faults` need to be reachable, or fails.
#[derive(Debug)]
struct Starter {
    faults: Faults,
    fails: bool,
    calls: AtomicUsize,
}

#[async_trait]
impl Bootstrap for Starter {
    async fn bootstrap(&self) -> Result<(), BootstrapError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        if self.fails {
            return Err(BootstrapError::new("no space left on the host"));
        }
        self.faults.refuse(None);
        Ok(())
    }
}

struct World {
    tasks: Tasks,
    clock: Clock,
    hand: ManualClock,
    dial: InProcess,
    _served: Served,
    greeter: Arc<Greeter>,
    config: LinkConfig,
}

impl World {
    fn new() -> Self {
        let (clock, hand) = Clock::manual();
        let (dial, incoming) = in_process();
        Self {
            tasks: Tasks::new("test"),
            clock,
            hand,
            dial,
            _served: Served::new(incoming),
            greeter: Arc::new(Greeter::default()),
            config: LinkConfig::default(),
        }
    }

    fn link(&self, bootstrap: Option<Arc<dyn Bootstrap>>) -> HostLink {
        let parts = LinkParts {
            dial: Arc::new(self.dial.clone()),
            bootstrap,
            handshake: self.greeter.clone(),
            clock: self.clock.clone(),
            config: self.config,
        };
        HostLink::spawn(&self.tasks, "host", parts)
    }

    async fn connected(&self) -> HostLink {
        let link = self.link(None);
        reaches(&link, LinkState::is_up).await;
        link
    }

    /// Lets time pass in ticks until the link is there, but not while it has work to do whose
    /// deadlines would pass as well.
    async fn pass_time_until(&self, link: &HostLink, condition: impl Fn(&LinkView) -> bool) {
        let view = link.view();
        until("the link's state", || {
            let (done, waits) = {
                let view = view.borrow();
                (
                    condition(&view),
                    view.state.is_up() || view.next_try_at.is_some(),
                )
            };
            if !done && waits {
                self.hand.advance(Duration::from_secs(1));
            }
            done
        })
        .await;
    }
}

async fn reaches(link: &HostLink, condition: impl Fn(&LinkState) -> bool) -> LinkView {
    let mut view = link.view();
    let view = soon(
        "the link's state",
        view.wait_for(|view| condition(&view.state)),
    )
    .await;
    view.expect("the link lives").clone()
}

fn unreachable(cause: Cause) -> LinkState {
    LinkState::Unreachable { cause }
}

#[tokio::test]
async fn a_link_comes_up_and_carries_calls() {
    let world = World::new();
    let link = world.connected().await;
    let channel = soon("a channel", link.control(LONG)).await.unwrap();
    assert_eq!(echo(channel, "hi").await.unwrap(), "hi");
    let view = link.view().borrow().clone();
    assert_eq!((view.generation, view.attempts), (1, 0));
    assert_eq!(view.hello.unwrap().build, "build");
    link.close();
    let error = soon("the end", async {
        loop {
            if let Err(error) = link.control(LONG).await {
                break error;
            }
            tokio::task::yield_now().await;
        }
    });
    assert_eq!(error.await, LinkError::Closed);
    world.tasks.shutdown(LONG).await.unwrap();
}

#[tokio::test]
async fn h4_a_reconnect_shares_nothing_with_the_failed_connection() {
    let world = World::new();
    let link = world.connected().await;
    let old = link.control(LONG).await.unwrap();
    let old_tail = link.tails(LONG).await.unwrap();
    world.dial.faults().cut();
    world
        .pass_time_until(&link, |view| view.generation == 2)
        .await;
    soon("an error", echo(old, "old")).await.unwrap_err();
    soon("an error", echo(old_tail.channel(), "old"))
        .await
        .unwrap_err();
    let new = link.control(LONG).await.unwrap();
    assert_eq!(soon("an answer", echo(new, "new")).await.unwrap(), "new");
    let tail = soon("a tail", link.tails(LONG)).await.unwrap();
    assert_eq!(
        soon("an answer", echo(tail.channel(), "t")).await.unwrap(),
        "t"
    );
}

#[tokio::test]
async fn h4_a_black_hole_is_suspect_then_unreachable_then_found_again() {
    let world = World::new();
    let link = world.connected().await;
    world.dial.faults().black_hole(true);
    world
        .pass_time_until(&link, |view| view.state == LinkState::Suspect)
        .await;
    let since = link.view().borrow().since;
    world
        .pass_time_until(&link, |view| {
            matches!(view.state, LinkState::Unreachable { .. })
        })
        .await;
    let view = link.view().borrow().clone();
    assert_eq!(view.state, unreachable(Cause::Network));
    assert!(view.since <= since + Duration::from_secs(17), "{view:?}");

    // A caller waits up to its own deadline and learns the cause.
    let waits = link.control(Duration::from_secs(3));
    let moves = async {
        world.hand.wait_for_sleepers(2).await;
        world.hand.advance(Duration::from_secs(3));
    };
    let (result, ()) = soon("the deadline", async { tokio::join!(waits, moves) }).await;
    let error = result.unwrap_err();
    assert!(
        matches!(
            &error,
            LinkError::HostUnreachable {
                cause: Some(Cause::Network),
                ..
            }
        ),
        "{error}"
    );

    world.dial.faults().black_hole(false);
    soon("a connection", async {
        while !link.view().borrow().state.is_up() {
            // Also frees an attempt that began inside the hole from waiting for its deadline.
            world.hand.advance(Duration::from_millis(100));
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    assert_eq!(link.view().borrow().generation, 2);
}

#[tokio::test]
async fn h5_a_sleep_costs_a_probe_and_no_connection() {
    let world = World::new();
    let link = world.connected().await;
    world.hand.wait_for_sleepers(1).await;
    world.hand.advance(Duration::from_secs(3600));
    world
        .pass_time_until(&link, |view| {
            world.greeter.hellos.load(Ordering::SeqCst) >= 2 && view.state == LinkState::Connected
        })
        .await;
    assert_eq!(link.view().borrow().generation, 1);
}

#[tokio::test]
async fn h1_agent_down_is_bootstrapped() {
    let world = World::new();
    world.dial.faults().refuse(Some(DialFault::AgentDown));
    let starter = Arc::new(Starter {
        faults: world.dial.faults(),
        fails: false,
        calls: AtomicUsize::new(0),
    });
    let link = world.link(Some(starter.clone()));
    reaches(&link, LinkState::is_up).await;
    assert_eq!(starter.calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn h1_an_agent_that_ends_as_it_was_told_is_not_started_again() {
    let world = World::new();
    let starter = Arc::new(Starter {
        faults: world.dial.faults(),
        fails: false,
        calls: AtomicUsize::new(0),
    });
    let link = world.link(Some(starter.clone()));
    reaches(&link, LinkState::is_up).await;
    link.rest();
    world.dial.faults().refuse(Some(DialFault::AgentDown));
    world.dial.faults().cut();
    world
        .pass_time_until(&link, |view| view.cause() == Some(&Cause::AgentDown))
        .await;
    soon("the agent is gone", link.agent_down()).await;
    assert_eq!(starter.calls.load(Ordering::SeqCst), 0);
    link.retry_now();
    reaches(&link, LinkState::is_up).await;
    assert_eq!(starter.calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_failing_bootstrap_says_why() {
    let world = World::new();
    world.dial.faults().refuse(Some(DialFault::AgentDown));
    let starter = Arc::new(Starter {
        faults: world.dial.faults(),
        fails: true,
        calls: AtomicUsize::new(0),
    });
    let link = world.link(Some(starter));
    let view = reaches(&link, |state| {
        matches!(state, LinkState::Unreachable { .. })
    })
    .await;
    let text = "no space left on the host".to_owned();
    assert_eq!(view.state, unreachable(Cause::BootstrapFailed { text }));
    assert_eq!(view.attempts, 1);
    assert!(view.next_try_at.is_some());
}

#[tokio::test]
async fn h4_a_refused_host_key_is_not_retried_by_itself() {
    let world = World::new();
    world.dial.faults().refuse(Some(DialFault::HostKeyRefused));
    let link = world.link(None);
    let view = reaches(&link, |state| {
        matches!(state, LinkState::Unreachable { .. })
    })
    .await;
    assert_eq!(view.state, unreachable(Cause::HostKeyRefused));
    assert_eq!(view.next_try_at, None);
    world.dial.faults().refuse(None);
    for _ in 0..10 {
        world.hand.advance(Duration::from_secs(3600));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(link.view().borrow().attempts, 1);
    assert!(!link.view().borrow().state.is_up());
    link.retry_now();
    reaches(&link, LinkState::is_up).await;
}

#[tokio::test]
async fn h9_an_incompatible_agent_is_named_with_both_versions() {
    let world = World::new();
    let cause = Cause::Incompatible {
        ours: ProtocolRange { min: 1, max: 1 },
        theirs: ProtocolRange { min: 2, max: 3 },
    };
    *world.greeter.failure.lock().unwrap() = Some(cause.clone());
    let link = world.link(None);
    let view = reaches(&link, |state| {
        matches!(state, LinkState::Unreachable { .. })
    })
    .await;
    assert_eq!(view.state, unreachable(cause));
    // An upgraded agent is found by itself.
    *world.greeter.failure.lock().unwrap() = None;
    world
        .pass_time_until(&link, |view| view.state.is_up())
        .await;
}

#[tokio::test]
async fn h4_an_agent_that_does_not_answer_is_wedged() {
    let world = World::new();
    *world.greeter.hangs.lock().unwrap() = true;
    let link = world.link(None);
    until("a hello", || {
        world.greeter.hellos.load(Ordering::SeqCst) == 1
    })
    .await;
    // The tick and the deadline of the hello.
    world.hand.wait_for_sleepers(2).await;
    world.hand.advance(Duration::from_secs(10));
    let view = reaches(&link, |state| {
        matches!(state, LinkState::Unreachable { .. })
    })
    .await;
    assert_eq!(view.state, unreachable(Cause::AgentWedged));
}

#[tokio::test]
async fn tails_share_a_connection_by_256_and_are_capped() {
    let mut world = World::new();
    world.config.max_tail_connections = 2;
    let link = world.connected().await;
    let mut tails = Vec::new();
    for _ in 0..512 {
        tails.push(soon("a tail", link.tails(LONG)).await.unwrap());
    }
    let error = soon("an answer", link.tails(LONG)).await.unwrap_err();
    assert_eq!(
        error,
        LinkError::Exhausted {
            profile: Profile::Tails
        }
    );
    for tail in [&tails[0], &tails[511]] {
        assert_eq!(echo(tail.channel(), "t").await.unwrap(), "t");
    }
    tails.pop();
    let (channel, permit) = soon("a tail", link.tails(LONG)).await.unwrap().into_parts();
    assert_eq!(echo(channel, "t").await.unwrap(), "t");
    drop(permit);
}

#[tokio::test]
async fn a_fifth_file_waits_for_a_place() {
    let world = World::new();
    let link = world.connected().await;
    let mut files = Vec::new();
    for _ in 0..4 {
        files.push(soon("a file", link.files(LONG)).await.unwrap());
    }
    let waits = link.files(Duration::from_secs(2));
    let moves = async {
        world.hand.wait_for_sleepers(2).await;
        world.hand.advance(Duration::from_secs(2));
    };
    let (result, ()) = soon("the deadline", async { tokio::join!(waits, moves) }).await;
    assert_eq!(
        result.unwrap_err(),
        LinkError::Exhausted {
            profile: Profile::Files
        }
    );
    let (fifth, ()) = tokio::join!(soon("a file", link.files(LONG)), async {
        files.pop();
    });
    assert_eq!(echo(fifth.unwrap().channel(), "f").await.unwrap(), "f");
}

#[tokio::test]
async fn calls_of_before_the_link_is_up_wait_for_it() {
    let world = World::new();
    world.dial.faults().refuse(Some(DialFault::Network));
    let link = world.link(None);
    reaches(&link, |state| {
        matches!(state, LinkState::Unreachable { .. })
    })
    .await;
    let calls = async {
        let channel = link.control(Duration::from_secs(1_000_000)).await.unwrap();
        echo(channel, "late").await.unwrap()
    };
    let heals = async {
        tokio::task::yield_now().await;
        world.dial.faults().refuse(None);
        world
            .pass_time_until(&link, |view| view.state.is_up())
            .await;
    };
    let (answer, ()) = soon("the answer", async { tokio::join!(calls, heals) }).await;
    assert_eq!(answer, "late");
}

#[tokio::test]
async fn h12_a_restarted_agent_is_found_again_over_its_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run/agent.sock");
    let serve = async || {
        let (listener, guard) = socket::bind(&path).await.unwrap();
        let listener = PeerListener::new(listener, PeerPolicy::own_user());
        (Served::new(listener.into_incoming()), guard)
    };
    let dial: Arc<dyn Dial> = Arc::new(Unix::new(&path));
    let tasks = Tasks::new("test");
    let parts = LinkParts {
        dial,
        bootstrap: None,
        handshake: Arc::new(Greeter::default()),
        clock: Clock::system(),
        config: LinkConfig::default(),
    };
    let link = HostLink::spawn(&tasks, "local", parts);
    let view = reaches(&link, |state| {
        matches!(state, LinkState::Unreachable { .. })
    })
    .await;
    assert_eq!(view.state, unreachable(Cause::AgentDown));
    for generation in 1..=2 {
        let (served, _guard) = serve().await;
        let mut view = link.view();
        let up = view.wait_for(|view| view.state.is_up() && view.generation == generation);
        drop(soon("the link", up).await.unwrap());
        let channel = link.control(LONG).await.unwrap();
        assert_eq!(echo(channel, "hi").await.unwrap(), "hi");
        served.stop().await;
        reaches(&link, |state| !state.is_up()).await;
    }
    tasks.shutdown(LONG).await.unwrap();
}
