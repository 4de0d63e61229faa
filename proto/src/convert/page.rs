//! Pages of lists.

use muster_domain::page::{Page, Request};

/// What a caller asks of a list.
pub fn request(page_size: u32, page_token: String) -> Request {
    Request {
        size: page_size,
        token: page_token,
    }
}

/// The rows of a page and its `next_page_token`, empty on the last one.
pub fn page<T, W>(page: Page<T>, row: impl FnMut(T) -> W) -> (Vec<W>, String) {
    let page = page.map(row);
    (page.items, page.next.unwrap_or_default())
}
