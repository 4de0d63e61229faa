//! The resources of the contract. Enums are numbers in the fields and typed by the accessor
//! of the same name, as in `session.status()`.

pub use muster_proto::public::{
    AccessLevel, Attention, Fact, FeedEvent, File, FileKind, GetStatusResponse as Status, Host,
    ImageRef, Interaction, InteractionKind, InteractionState, LinkState, Message, MessageKind,
    MessageState, OutputCursor, Part, ProcessState, Reference, Session, SessionSource,
    SessionStatus, SnapshotItem, Survivor, Task, TaskPhase, TurnState, feed_event, part,
    snapshot_item,
};
