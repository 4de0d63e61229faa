//! The highest lease epoch that any coordinator has shown: whoever comes with a lower one has
//! lost the host to another coordinator and is refused.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use muster_domain::{Fault, Reason};
use muster_proto::{agent::Mutation, convert};
use muster_runtime::files::write_atomically;

/// Survives restarts of the agent.
#[derive(Debug)]
pub(crate) struct Epochs {
    path: PathBuf,
    highest: Mutex<u64>,
}

impl Epochs {
    /// Reads what an earlier agent has seen.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let highest = match std::fs::read_to_string(path) {
            Ok(text) => text.trim().parse().map_err(|_| {
                let why = format!("{} holds no number", path.display());
                io::Error::new(io::ErrorKind::InvalidData, why)
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
        Ok(Self {
            path: path.to_owned(),
            highest: Mutex::new(highest),
        })
    }

    /// Refuses an epoch below the highest, remembers one above it. Writes (and waits for) the
    /// disk when the epoch is new: about once in the life of a coordinator.
    pub(crate) fn check(&self, epoch: u64) -> Result<(), Fault> {
        let mut highest = self.highest.lock().unwrap_or_else(PoisonError::into_inner);
        if epoch < *highest {
            let why = format!("epoch {epoch} is over: the host is at {}", *highest);
            return Err(Fault::new(Reason::EpochStale, why).with("epoch", *highest));
        }
        if epoch > *highest {
            write_atomically(&self.path, epoch.to_string().as_bytes())
                .map_err(|error| Fault::internal(format!("write the epoch: {error}")))?;
            *highest = epoch;
        }
        Ok(())
    }

    /// Checks the fields that every mutating call carries.
    pub(crate) fn check_mutation(&self, mutation: Option<&Mutation>) -> Result<String, Fault> {
        let mutation = mutation.ok_or_else(|| Fault::missing("mutation"))?;
        let request = convert::id::client_key("mutation.request_id", &mutation.request_id)?;
        convert::id::workspace("mutation.workspace_id", &mutation.workspace_id)?;
        self.check(mutation.epoch)?;
        Ok(request.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_epoch_is_refused_also_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("epoch");
        let epochs = Epochs::open(&path).unwrap();
        epochs.check(3).unwrap();
        epochs.check(3).unwrap();
        let fault = epochs.check(2).unwrap_err();
        assert_eq!(fault.reason(), Reason::EpochStale);
        assert_eq!(fault.metadata()["epoch"], "3");
        let again = Epochs::open(&path).unwrap();
        assert!(again.check(2).is_err());
        again.check(4).unwrap();
        std::fs::write(&path, "no number").unwrap();
        assert!(Epochs::open(&path).is_err());
    }
}
