//! Byte limits of list pages. A small page is read at once. A larger one is read again with a higher limit if
//! the key has a large-answer permit left; otherwise it is cut short and the reader continues from there. So
//! no request is refused, and unread answers of one key hold little memory.

use std::sync::Arc;

use entente_domain::limits::{PAGE_BYTES, SMALL_PAGE_BYTES};

use super::shares::LargeAnswer;
use super::{Caller, Grant};

/// A page of a list.
#[derive(Debug, Clone)]
pub struct Page<T> {
    /// Items of the page.
    pub items: Vec<T>,
    /// Whether the page was cut short: more items may follow although it has fewer than requested.
    pub cut: bool,
    /// Permit of a large page, held until the page is written.
    pub large: Option<LargeAnswer>,
    /// Number of older items that retention has deleted, on the page that ends the list.
    pub deleted: Option<i64>,
}

/// Byte limit of a page being read.
pub struct Measure {
    /// Whose limit of large pages counts; `None` for a page that is not read again.
    grant: Option<Arc<Grant>>,
    bytes: i64,
    cut: bool,
    large: Option<LargeAnswer>,
}

impl Measure {
    /// Starts with the small limit.
    #[must_use]
    pub fn of(caller: &Caller) -> Self {
        Self { grant: Some(Arc::clone(&caller.grant)), bytes: SMALL_PAGE_BYTES, cut: false, large: None }
    }

    /// Starts with this limit, and ends with it.
    #[must_use]
    pub fn fixed(bytes: i64) -> Self {
        Self { grant: None, bytes, cut: false, large: None }
    }

    /// Byte limit: rows are read while those before them have fewer bytes, so the last may exceed it.
    #[must_use]
    pub fn bytes(&self) -> i64 {
        self.bytes
    }

    /// Notes the bytes read; returns whether to read again with the higher limit.
    pub fn again(&mut self, read: usize) -> bool {
        self.cut = i64::try_from(read).is_ok_and(|read| read >= self.bytes);
        if !self.cut || self.large.is_some() {
            return false;
        }
        self.large = self.grant.as_ref().and_then(|grant| grant.large_answer());
        if self.large.is_some() {
            self.bytes = PAGE_BYTES;
        }
        self.large.is_some()
    }

    /// Whether the last read was cut short.
    #[must_use]
    pub fn cut(&self) -> bool {
        self.cut
    }

    /// Builds the page.
    #[must_use]
    pub fn page<T>(self, items: Vec<T>) -> Page<T> {
        Page { items, cut: self.cut, large: self.large, deleted: None }
    }

    /// Permit of a large answer, if it is one.
    #[must_use]
    pub fn large(self) -> Option<LargeAnswer> {
        self.large
    }
}
