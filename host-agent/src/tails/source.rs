//! The reader's view of real files: below the roots, by handle.

use std::{fs::File, io, sync::Arc};

use muster_domain::Reason;

use super::{
    mark::Identity,
    reader::{TailFile, TailName},
};
use crate::files::{Found, Roots, identity_of, read_full};

/// A path below a root.
#[derive(Clone, Debug)]
pub(crate) struct RootedName {
    pub(crate) roots: Arc<Roots>,
    pub(crate) path: String,
}

/// A regular file below a root, open for reading.
#[derive(Debug)]
pub(crate) struct RootedFile {
    pub(crate) file: File,
    pub(crate) found: Found,
}

impl TailFile for RootedFile {
    fn identity(&self) -> Identity {
        identity_of(&self.found.stat)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(u64::try_from(rustix::fs::fstat(&self.file)?.st_size).unwrap_or(0))
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        read_full(&self.file, buf, offset)
    }
}

impl RootedName {
    /// The folder that the name is in, while it exists.
    pub(crate) fn parent(&self) -> Option<Found> {
        let absolute = self.roots.expand(&self.path).ok()?;
        self.roots.find(absolute.parent()?.to_str()?).ok()
    }

    fn find(&self) -> io::Result<Option<Found>> {
        match self.roots.find(&self.path) {
            Ok(found) => Ok(Some(found)),
            Err(fault) if fault.reason() == Reason::NotFound => Ok(None),
            Err(fault) => Err(io::Error::other(fault)),
        }
    }
}

impl TailName for RootedName {
    type File = RootedFile;

    fn open(&self) -> io::Result<Option<RootedFile>> {
        let Some(found) = self.find()? else {
            return Ok(None);
        };
        let file = found.open_file().map_err(io::Error::other)?;
        Ok(Some(RootedFile { file, found }))
    }

    fn identity(&self) -> io::Result<Option<Identity>> {
        Ok(self.find()?.map(|found| identity_of(&found.stat)))
    }
}
