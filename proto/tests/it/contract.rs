//! House rules of the contracts, and what may change in them.

mod breaking;
mod rules;

use prost::Message as _;
use prost_types::FileDescriptorSet;

/// Our own files of the descriptor set.
fn ours() -> FileDescriptorSet {
    let mut set = FileDescriptorSet::decode(muster_proto::DESCRIPTORS).unwrap();
    set.file
        .retain(|file| file.package().starts_with("muster."));
    set.file.sort_by(|a, b| a.name().cmp(b.name()));
    set
}
