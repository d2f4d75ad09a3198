//! Turns: an intent before and after one of its events, for streams that show the state with the change.
//!
//! A turn is derived from the log (`entente_domain::openintent::intents::replay`) and never stored. The last version of each
//! followed intent is cached, so that following costs one step of replay per event.

use std::sync::Arc;

use entente_domain::ids::IntentId;
use entente_domain::log::events::Event;
use entente_domain::openintent::intents::{CHANGES, Intent, StateChange, replay};
use entente_runtime::cache::Cache;
use entente_runtime::metrics::Metrics;
use sqlx::PgConnection;

use crate::audit::{events, floors};
use crate::{AppError, Outcome};

/// Maximum number of cached intents, each of which takes the size of its state; the least recently used one is
/// dropped.
const REMEMBERED: usize = 256;

/// Cache of the last known version of followed intents.
#[derive(Debug)]
pub struct StateChanges(Cache<IntentId, Intent>);

impl StateChanges {
    /// Creates an empty cache.
    #[must_use]
    pub fn new(metrics: &Metrics) -> Self {
        Self(Cache::new("followed_intents", REMEMBERED, metrics))
    }

    /// Returns the turn of an event; `None` for events that do not change their intent.
    pub(crate) async fn of(
        &self,
        conn: &mut PgConnection,
        event: &Event,
    ) -> Outcome<Option<Arc<StateChange>>> {
        if !changes_intent(event) {
            return Ok(None);
        }
        let version = event.payload.get("version").and_then(serde_json::Value::as_i64).unwrap_or(0);
        let known =
            self.0.find(&event.intent_id, |intent| (intent.version + 1 == version).then(|| intent.clone()));
        let before = match known {
            Some(intent) => Some(intent),
            None => before(conn, event).await?,
        };
        let Some(before) = before else { return Ok(None) };
        let old_state = before.state.clone();
        let after = replay(Some(before), event).map_err(AppError::Inconsistent)?;
        let Some(intent) = after else { return Ok(None) };
        self.0.put(event.intent_id, intent.clone());
        Ok(Some(Arc::new(StateChange { old_state, intent })))
    }
}

/// Returns whether an event changes its intent, so that followers need its turn.
pub(super) fn changes_intent(event: &Event) -> bool {
    !event.posted && CHANGES.iter().any(|kind| kind.wire() == event.event_type)
}

/// Replays the intent before an event, from the beginning of its log, or from the state after the deleted events, if
/// retention has deleted some. `None` if it has just deleted the event itself.
async fn before(conn: &mut PgConnection, event: &Event) -> Outcome<Option<Intent>> {
    // The events are read first: one deleted in between is then also in the floor, and is skipped here.
    let log = events::changes_before(conn, event.intent_id, event.seq).await?;
    let floor = floors::load(conn, event.intent_id).await?.unwrap_or_default();
    if floor.seq >= event.seq {
        return Ok(None);
    }
    let rest = log.iter().filter(|one| one.seq > floor.seq);
    rest.into_iter().try_fold(floor.intent, replay).map_err(AppError::Inconsistent)
}
