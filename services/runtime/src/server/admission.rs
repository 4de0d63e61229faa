//! A cap on simultaneous streaming calls that answers instead of hanging.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_stream::Stream;
use tonic::Status;

/// Counts streaming calls and refuses those above the cap. Cheap to clone; all clones count
/// together.
#[derive(Clone, Debug)]
pub struct Admission {
    slots: Arc<Semaphore>,
    limit: usize,
}

/// One admitted call; dropping it frees the place.
#[derive(Debug)]
pub struct AdmissionPermit {
    _slot: OwnedSemaphorePermit,
}

impl Admission {
    /// At most `limit` calls at the same time.
    pub fn new(limit: usize) -> Self {
        Self {
            slots: Arc::new(Semaphore::new(limit)),
            limit,
        }
    }

    /// A place for one call, or `None` when all are taken. Never waits: a call that waits
    /// here would look like a hanging server.
    pub fn try_enter(&self) -> Option<AdmissionPermit> {
        let slot = self.slots.clone().try_acquire_owned().ok()?;
        Some(AdmissionPermit { _slot: slot })
    }

    /// As [`Admission::try_enter`], with the answer for the client.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` that names the cap.
    pub fn enter(&self) -> Result<AdmissionPermit, Status> {
        self.try_enter().ok_or_else(|| {
            Status::resource_exhausted(format!(
                "at most {} streaming calls at the same time",
                self.limit
            ))
        })
    }

    /// How many calls may run at the same time.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// How many run now.
    pub fn in_use(&self) -> usize {
        self.limit.saturating_sub(self.slots.available_permits())
    }
}

impl AdmissionPermit {
    /// The stream, holding the place until it is dropped.
    pub fn hold<S>(self, stream: S) -> Admitted<S> {
        Admitted {
            stream,
            _permit: self,
        }
    }
}

/// A response stream together with its place.
#[derive(Debug)]
pub struct Admitted<S> {
    stream: S,
    _permit: AdmissionPermit,
}

impl<S: Stream + Unpin> Stream for Admitted<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        Pin::new(&mut self.stream).poll_next(cx)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.stream.size_hint()
    }
}
