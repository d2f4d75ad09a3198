//! How many bytes a page of a list has. What is small is read at once. What is not is read again with more room, if the key
//! has one of its few large answers left; else the page is cut short, and its reader goes on behind it. So nobody is refused,
//! and a key whose answers are not read holds little memory.

use std::sync::Arc;

use entente_domain::limits::{PAGE_BYTES, SMALL_PAGE_BYTES};

use super::shares::LargeAnswer;
use super::{Caller, Grant};

/// A page of a list.
#[derive(Debug, Clone)]
pub struct Page<T> {
    /// What is on it.
    pub items: Vec<T>,
    /// Whether it was cut short, so that there may be more although it has fewer than were asked for.
    pub cut: bool,
    /// Held until the page is written, when it is a large one.
    pub large: Option<LargeAnswer>,
}

/// Measures what is read for a page.
pub(crate) struct Measure {
    grant: Arc<Grant>,
    bytes: i64,
    cut: bool,
    large: Option<LargeAnswer>,
}

impl Measure {
    /// For a page that is read for this caller.
    pub fn of(caller: &Caller) -> Self {
        Self { grant: Arc::clone(&caller.grant), bytes: SMALL_PAGE_BYTES, cut: false, large: None }
    }

    /// How many bytes of items to read, but for one item: rows are read as long as those before have fewer.
    pub fn bytes(&self) -> i64 {
        self.bytes
    }

    /// Takes note of what was read; whether it is to be read again, with more room.
    pub fn again(&mut self, read: usize) -> bool {
        self.cut = i64::try_from(read).is_ok_and(|read| read >= self.bytes);
        if !self.cut || self.large.is_some() {
            return false;
        }
        self.large = self.grant.large_answer();
        if self.large.is_some() {
            self.bytes = PAGE_BYTES;
        }
        self.large.is_some()
    }

    /// Whether what was read last was cut short.
    pub fn cut(&self) -> bool {
        self.cut
    }

    /// The page.
    pub fn page<T>(self, items: Vec<T>) -> Page<T> {
        Page { items, cut: self.cut, large: self.large }
    }

    /// The right to the large answer, if it is one.
    pub fn large(self) -> Option<LargeAnswer> {
        self.large
    }
}
