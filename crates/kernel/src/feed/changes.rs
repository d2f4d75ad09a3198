//! Turns: an intent before and after one of its events, for streams that show the state with the change.
//!
//! A turn is derived from the log (`entente_domain::openintent::intents::replay`) and never stored. The last version of each
//! followed intent is cached, so that following costs one step of replay per event.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use entente_domain::ids::IntentId;
use entente_domain::log::events::Event;
use entente_domain::openintent::intents::{CHANGES, Intent, StateChange, replay};
use sqlx::PgConnection;

use crate::audit::events;
use crate::{AppError, Outcome};

/// Maximum number of cached intents; each takes the size of its state.
const REMEMBERED: usize = 256;

/// Cache of the last known version of followed intents.
#[derive(Debug, Default)]
pub struct StateChanges(Mutex<HashMap<IntentId, Intent>>);

impl StateChanges {
    /// Returns the turn of an event; `None` for events that do not change their intent.
    pub(crate) async fn of(
        &self,
        conn: &mut PgConnection,
        event: &Event,
    ) -> Outcome<Option<Arc<StateChange>>> {
        let changes = CHANGES.iter().any(|kind| kind.wire() == event.event_type);
        if event.posted || !changes {
            return Ok(None);
        }
        let version = event.payload.get("version").and_then(serde_json::Value::as_i64).unwrap_or(0);
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&event.intent_id).cloned();
        let before = match known.filter(|intent| intent.version + 1 == version) {
            Some(intent) => Some(intent),
            None => before(conn, event).await?,
        };
        let Some(before) = before else { return Ok(None) };
        let old_state = before.state.clone();
        let after = replay(Some(before), event).map_err(AppError::Inconsistent)?;
        let Some(intent) = after else { return Ok(None) };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(event.intent_id, intent.clone());
        Ok(Some(Arc::new(StateChange { old_state, intent })))
    }
}

/// Replays the intent before an event, from the beginning of its log.
async fn before(conn: &mut PgConnection, event: &Event) -> Outcome<Option<Intent>> {
    let log = events::changes_before(conn, event.intent_id, event.seq).await?;
    log.iter().try_fold(None, replay).map_err(AppError::Inconsistent)
}
