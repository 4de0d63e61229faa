//! Files of hosts, passed through from their agents.

use crate::{agent, public};

impl From<agent::FileKind> for public::FileKind {
    fn from(kind: agent::FileKind) -> Self {
        match kind {
            agent::FileKind::Unspecified => Self::Unspecified,
            agent::FileKind::File => Self::File,
            agent::FileKind::Directory => Self::Directory,
            agent::FileKind::Symlink => Self::Symlink,
            agent::FileKind::Fifo => Self::Fifo,
            agent::FileKind::Socket => Self::Socket,
            agent::FileKind::Device => Self::Device,
        }
    }
}

impl From<agent::FileInfo> for public::File {
    fn from(info: agent::FileInfo) -> Self {
        Self {
            kind: public::FileKind::from(info.kind()).into(),
            name: info.name,
            size_bytes: info.size_bytes,
            modified_at: info.modified_at,
            mode: info.mode,
            link_target: info.link_target,
        }
    }
}

impl From<agent::ReadResponse> for public::ReadFileResponse {
    fn from(chunk: agent::ReadResponse) -> Self {
        Self {
            offset: chunk.offset,
            data: chunk.data,
            file_size: chunk.file_size,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_the_same_names_on_both_sides() {
        for number in 0..16 {
            let Ok(kind) = agent::FileKind::try_from(number) else {
                continue;
            };
            let twin = public::FileKind::from(kind);
            assert_eq!(kind.as_str_name(), twin.as_str_name());
        }
    }
}
