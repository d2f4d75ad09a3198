//! Event triggers, reduced to the fields that matching needs, because they are examined for all events.

use entente_domain::ids::{KeyId, TriggerId};
use entente_domain::openintent::triggers::Condition;
use entente_kernel::Outcome;
use entente_kernel::log::{GlobalPosition, order};
use sqlx::PgConnection;
use uuid::Uuid;

/// Triggers read at once, so that not all of them are in memory.
const PAGE: i64 = 500;

/// An event trigger.
#[derive(Debug)]
pub(super) struct Listener {
    /// Its id.
    pub id: TriggerId,
    /// Owner of the trigger.
    pub principal_id: String,
    /// Agent that it creates intents as.
    pub agent_id: String,
    /// Key with the rights that it uses.
    pub key_id: KeyId,
    /// Condition for events.
    pub condition: Condition,
    /// Position after which events count; `None` while it is not known: then none does yet.
    pub begins: Option<GlobalPosition>,
}

/// A page of event triggers.
#[derive(Debug, Default)]
pub(super) struct Listening {
    /// Those that could be read.
    pub listeners: Vec<Listener>,
    /// Those that could not be read; they do not affect the others.
    pub broken: Vec<TriggerId>,
    /// Start of the next page, if there is one.
    pub next: Option<Uuid>,
}

/// Loads a page of the triggers for events of these types, by name or by a pattern, after the given one.
pub(super) async fn listening(
    conn: &mut PgConnection,
    types: &[&str],
    after: Option<Uuid>,
) -> Outcome<Listening> {
    let rows = sqlx::query!(
        "-- triggers::listening
         SELECT id, principal_id, agent_id, key_id, condition, hears_from FROM triggers
         WHERE listens AND enabled AND removed_at IS NULL AND (event_type IS NULL OR event_type = ANY ($1))
           AND ($2::uuid IS NULL OR id > $2)
         ORDER BY id LIMIT $3",
        types as &[&str],
        after,
        PAGE
    )
    .fetch_all(&mut *conn)
    .await?;
    let from: Vec<i64> = rows.iter().map(|row| row.hears_from).collect();
    let begins = order::places_in_system(&mut *conn, &from).await?;
    let mut found = Listening::default();
    let full = i64::try_from(rows.len()).is_ok_and(|count| count >= PAGE);
    found.next = rows.last().map(|row| row.id).filter(|_| full);
    for row in rows {
        match serde_json::from_str(row.condition.as_deref().unwrap_or("null")) {
            Ok(condition) => found.listeners.push(Listener {
                id: row.id.into(),
                principal_id: row.principal_id,
                agent_id: row.agent_id,
                key_id: row.key_id.into(),
                condition,
                begins: begins.get(&row.hears_from).copied(),
            }),
            Err(failure) => {
                tracing::error!(trigger.id = %row.id, error = %failure, "a trigger that listens could not be read");
                found.broken.push(row.id.into());
            }
        }
    }
    Ok(found)
}
