//! Filter of the process's log, which an operator changes while the server runs. A change ends by itself: a filter for
//! looking at one fault would otherwise fill the disk.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

/// The filter of this process, set once logging has begun.
static FILTER: OnceLock<LogFilter> = OnceLock::new();

/// Function that puts a filter into force.
type Apply = Box<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// The filter of a process.
pub struct LogFilter {
    configured: String,
    apply: Apply,
    changed: Mutex<Option<Change>>,
}

/// A change in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The filter.
    pub filter: String,
    /// When the configured filter is in force again.
    pub until: Instant,
}

impl LogFilter {
    /// Creates the filter with the configured one in force.
    pub fn new(configured: &str, apply: impl Fn(&str) -> Result<(), String> + Send + Sync + 'static) -> Self {
        Self { configured: configured.to_owned(), apply: Box::new(apply), changed: Mutex::default() }
    }

    /// Makes this the filter of the process; the first one stays.
    pub fn install(self) {
        let _first = FILTER.set(self);
    }

    /// Returns the filter of the process; `None` while nothing is logged, as in tests.
    #[must_use]
    pub fn of_process() -> Option<&'static Self> {
        FILTER.get()
    }

    /// Returns the configured filter.
    #[must_use]
    pub fn configured(&self) -> &str {
        &self.configured
    }

    /// Returns the change in force.
    #[must_use]
    pub fn change(&self) -> Option<Change> {
        self.lock().clone()
    }

    /// Puts a filter into force for a while; [`Self::expire`] ends it.
    ///
    /// # Errors
    /// It is no filter; the message says why. The former one stays in force.
    pub fn set(&self, filter: &str, until: Instant) -> Result<(), String> {
        let mut changed = self.lock();
        (self.apply)(filter)?;
        *changed = Some(Change { filter: filter.to_owned(), until });
        Ok(())
    }

    /// Puts the configured filter into force again if the time of the change is over.
    pub fn expire(&self, now: Instant) {
        let mut changed = self.lock();
        if changed.as_ref().is_some_and(|change| change.until <= now) {
            self.restore(&mut changed);
        }
    }

    /// Puts the configured filter into force again.
    pub fn end(&self) {
        self.restore(&mut self.lock());
    }

    fn restore(&self, changed: &mut Option<Change>) {
        if changed.take().is_some()
            && let Err(error) = (self.apply)(&self.configured)
        {
            tracing::warn!(error, "the configured log filter is not in force again");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Change>> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_change_ends_once_and_a_later_one_stays() {
        let applied: Arc<Mutex<Vec<String>>> = Arc::default();
        let record = Arc::clone(&applied);
        let filter = LogFilter::new("info", move |text| {
            if text == "bad" {
                return Err("no filter".to_owned());
            }
            record.lock().unwrap().push(text.to_owned());
            Ok(())
        });
        let now = Instant::now();
        let [soon, later] = [1, 2].map(|hours| now + Duration::from_secs(hours * 3_600));
        filter.set("debug", soon).unwrap();
        filter.set("trace", later).unwrap();
        filter.expire(soon);
        assert!(filter.set("bad", soon).is_err());
        let change = Change { filter: "trace".to_owned(), until: later };
        assert_eq!(
            filter.change(),
            Some(change),
            "the later one stays, and what is no filter changes nothing"
        );
        filter.expire(later);
        filter.end();
        assert_eq!(filter.change(), None);
        assert_eq!(*applied.lock().unwrap(), ["debug", "trace", "info"]);
    }
}
