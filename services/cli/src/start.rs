//! Starting the coordinator when none answers, so that the first run needs no configuration.

use std::{ffi::OsString, time::Duration};

use clap::Parser as _;
use muster_client::Client;
use muster_coordinator::up::{Binary, Up, detached};
use muster_runtime::{
    Clock, Tasks,
    lock::{Holder, read_holder},
};

use crate::{
    context::{Context, data_folder},
    exit::Failure,
    out,
};

/// How long a coordinator that another command starts may take until it answers.
const OTHER_WITHIN: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A client of a coordinator that answers. Starts one, with the host agent, when none does,
/// unless an address was given or this runs inside a session.
pub(crate) async fn ensure(context: &Context) -> Result<Client, Failure> {
    let client = context.client()?;
    let fault = match client.reach().await {
        Ok(()) => return Ok(client),
        Err(fault) => fault,
    };
    if context.given || std::env::var_os("MUSTER_SESSION_ID").is_some() {
        return Err(fault.into());
    }
    let tasks = Tasks::new("start");
    let work = tasks.spawn_blocking("start the coordinator", || {
        let up = Up::try_parse_from([OsString::from("up"), "--detach".into()])?;
        detached(&up, &Binary::muster())
    });
    let started = work
        .await
        .map_err(|error| Failure::failed(error.to_string()))?
        .map_err(|error| Failure::failed(format!("{error:#}")));
    match started {
        Ok(started) => out::note(&format!("started the coordinator (pid {})", started.pid)),
        // Another command may have been faster.
        Err(failure) => await_other(&client).await.map_err(|()| failure)?,
    }
    Ok(client)
}

/// Waits for a coordinator that somebody else starts: it holds the lock of the data folder.
async fn await_other(client: &Client) -> Result<(), ()> {
    let lock = data_folder().map_err(|_| ())?.join("lock");
    let clock = Clock::system();
    let until = clock.boottime() + OTHER_WITHIN;
    while matches!(read_holder(&lock), Ok(Holder::Held { .. })) && clock.boottime() < until {
        if client.reach().await.is_ok() {
            return Ok(());
        }
        clock.sleep(LOOK_EVERY).await;
    }
    client.reach().await.map_err(|_| ())
}
