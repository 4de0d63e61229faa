//! What every command needs: where the coordinator is, and how to print.

use std::path::{Path, PathBuf};

use muster_client::Client;

use crate::{args::Cli, exit::Failure};

/// Where this command acts.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    /// Address of the coordinator.
    pub(crate) address: String,
    /// The address was given: nothing is started in its place.
    pub(crate) given: bool,
    /// Print JSON.
    pub(crate) json: bool,
}

impl Context {
    pub(crate) fn new(cli: &Cli) -> Result<Self, Failure> {
        let json = cli.json;
        match cli.addr.clone().filter(|address| !address.is_empty()) {
            Some(address) => Ok(Self {
                address,
                given: true,
                json,
            }),
            None => Ok(Self {
                json,
                ..Self::own()?
            }),
        }
    }

    /// The coordinator of the data folder, whatever address is set.
    pub(crate) fn own() -> Result<Self, Failure> {
        Self::of_folder(&data_folder()?)
    }

    /// The coordinator of this data folder.
    pub(crate) fn of_folder(folder: &Path) -> Result<Self, Failure> {
        let folder = std::path::absolute(folder)
            .map_err(|error| Failure::usage(format!("{}: {error}", folder.display())))?;
        let address = format!("unix:{}", folder.join("coordinator.sock").display());
        Ok(Self {
            address,
            given: false,
            json: false,
        })
    }

    /// A client; it connects with its first call.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        Ok(Client::new(&self.address)?)
    }
}

/// The data folder, as the coordinator chooses it.
pub(crate) fn data_folder() -> Result<PathBuf, Failure> {
    let set = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let folder = set("MUSTER_HOME")
        .or_else(|| set("XDG_DATA_HOME").map(|folder| folder.join("muster")))
        .or_else(|| set("HOME").map(|home| home.join(".local/share/muster")));
    let folder = folder.ok_or_else(|| {
        Failure::usage("there is no home folder").hint("set MUSTER_HOME, or give --addr")
    })?;
    std::path::absolute(&folder)
        .map_err(|error| Failure::usage(format!("{}: {error}", folder.display())))
}
