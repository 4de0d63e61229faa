//! Views on the wire.

use muster_domain::{Timestamp, message::Message};
use muster_proto::{
    convert::{self, message::Context},
    public,
};
use muster_runtime::Clock;

use crate::{app::SessionView, hosts::api::FileInfo};

pub(super) fn now(clock: &Clock) -> Timestamp {
    Timestamp::from_micros(clock.now_micros())
}

pub(super) fn session(view: &SessionView, now: Timestamp) -> public::Session {
    let context = convert::session::Context {
        host: &view.host,
        link: view.link,
        phase: view.task_phase.as_ref(),
        attention: None,
        now,
    };
    convert::session::session(&view.state, context)
}

pub(super) fn message(
    message: &Message,
    host: &str,
    position: u32,
    replayed: bool,
) -> public::Message {
    let context = Context {
        host,
        position,
        replayed,
    };
    convert::message::message(message, context)
}

pub(super) fn file(info: FileInfo) -> public::File {
    use crate::hosts::api::FileKind;
    let kind = match info.kind {
        FileKind::Unknown => public::FileKind::Unspecified,
        FileKind::File => public::FileKind::File,
        FileKind::Directory => public::FileKind::Directory,
        FileKind::Symlink => public::FileKind::Symlink,
        FileKind::Fifo => public::FileKind::Fifo,
        FileKind::Socket => public::FileKind::Socket,
        FileKind::Device => public::FileKind::Device,
    };
    public::File {
        name: info.name,
        kind: kind.into(),
        size_bytes: info.size,
        modified_at: convert::time::timestamp_opt(info.modified_at),
        mode: info.mode,
        link_target: info.link_target,
    }
}
