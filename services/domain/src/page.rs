//! Pages of lists: a size that is capped, and a token that only its maker reads.

use crate::{Fault, Reason};

/// What a caller asks of a list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Request {
    /// Rows wanted; 0 = the list's default.
    pub size: u32,
    /// Token of the previous page; empty = the first page.
    pub token: String,
}

impl Request {
    /// Rows to read: the default where none was asked for, never above `max`.
    pub fn rows(&self, default: u32, max: u32) -> u32 {
        if self.size == 0 {
            default
        } else {
            self.size.min(max)
        }
    }
}

/// One page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// The rows.
    pub items: Vec<T>,
    /// Token of the next page; `None` on the last one.
    pub next: Option<String>,
}

impl<T> Page<T> {
    /// The same page with other rows.
    pub fn map<U>(self, f: impl FnMut(T) -> U) -> Page<U> {
        Page {
            items: self.items.into_iter().map(f).collect(),
            next: self.next,
        }
    }
}

/// The fault for a token that this list did not make.
pub fn bad_token() -> Fault {
    Fault::new(
        Reason::BadPageToken,
        "the page token is not one of this list",
    )
}
