use std::sync::OnceLock;

use muster_domain::{Fault, Reason, SessionId};
use muster_proto::{
    agent::{
        Cursor, FollowRequest, FollowResponse, RunFile, RunTarget, follow_request::Start as Begin,
        follow_request::Target, tails_service_server::TailsService,
    },
    convert,
};
use tonic::{Request, Response, Status, async_trait};

use super::{Responses, Services, Shared, admitted, enter};
use crate::{
    run_dir::{ExitLook, Home, RunKey, STDERR, STREAM},
    tails::{Ending, Framing, HASH_BYTES, RootedName, Start, Wanted},
};

#[async_trait]
impl TailsService for Services {
    type FollowStream = Responses<FollowResponse>;

    async fn follow(
        &self,
        request: Request<FollowRequest>,
    ) -> Result<Response<Self::FollowStream>, Status> {
        let permit = enter(&request)?;
        let request = request.into_inner();
        let events = self.blocking("tail open", move |shared| {
            shared.tails.follow(wanted(shared, request)?)
        });
        Ok(Response::new(admitted(permit, events.await?)))
    }
}

fn wanted(shared: &Shared, request: FollowRequest) -> Result<Wanted, Fault> {
    let framing = match request.framing() {
        muster_proto::agent::Framing::Lines => Framing::Lines,
        muster_proto::agent::Framing::Chunks => Framing::Chunks,
        muster_proto::agent::Framing::Unspecified => return Err(Fault::missing("framing")),
    };
    let start = match request.start.ok_or_else(|| Fault::missing("start"))? {
        Begin::Beginning(_) => Start::Beginning,
        Begin::End(_) => Start::End,
        Begin::LastBytes(bytes) => Start::LastBytes(bytes),
        Begin::Cursor(cursor) => Start::Cursor(checked(cursor)?),
    };
    let name = |path| RootedName {
        roots: shared.roots.clone(),
        path,
    };
    let mut wanted = match request.target.ok_or_else(|| Fault::missing("target"))? {
        Target::Path(path) => Wanted {
            name: name(path),
            framing,
            start,
            await_creation: request.await_creation,
            no_follow: request.no_follow,
            ending: None,
        },
        Target::Run(target) => {
            let home = shared.processes.home();
            let (path, ending) =
                run_file(home, &target, request.late_bytes, request.await_creation)?;
            Wanted {
                name: name(path),
                framing,
                start,
                // The folder is there: the keeper is about to make the file.
                await_creation: true,
                no_follow: request.no_follow,
                ending: Some(ending),
            }
        }
    };
    if wanted.no_follow {
        wanted.await_creation = request.await_creation || wanted.ending.is_some();
    }
    Ok(wanted)
}

fn checked(cursor: Cursor) -> Result<Cursor, Fault> {
    let bad = |why: &str| Err(Fault::new(Reason::BadCursor, format!("the cursor {why}")));
    if cursor.offset == 0 {
        return Ok(cursor);
    }
    let Some(generation) = &cursor.generation else {
        return bad("names no file");
    };
    if cursor.guard.len() != HASH_BYTES || generation.head_hash.len() != HASH_BYTES {
        return bad("has a hash of another length");
    }
    if generation.head_bytes as usize > muster_domain::limits::HEAD_BYTES {
        return bad("has a head that is too long");
    }
    Ok(cursor)
}

/// The file of a run, and how its end is seen.
fn run_file(
    home: &Home,
    target: &RunTarget,
    late_bytes: bool,
    await_creation: bool,
) -> Result<(String, Ending), Fault> {
    let stdout = match target.file() {
        RunFile::Stdout => true,
        RunFile::Stderr => false,
        RunFile::Unspecified => return Err(Fault::missing("target.run.file")),
    };
    let key = run_key(target.run.as_ref())?;
    let folder = home.run_path(key);
    if !await_creation && home.open_run(key).map_err(Fault::internal)?.is_none() {
        return Err(no_run(key));
    }
    let path = folder.join(if stdout { STREAM } else { STDERR });
    let path = path
        .to_str()
        .ok_or_else(|| Fault::internal("the agent's home is no UTF-8"))?;
    let home = home.clone();
    // Asked before every read of the tail: the folder is opened once.
    let opened = OnceLock::new();
    let ending = move || {
        let dir = match opened.get() {
            Some(dir) => dir,
            None => match home.open_run(key)? {
                Some(dir) => opened.get_or_init(|| dir),
                None => return Ok(None),
            },
        };
        // A damaged record names no size: then there is no end that a tail could know.
        let ExitLook::Recorded(exit) = dir.look_at_exit()? else {
            return Ok(None);
        };
        let size = if stdout {
            exit.stream_size
        } else {
            exit.stderr_size
        };
        Ok(Some((!late_bytes).then_some(size)))
    };
    Ok((path.to_owned(), Ending(Box::new(ending))))
}

/// The key of a run that a request names.
pub(super) fn run_key(run: Option<&muster_proto::agent::RunRef>) -> Result<RunKey, Fault> {
    let run = run.ok_or_else(|| Fault::missing("run"))?;
    let session: SessionId = convert::id::id("run.session_id", &run.session_id)?;
    if run.run == 0 {
        return Err(Fault::missing("run.run"));
    }
    Ok(RunKey {
        session: session.as_uuid(),
        run: run.run,
    })
}

pub(super) fn no_run(key: RunKey) -> Fault {
    let why = format!("session {} has no run {} here", key.session, key.run);
    Fault::new(Reason::RunNotFound, why)
}
