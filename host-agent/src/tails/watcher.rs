//! One inotify instance for all tails of the agent: users have 128 of them by default.
//!
//! An event is only a hint to look. What is not watched, because the file system does not
//! report changes or a limit is reached, is looked at four times a second.

use std::{
    collections::HashMap,
    fs::File,
    io,
    os::fd::{AsRawFd as _, OwnedFd},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use tokio::{io::AsyncReadExt as _, net::unix::pipe, sync::Notify};
use tokio_util::sync::CancellationToken;

/// File systems whose changes inotify does not see, all or some.
const SILENT_FILE_SYSTEMS: &[u64] = &[
    0x6969,      // NFS
    0xff53_4d42, // CIFS
    0xfe53_4d42, // SMB2
    0x517b,      // SMB
    0x6573_5546, // FUSE
    0x0102_1997, // 9p
    0x794c_7630, // overlay: a copy-up changes the inode under the name
    0x0bd0_0bd0, // Lustre
    0x00c3_6400, // Ceph
];

/// Watches of the whole agent. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Watcher {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// `None` where the kernel gave no instance: everything is polled then.
    inotify: Option<OwnedFd>,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    next_id: u64,
    watches: HashMap<i32, Vec<(u64, Arc<Woken>)>>,
}

/// What wakes one tail.
#[derive(Debug, Default)]
pub(crate) struct Woken {
    notify: Notify,
    /// More may have happened than that the file was written to.
    renamed: AtomicBool,
}

impl Woken {
    /// Waits for the next hint; one that came since the last wait is not lost. Cancel safe.
    pub(crate) async fn notified(&self) {
        self.notify.notified().await;
    }

    /// Whether names may have changed since this was last asked.
    pub(crate) fn take_renamed(&self) -> bool {
        self.renamed.swap(false, Ordering::AcqRel)
    }

    fn wake(&self, renamed: bool) {
        if renamed {
            self.renamed.store(true, Ordering::Release);
        }
        self.notify.notify_one();
    }
}

/// One thing that is watched, until it is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    shared: Arc<Shared>,
    descriptor: i32,
    id: u64,
}

impl Watcher {
    /// Takes the agent's one instance.
    pub(crate) fn new() -> Self {
        let inotify = match inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC) {
            Ok(inotify) => Some(inotify),
            Err(errno) => {
                tracing::warn!(%errno, "no inotify instance: files are polled");
                None
            }
        };
        Self {
            shared: Arc::new(Shared {
                inotify,
                table: Mutex::default(),
            }),
        }
    }

    /// One without an instance.
    #[cfg(test)]
    pub(crate) fn none() -> Self {
        Self {
            shared: Arc::new(Shared {
                inotify: None,
                table: Mutex::default(),
            }),
        }
    }

    /// How many files and folders are watched.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.shared.table().watches.len()
    }

    /// Hands events on until `token` is cancelled.
    ///
    /// # Errors
    /// The instance cannot be waited for.
    pub(crate) async fn run(self, token: CancellationToken) -> io::Result<()> {
        let Some(inotify) = &self.shared.inotify else {
            token.cancelled().await;
            return Ok(());
        };
        // What tokio needs of a descriptor is the same for both: wait, then read.
        let mut events = pipe::Receiver::from_file_unchecked(File::from(inotify.try_clone()?))?;
        let mut buf = [0; 4096];
        loop {
            let count = tokio::select! {
                () = token.cancelled() => return Ok(()),
                // After less than a full buffer it waits, without a second read that fails.
                count = events.read(&mut buf) => count?,
            };
            self.shared.wake_all(&buf[..count]);
        }
    }

    /// Watches an open file or folder: `woken` is notified of changes. `None` where it has to
    /// be polled.
    pub(crate) fn watch(
        &self,
        handle: &OwnedFd,
        folder: bool,
        woken: &Arc<Woken>,
    ) -> Option<Watch> {
        let inotify = self.shared.inotify.as_ref()?;
        if is_silent(handle) {
            return None;
        }
        let mut flags = WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF | WatchFlags::ATTRIB;
        if folder {
            flags |= WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::MOVED_FROM;
            flags |= WatchFlags::DELETE;
        } else {
            flags |= WatchFlags::MODIFY | WatchFlags::CLOSE_WRITE;
        }
        let path = format!("/proc/self/fd/{}", handle.as_raw_fd());
        // The table is locked around the call: the descriptor of a file that is watched
        // already is the same, and its last watch may be dropped at this moment.
        let mut table = self.shared.table();
        let descriptor = match inotify::add_watch(inotify, path, flags) {
            Ok(descriptor) => descriptor,
            Err(errno) => {
                tracing::debug!(%errno, "not watched: polled");
                return None;
            }
        };
        table.next_id += 1;
        let id = table.next_id;
        let waiting = table.watches.entry(descriptor).or_default();
        waiting.push((id, woken.clone()));
        Some(Watch {
            shared: self.shared.clone(),
            descriptor,
            id,
        })
    }
}

impl Shared {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands on the events of one read: whole records, each a fixed head (`wd`, `mask`,
    /// `cookie`, `len`, four bytes each) and `len` bytes of a name that nobody needs.
    fn wake_all(&self, mut records: &[u8]) {
        const HEAD: usize = 16;
        while let Some((head, rest)) = records.split_at_checked(HEAD) {
            let field = |at: usize| [head[at], head[at + 1], head[at + 2], head[at + 3]];
            let flags = ReadFlags::from_bits_retain(u32::from_ne_bytes(field(4)));
            self.wake(i32::from_ne_bytes(field(0)), flags);
            let name = u32::from_ne_bytes(field(12)) as usize;
            records = rest.get(name..).unwrap_or_default();
        }
    }

    fn wake(&self, descriptor: i32, flags: ReadFlags) {
        let table = self.table();
        if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            // Events were lost: everybody looks.
            for (_, woken) in table.watches.values().flatten() {
                woken.wake(true);
            }
            return;
        }
        let renamed = flags.intersects((ReadFlags::MODIFY | ReadFlags::CLOSE_WRITE).complement());
        for (_, woken) in table.watches.get(&descriptor).into_iter().flatten() {
            woken.wake(renamed);
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut table = self.shared.table();
        let Some(waiting) = table.watches.get_mut(&self.descriptor) else {
            return;
        };
        waiting.retain(|(id, _)| *id != self.id);
        if waiting.is_empty() {
            table.watches.remove(&self.descriptor);
            if let Some(inotify) = &self.shared.inotify {
                // It fails when the file is gone: the kernel has removed the watch itself.
                let _ = inotify::remove_watch(inotify, self.descriptor);
            }
        }
    }
}

/// Whether changes on its file system may go unreported.
pub(crate) fn is_silent(handle: &OwnedFd) -> bool {
    match rustix::fs::fstatfs(handle) {
        // The kernel's type is signed on some machines; the magic is 32 bits wide.
        #[allow(clippy::unnecessary_cast, clippy::cast_sign_loss)]
        Ok(found) => SILENT_FILE_SYSTEMS.contains(&(found.f_type as u64 & 0xffff_ffff)),
        Err(_) => true,
    }
}
