//! Repeated warnings and errors: the first is logged at once, then one line a second tells how many more there were, and the last
//! of them. A database that is away for a minute costs sixty lines, however many requests fail meanwhile.
//!
//! What repeats is what one place in the code logs: its texts differ by ids and addresses.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use entente_runtime::tasks::Tasks;
use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

/// Shortest time between two lines of one place.
const WINDOW: Duration = Duration::from_secs(1);

/// Characters of the last event that are told, at most.
const TOLD: usize = 400;

/// Target of the lines that tell how many were left out: they are no repetitions themselves.
const TARGET: &str = "repeated";

/// Places that have logged lately.
type Places = HashMap<Identifier, Place>;

/// A place in the code that logs warnings or errors.
#[derive(Debug)]
struct Place {
    level: Level,
    target: &'static str,
    /// When its last line was logged.
    logged: Instant,
    /// Events since then.
    left_out: u64,
    /// The last of them.
    last: String,
}

/// The filter, and what it has left out. Clones share both. Everything is logged unless somebody tells what was left out.
#[derive(Debug, Clone, Default)]
pub(super) struct Repeats(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    is_told: AtomicBool,
    places: Mutex<Places>,
}

/// What is told about a place in place of its events.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    level: Level,
    target: &'static str,
    count: u64,
    last: String,
}

impl Repeats {
    /// Counts an event; returns whether it is logged.
    fn admit(
        &self,
        metadata: &'static Metadata<'static>,
        now: Instant,
        text: impl FnOnce() -> String,
    ) -> bool {
        let mut places = self.0.places.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(place) = places.get_mut(&metadata.callsite()) else {
            let (level, target) = (*metadata.level(), metadata.target());
            let place = Place { level, target, logged: now, left_out: 0, last: String::new() };
            places.insert(metadata.callsite(), place);
            return true;
        };
        place.left_out += 1;
        place.last = text();
        false
    }

    /// Takes what is to be told now, and forgets places that have been silent for a second.
    fn due(&self, now: Instant) -> Vec<Told> {
        let mut told = Vec::new();
        let mut places = self.0.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.retain(|_, place| {
            if now.saturating_duration_since(place.logged) < WINDOW {
                return true;
            }
            if place.left_out == 0 {
                return false;
            }
            let (count, last) = (std::mem::take(&mut place.left_out), std::mem::take(&mut place.last));
            told.push(Told { level: place.level, target: place.target, count, last });
            place.logged = now;
            true
        });
        told
    }

    /// Tells regularly what was left out, and once more at the end.
    pub fn start(&self, tasks: &Tasks) {
        let (repeats, stopping) = (self.clone(), tasks.stopping().clone());
        tasks.keep("repeated faults", move || {
            let (repeats, stopping) = (repeats.clone(), stopping.clone());
            async move {
                repeats.0.is_told.store(true, Relaxed);
                while stopping.run_until_cancelled(tokio::time::sleep(WINDOW)).await.is_some() {
                    repeats.tell(Instant::now());
                }
                repeats.0.is_told.store(false, Relaxed);
                repeats.tell(Instant::now() + WINDOW);
            }
        });
    }

    fn tell(&self, now: Instant) {
        for Told { level, target, count, last } in self.due(now) {
            if level == Level::ERROR {
                tracing::error!(target: TARGET, count, from = target, last, "repeated errors were left out");
            } else {
                tracing::warn!(target: TARGET, count, from = target, last, "repeated warnings were left out");
            }
        }
    }
}

impl<S: Subscriber> Layer<S> for Repeats {
    fn event_enabled(&self, event: &Event<'_>, _context: Context<'_, S>) -> bool {
        let metadata = event.metadata();
        let is_told = self.0.is_told.load(Relaxed);
        if !is_told || *metadata.level() > Level::WARN || metadata.target() == TARGET {
            return true;
        }
        self.admit(metadata, Instant::now(), || {
            let mut text = Text::default();
            event.record(&mut text);
            text.0
        })
    }
}

/// The members of an event as text.
#[derive(Default)]
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if self.0.len() >= TOLD {
            return;
        }
        let gap = if self.0.is_empty() { "" } else { " " };
        // Writing into a `String` cannot fail.
        let _written = match field.name() {
            "message" => write!(self.0, "{gap}{value:?}"),
            name => write!(self.0, "{gap}{name}={value:?}"),
        };
        self.0.truncate(self.0.floor_char_boundary(TOLD));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the metadata of one place in the code.
    fn place() -> &'static Metadata<'static> {
        use tracing::callsite::Callsite as _;
        static PLACE: tracing::callsite::DefaultCallsite = tracing::callsite::DefaultCallsite::new({
            static META: Metadata<'static> = tracing::metadata! {
                name: "place", target: "entente::place", level: Level::WARN,
                fields: &["message"], callsite: &PLACE, kind: tracing::metadata::Kind::EVENT,
            };
            &META
        });
        PLACE.metadata()
    }

    #[test]
    fn the_first_is_logged_and_then_one_line_a_second() {
        let (repeats, began) = (Repeats::default(), Instant::now());
        let at = |milliseconds| began + Duration::from_millis(milliseconds);
        assert!(repeats.admit(place(), at(0), || "first".to_owned()));
        for n in 1..=50 {
            assert!(!repeats.admit(place(), at(n), || format!("number {n}")));
        }
        assert_eq!(repeats.due(at(500)), [], "not before a second is over");
        let told = |count, last: &str| Told {
            level: Level::WARN,
            target: "entente::place",
            count,
            last: last.to_owned(),
        };
        assert_eq!(repeats.due(at(1_000)), [told(50, "number 50")]);
        assert!(!repeats.admit(place(), at(1_200), || "again".to_owned()), "it still repeats");
        assert_eq!(repeats.due(at(2_000)), [told(1, "again")]);
        assert_eq!(repeats.due(at(3_000)), [], "it was silent");
        assert!(repeats.admit(place(), at(3_100), || "later".to_owned()), "it is a new fault");
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let mut text = Text::default();
        text.0 = "ä".repeat(TOLD);
        text.0.truncate(text.0.floor_char_boundary(TOLD));
        assert!(text.0.len() <= TOLD && text.0.chars().all(|c| c == 'ä'));
    }
}
