//! A real agent, reached as the coordinator reaches it.

mod ending;
mod files;
mod pipes;
mod runs;
mod starting;
mod tails;
mod truth;

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use hyper_util::rt::TokioIo;
use muster_domain::{Fault, Reason};
use muster_proto::agent::{
    self as pb, files_service_client::FilesServiceClient, host_service_client::HostServiceClient,
    pipes_service_client::PipesServiceClient, processes_service_client::ProcessesServiceClient,
    tails_service_client::TailsServiceClient,
};
use tonic::transport::{Channel, Endpoint};

pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// An agent with a home of its own. Its end kills the agent and every keeper and program below
/// its folder.
pub(super) struct Agent {
    folder: tempfile::TempDir,
    args: Vec<String>,
    child: Option<Child>,
}

impl Agent {
    pub(super) async fn start() -> (Self, Clients) {
        Self::with(&[]).await
    }

    pub(super) async fn with(args: &[&str]) -> (Self, Clients) {
        Self::below("ma-", args).await
    }

    /// In a folder whose name begins so.
    pub(super) async fn below(prefix: &str, args: &[&str]) -> (Self, Clients) {
        let folder = tempfile::Builder::new().prefix(prefix).tempdir().unwrap();
        std::fs::create_dir(folder.path().join("user")).unwrap();
        let mut agent = Self {
            folder,
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
            child: None,
        };
        let clients = agent.run().await;
        (agent, clients)
    }

    /// Starts the process; waits until it answers.
    pub(super) async fn run(&mut self) -> Clients {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.path("agent.log"))
            .unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_muster-agent"))
            .arg("serve")
            .arg("--home")
            .arg(self.home())
            .arg("--user-home")
            .arg(self.user())
            .args(&self.args)
            .env("MUSTER_AGENT_DISK_FLOOR_BYTES", "0")
            .env("MUSTER_AGENT_DISK_FLOOR_PERCENT", "0")
            .env("SHELL", "/bin/sh")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.child = Some(child);
        self.connect().await
    }

    pub(super) async fn connect(&self) -> Clients {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let clients = Clients::connect(&self.home().join("agent.sock")).await;
            if let Ok(clients) = clients
                && clients.hello().await.is_ok()
            {
                return clients;
            }
            assert!(
                tokio::time::Instant::now() < deadline,
                "the agent does not answer; its log: {}",
                self.log()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(self.path("agent.log")).unwrap_or_default()
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    pub(super) fn home(&self) -> PathBuf {
        self.path("home")
    }

    /// What `~` is.
    pub(super) fn user(&self) -> PathBuf {
        self.path("user")
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// SIGKILL, without any farewell.
    pub(super) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Waits for the end of the process.
    pub(super) fn wait(&mut self) -> std::process::ExitStatus {
        let mut child = self.child.take().unwrap();
        for _ in 0..6000 {
            if let Some(status) = child.try_wait().unwrap() {
                return status;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = child.kill();
        panic!("the agent does not end; its log: {}", self.log());
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.kill();
        // Keepers and programs are found by the records in their folders and by their markers.
        let home = muster_host_agent::run_dir::Home::new(self.home());
        for key in home.scan().map(|scan| scan.runs).unwrap_or_default() {
            let Ok(Some(dir)) = home.open_run(key) else {
                continue;
            };
            let session = key.session.to_string();
            let marked = muster_host_agent::proc::find_marked(&session, None).unwrap_or_default();
            for found in marked {
                end(found.identity);
            }
            if let Ok(Some(record)) = dir.proc() {
                end(record.process);
                end(record.keeper);
            }
        }
    }
}

fn end(identity: muster_host_agent::proc::Identity) {
    if let Ok(Some(held)) = muster_host_agent::proc::Held::open(identity) {
        let _ = held.signal(rustix::process::Signal::KILL);
    }
}

/// One connection, with a client for each service.
#[derive(Clone)]
pub(super) struct Clients {
    channel: Channel,
}

impl Clients {
    pub(super) async fn connect(socket: &Path) -> Result<Self, tonic::transport::Error> {
        let socket = socket.to_owned();
        let connector = tower::service_fn(move |_: tonic::transport::Uri| {
            let socket = socket.clone();
            async move {
                muster_runtime::socket::connect(&socket)
                    .await
                    .map(TokioIo::new)
            }
        });
        let channel = Endpoint::from_static("http://agent")
            .initial_stream_window_size(256 * 1024)
            .initial_connection_window_size(68 * 1024 * 1024)
            .connect_with_connector(connector)
            .await?;
        Ok(Self { channel })
    }

    pub(super) async fn hello(&self) -> Result<pb::HelloResponse, Fault> {
        self.hello_as(1, 1, 1).await
    }

    pub(super) async fn hello_as(
        &self,
        min: u32,
        max: u32,
        epoch: u64,
    ) -> Result<pb::HelloResponse, Fault> {
        let request = pb::HelloRequest {
            protocol_min: min,
            protocol_max: max,
            build: "test".into(),
            epoch,
            coordinator_id: "test".into(),
        };
        said(self.host().hello(request).await)
    }

    pub(super) fn host(&self) -> HostServiceClient<Channel> {
        HostServiceClient::new(self.channel.clone())
    }

    pub(super) fn files(&self) -> FilesServiceClient<Channel> {
        FilesServiceClient::new(self.channel.clone())
    }

    pub(super) fn tails(&self) -> TailsServiceClient<Channel> {
        TailsServiceClient::new(self.channel.clone())
    }

    pub(super) fn pipes(&self) -> PipesServiceClient<Channel> {
        PipesServiceClient::new(self.channel.clone())
    }

    pub(super) fn processes(&self) -> ProcessesServiceClient<Channel> {
        ProcessesServiceClient::new(self.channel.clone()).max_encoding_message_size(8 * 1024 * 1024)
    }
}

/// The answer, or the fault of the status.
pub(super) fn said<T>(answer: Result<tonic::Response<T>, tonic::Status>) -> Result<T, Fault> {
    answer
        .map(tonic::Response::into_inner)
        .map_err(|status| muster_proto::fault::from_agent(&status))
}

pub(super) fn reason<T: std::fmt::Debug>(
    answer: Result<tonic::Response<T>, tonic::Status>,
) -> Reason {
    said(answer).unwrap_err().reason()
}

pub(super) fn mutation(id: &str) -> Option<pb::Mutation> {
    Some(pb::Mutation {
        request_id: id.to_owned(),
        workspace_id: "main".to_owned(),
        epoch: 1,
    })
}

pub(super) fn append(path: &Path, text: &[u8]) {
    let mut file = std::fs::File::options()
        .create(true)
        .append(true)
        .open(path)
        .unwrap();
    file.write_all(text).unwrap();
}
