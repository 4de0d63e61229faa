//! Whole files, written so that a reader sees the old content or the new one.

use std::{ffi::OsString, fs::File, io::Write as _};

use muster_domain::{Fault, Reason, limits};
use muster_proto::agent::{WriteResponse, WriteStart};
use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, RenameFlags},
    io::Errno,
};
use sha2::{Digest as _, Sha256};

use super::{Found, Roots, fault_of, fault_of_io};

/// A file that is being written. Dropped before [`WholeFile::finish`] it leaves nothing.
#[derive(Debug)]
pub(crate) struct WholeFile {
    folder: Found,
    name: OsString,
    temporary: Option<OsString>,
    file: File,
    written: u64,
    digest: Sha256,
    start: WriteStart,
}

impl WholeFile {
    /// Makes a temporary file beside the target.
    pub(crate) fn create(roots: &Roots, start: WriteStart) -> Result<Self, Fault> {
        if !matches!(start.sha256.len(), 0 | 32) {
            return Err(Fault::invalid("sha256", "has 32 bytes"));
        }
        let (folder, name) = roots.find_for_write(&start.path)?;
        let fault = |errno| fault_of(errno, &start.path);
        if let Some(kind) = kind_at(&folder, &name).map_err(fault)? {
            if start.must_not_exist {
                return Err(exists(&start.path));
            }
            // A link is replaced itself; it is never followed.
            if !matches!(kind, FileType::RegularFile | FileType::Symlink) {
                let why = format!("`{}` exists and is no file", start.path);
                return Err(Fault::new(Reason::NotAFile, why));
            }
        }
        let temporary = OsString::from(format!(".muster-{}", uuid::Uuid::new_v4().simple()));
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = rustix::fs::openat(folder.handle(), &temporary, flags, mode).map_err(fault)?;
        Ok(Self {
            folder,
            name,
            temporary: Some(temporary),
            file: File::from(file),
            written: 0,
            digest: Sha256::new(),
            start,
        })
    }

    /// Appends bytes.
    pub(crate) fn append(&mut self, data: &[u8]) -> Result<(), Fault> {
        self.written = self.written.saturating_add(data.len() as u64);
        if self.written > limits::FILE_WRITE_BYTES {
            let most = limits::FILE_WRITE_BYTES;
            let why = format!("a file is written with at most {most} bytes");
            return Err(Fault::new(Reason::FileTooLarge, why).with("limit", most));
        }
        self.digest.update(data);
        self.file
            .write_all(data)
            .map_err(|error| fault_of_io(error, &self.start.path))
    }

    /// Checks the content and gives it its name.
    pub(crate) fn finish(mut self) -> Result<WriteResponse, Fault> {
        let digest = std::mem::take(&mut self.digest).finalize();
        if !self.start.sha256.is_empty() && digest[..] != self.start.sha256[..] {
            let why = format!(
                "`{}`: the content does not have the given checksum",
                self.start.path
            );
            return Err(Fault::new(Reason::ChecksumMismatch, why));
        }
        self.file
            .sync_all()
            .map_err(|error| fault_of_io(error, &self.start.path))?;
        let Some(temporary) = self.temporary.take() else {
            return Err(Fault::internal("a file was finished twice"));
        };
        if let Err(errno) = self.rename(&temporary) {
            self.temporary = Some(temporary);
            return Err(match errno {
                Errno::EXIST => exists(&self.start.path),
                errno => fault_of(errno, &self.start.path),
            });
        }
        let folder = self.folder.reopen(OFlags::RDONLY | OFlags::DIRECTORY);
        folder
            .and_then(rustix::fs::fsync)
            .map_err(|errno| fault_of(errno, &self.start.path))?;
        Ok(WriteResponse {
            size_bytes: self.written,
        })
    }

    fn rename(&self, temporary: &OsString) -> Result<(), Errno> {
        let folder = self.folder.handle();
        if !self.start.must_not_exist {
            return rustix::fs::renameat(folder, temporary, folder, &self.name);
        }
        let flags = RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(folder, temporary, folder, &self.name, flags) {
            // A hard link never replaces, and the first name goes away with its removal.
            Err(Errno::NOSYS | Errno::INVAL) => {
                rustix::fs::linkat(folder, temporary, folder, &self.name, AtFlags::empty())?;
                rustix::fs::unlinkat(folder, temporary, AtFlags::empty())
            }
            other => other,
        }
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let _ = rustix::fs::unlinkat(self.folder.handle(), temporary, AtFlags::empty());
        }
    }
}

fn exists(path: &str) -> Fault {
    Fault::new(Reason::AlreadyWritten, format!("`{path}` exists already"))
}

fn kind_at(folder: &Found, name: &OsString) -> Result<Option<FileType>, Errno> {
    match rustix::fs::statat(folder.handle(), name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}
