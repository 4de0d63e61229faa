//! What subscribers get: a snapshot, then every event after it (R9).
//!
//! There is no queue per client. The outbox is the buffer: a subscriber holds the revision it
//! was last sent, is woken when the head moves, and reads when its client takes. Recent
//! commits are kept once for all in a bounded ring, so that who keeps up causes no read of
//! the store. Growing text is cut when it is sent: everything since the byte this client last
//! got. A client that stops reading costs its position.

mod frame;
mod growth;
mod hub;
mod ring;
mod subscriber;
mod subscription;

pub use frame::{Command, Event, Frame, Item, Subscription};
pub use hub::Feed;
pub use subscriber::Subscriber;
