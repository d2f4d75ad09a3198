//! Bounds the log: of warnings and errors that repeat themselves, one line a second is written, and how many were left out.
//!
//! A database that is away makes every request fail in the same way. Thousands of equal lines would fill the disk and hide
//! the different ones.

use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata};
use tracing_subscriber::layer::{Context, Filter};

/// Time in which a fault is written once.
const ONCE_IN: Duration = Duration::from_secs(1);

/// Target of the lines about refused credentials.
const REFUSED: &str = "entente_runtime::refused";

/// Different faults of one place in the code that are written in this time.
const DIFFERENT: usize = 20;

/// The faults of the last second. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Repeats(Arc<Mutex<HashMap<Identifier, Place>>>);

/// The faults of one place in the code.
#[derive(Debug)]
struct Place {
    /// Where it is.
    file: &'static str,
    line: u32,
    since: Instant,
    /// Fingerprints of the faults that were written.
    written: Vec<u64>,
    left_out: u64,
}

/// Number of lines that a place in the code was kept from writing.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LeftOut {
    pub file: &'static str,
    pub line: u32,
    pub count: u64,
}

impl Repeats {
    fn lock(&self) -> MutexGuard<'_, HashMap<Identifier, Place>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a fault is written, and counts it if not.
    fn admit(&self, metadata: &'static Metadata<'static>, fingerprint: u64, now: Instant) -> bool {
        let mut places = self.lock();
        let place = places.entry(metadata.callsite()).or_insert_with(|| Place {
            file: metadata.file().unwrap_or_default(),
            line: metadata.line().unwrap_or_default(),
            since: now,
            written: Vec::new(),
            left_out: 0,
        });
        if now.duration_since(place.since) >= ONCE_IN {
            place.since = now;
            place.written.clear();
        }
        let admitted = place.written.len() < DIFFERENT && !place.written.contains(&fingerprint);
        if admitted {
            place.written.push(fingerprint);
        } else {
            place.left_out += 1;
        }
        admitted
    }

    /// Takes the counts of all places, and forgets the places that had nothing for a while.
    pub fn take(&self, now: Instant) -> Vec<LeftOut> {
        let mut places = self.lock();
        let taken = places.values_mut().filter(|place| place.left_out > 0).map(|place| LeftOut {
            file: place.file,
            line: place.line,
            count: std::mem::take(&mut place.left_out),
        });
        let taken = taken.collect();
        places.retain(|_, place| now.duration_since(place.since) < ONCE_IN);
        taken
    }

    /// Logs how many lines were left out.
    pub fn report(&self, now: Instant) {
        for LeftOut { file, line, count } in self.take(now) {
            tracing::warn!(count, file, line, "the same fault again: lines were left out");
        }
    }
}

impl<S> Filter<S> for Repeats {
    fn enabled(&self, _metadata: &Metadata<'_>, _context: &Context<'_, S>) -> bool {
        true
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        // Callsites without faults are not asked about again.
        if is_fault(metadata) { Interest::sometimes() } else { Interest::always() }
    }

    fn event_enabled(&self, event: &Event<'_>, _context: &Context<'_, S>) -> bool {
        if !is_fault(event.metadata()) {
            return true;
        }
        let mut fingerprint = Fingerprint::default();
        event.record(&mut fingerprint);
        self.admit(event.metadata(), fingerprint.0.finish(), Instant::now())
    }
}

/// Whether a line is bounded here. Refused credentials have bounds of their own, by address, and each says which key it was.
fn is_fault(metadata: &Metadata<'_>) -> bool {
    *metadata.level() <= Level::WARN && metadata.target() != REFUSED
}

/// Tells faults apart by their fields, without those that are different each time: ids and times.
#[derive(Default)]
struct Fingerprint(DefaultHasher);

impl Visit for Fingerprint {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let name = field.name();
        if matches!(name.rsplit(['.', '_']).next(), Some("id" | "micros")) {
            return;
        }
        name.hash(&mut self.0);
        format!("{value:?}").hash(&mut self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};

    use super::*;

    /// The logged lines.
    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Written {
        fn lines(&self) -> Vec<String> {
            let text = String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap();
            text.lines().map(str::to_owned).collect()
        }
    }

    /// Logs to memory, through the layers of the program, while `act` runs.
    fn logging(act: impl FnOnce(&Repeats, &Written)) {
        let (repeats, written) = (Repeats::default(), Written::default());
        let to = written.clone();
        let log = tracing_subscriber::fmt::layer().with_writer(move || to.clone()).with_ansi(false);
        let filter = tracing_subscriber::EnvFilter::new("info");
        let subscriber = tracing_subscriber::registry().with(filter).with(log.with_filter(repeats.clone()));
        tracing::subscriber::with_default(subscriber, || act(&repeats, &written));
    }

    fn fail(id: u64, error: &str) {
        tracing::warn!(request.id = id, error, "failed");
    }

    #[test]
    fn a_fault_that_repeats_itself_is_written_once_with_a_count() {
        logging(|repeats, written| {
            (0..100).for_each(|id| fail(id, "the database is away"));
            fail(100, "something else");
            let lines = written.lines();
            assert_eq!(lines.len(), 2, "{lines:?}");
            assert!(lines[0].contains("the database is away") && lines[1].contains("something else"));
            repeats.report(Instant::now());
            let lines = written.lines();
            assert_eq!(lines.len(), 1, "{lines:?}");
            assert!(lines[0].contains("count=99") && lines[0].contains("repeats.rs"), "{lines:?}");
            repeats.report(Instant::now());
            assert_eq!(written.lines(), [""; 0], "nothing more was left out");
        });
    }

    #[test]
    fn a_second_later_it_is_written_again_and_its_place_is_forgotten_in_between() {
        logging(|repeats, written| {
            fail(1, "away");
            fail(2, "away");
            let later = Instant::now() + ONCE_IN;
            assert_eq!(repeats.take(later).iter().map(|one| one.count).sum::<u64>(), 1);
            assert!(repeats.lock().is_empty(), "it grows with the places in the code");
            fail(3, "away");
            assert_eq!(written.lines().len(), 2);
        });
    }

    #[test]
    fn a_flood_of_different_faults_is_bounded_and_nothing_else_is() {
        logging(|repeats, written| {
            (0..1_000).for_each(|n| fail(n, &format!("fault {n}")));
            assert_eq!(written.lines().len(), DIFFERENT);
            assert_eq!(repeats.take(Instant::now())[0].count, 1_000 - DIFFERENT as u64);
            (0..1_000).for_each(|_| tracing::info!("a line of the life of the server"));
            (0..1_000).for_each(|_| tracing::debug!("below the filter"));
            assert_eq!(written.lines().len(), 1_000);
        });
    }
}
