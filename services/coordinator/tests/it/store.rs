//! What every implementation of the store does alike, and what only files can do.

mod crash;
mod files;
mod full_disk;
mod kit;
mod messages;
mod outbox;
mod sessions;
mod size;
mod tasks;

/// Each behaviour once per implementation.
macro_rules! conformance {
    ($($name:ident),* $(,)?) => {$(
        mod $name {
            #[tokio::test]
            async fn memory() {
                let store = crate::store::kit::Opened::memory();
                super::super::$name(&*store.handle).await;
            }

            #[tokio::test]
            async fn sqlite() {
                let store = crate::store::kit::Opened::sqlite().await;
                super::super::$name(&*store.handle).await;
                store.handle.close().await;
            }
        }
    )*};
}
use conformance;
