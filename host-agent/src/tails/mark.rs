//! Positions that survive a reconnect: which file, and what stood before the offset.

use muster_domain::limits::GUARD_BYTES;
use muster_proto::agent::{Cursor, Generation};
use sha2::{Digest as _, Sha256};

/// Length of every hash in a cursor.
pub(crate) const HASH_BYTES: usize = 16;

/// SHA-256, its first 16 bytes.
pub(crate) fn short_hash(data: &[u8]) -> [u8; HASH_BYTES] {
    let digest = Sha256::digest(data);
    let mut short = [0; HASH_BYTES];
    short.copy_from_slice(&digest[..HASH_BYTES]);
    short
}

/// Which file, as the kernel names it. An inode number alone is used again at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// Nanoseconds since the Unix epoch; 0 where the file system has no birth time.
    pub(crate) birth_ns: i64,
}

impl Identity {
    /// Whether a generation names this file. The device is left out: it changes with a remount.
    pub(crate) fn is_named_by(&self, generation: &Generation) -> bool {
        self.inode == generation.inode && self.birth_ns == generation.birth_ns
    }
}

/// The hashed head of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) len: u32,
    pub(crate) hash: [u8; HASH_BYTES],
}

impl Head {
    pub(crate) fn of(data: &[u8]) -> Self {
        Self {
            len: u32::try_from(data.len()).unwrap_or(u32::MAX),
            hash: short_hash(data),
        }
    }
}

/// The wire form of a file's identity and head.
pub(crate) fn generation(identity: Identity, head: &Head) -> Generation {
    Generation {
        device: identity.device,
        inode: identity.inode,
        birth_ns: identity.birth_ns,
        head_bytes: head.len,
        head_hash: head.hash.to_vec().into(),
    }
}

/// An offset together with the up to 256 bytes before it.
#[derive(Clone)]
pub(crate) struct Place {
    offset: u64,
    len: usize,
    before: [u8; GUARD_BYTES],
}

impl Place {
    /// The beginning of a file.
    pub(crate) fn start() -> Self {
        Self {
            offset: 0,
            len: 0,
            before: [0; GUARD_BYTES],
        }
    }

    /// `offset`, with what stands before it: exactly `min(offset, 256)` bytes.
    pub(crate) fn at(offset: u64, before: &[u8]) -> Self {
        let mut place = Self::start();
        place.offset = offset - before.len() as u64;
        place.advance(before);
        place
    }

    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    pub(crate) fn before(&self) -> &[u8] {
        &self.before[GUARD_BYTES - self.len..]
    }

    /// Moves behind `data`, which stands at this place.
    pub(crate) fn advance(&mut self, data: &[u8]) {
        self.offset += data.len() as u64;
        let kept = data.len().min(GUARD_BYTES);
        self.before.copy_within(kept.., 0);
        self.before[GUARD_BYTES - kept..].copy_from_slice(&data[data.len() - kept..]);
        self.len = (self.len + kept).min(GUARD_BYTES);
    }

    /// As [`Place::advance`], on a copy.
    pub(crate) fn after(&self, data: &[u8]) -> Self {
        let mut place = self.clone();
        place.advance(data);
        place
    }

    pub(crate) fn cursor(&self, identity: Identity, head: &Head) -> Cursor {
        Cursor {
            offset: self.offset,
            generation: Some(generation(identity, head)),
            guard: short_hash(self.before()).to_vec().into(),
        }
    }
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Place({})", self.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_keeps_the_last_256_bytes() {
        let text: Vec<u8> = (0..1000u32).map(|n| (n % 251) as u8).collect();
        let mut place = Place::start();
        for (step, chunk) in text.chunks(37).enumerate() {
            place.advance(chunk);
            let end = (step * 37 + 37).min(text.len());
            assert_eq!(place.offset(), end as u64);
            assert_eq!(place.before(), &text[end.saturating_sub(GUARD_BYTES)..end]);
        }
        let jumped = Place::at(1000, &text[1000 - GUARD_BYTES..]);
        assert_eq!(jumped.before(), place.before());
        assert_eq!(jumped.offset(), 1000);
    }
}
