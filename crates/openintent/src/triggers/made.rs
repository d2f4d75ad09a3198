//! Rows of intents that triggers created, with the triggers behind each of them. Table `trigger_intents`.

use entente_domain::ids::{IntentId, TriggerId};
use entente_domain::openintent::triggers::{Lineage, Trigger};
use entente_kernel::Outcome;
use sqlx::PgConnection;

/// Number of parents that are searched for the trigger behind an intent: intents that an agent creates below a
/// trigger's intent count as created by that trigger too.
const GENERATIONS: i32 = 16;

/// Records an intent that a trigger created.
pub(super) async fn insert(
    conn: &mut PgConnection,
    trigger: &Trigger,
    intent: IntentId,
    lineage: &Lineage,
) -> Outcome<()> {
    let chain: Vec<uuid::Uuid> = lineage.chain.iter().map(|id| id.uuid()).collect();
    sqlx::query!(
        "-- trigger_intents::insert
         INSERT INTO trigger_intents (intent_id, trigger_id, principal_id, type, namespace, chain, open)
         VALUES ($1, $2, $3, $4, $5, $6, true)",
        intent.uuid(),
        trigger.id.uuid(),
        trigger.principal_id,
        trigger.makes(),
        trigger.namespace,
        &chain
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Returns whether an intent of the trigger's type is open, in its namespace or, without one, everywhere (RFC-0017
/// §6.1).
///
/// Only intents of its own principal's triggers count, because nobody may learn about others' or be delayed by them.
pub(super) async fn is_open(conn: &mut PgConnection, trigger: &Trigger) -> Outcome<bool> {
    let open = sqlx::query_scalar!(
        r#"-- trigger_intents::is_open
         SELECT EXISTS (SELECT 1 FROM trigger_intents
                        WHERE open AND principal_id = $1 AND type = $2 AND ($3::text IS NULL OR namespace = $3)) AS "open!""#,
        trigger.principal_id,
        trigger.makes(),
        trigger.namespace
    )
    .fetch_one(conn)
    .await?;
    Ok(open)
}

/// Records, within the operation that ends an intent, that it is over, so that waiting firings can run.
pub(crate) async fn end_of_intent(conn: &mut PgConnection, intent: IntentId) -> Outcome<()> {
    sqlx::query!(
        "-- trigger_intents::end
         UPDATE trigger_intents SET open = false WHERE intent_id = $1 AND open",
        intent.uuid()
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Returns the chain of triggers behind an intent: those of the trigger that created it or one of its parents.
pub(super) async fn lineage(conn: &mut PgConnection, intent: IntentId) -> Outcome<Lineage> {
    let chain = sqlx::query_scalar!(
        r#"-- trigger_intents::lineage
         WITH RECURSIVE up AS (
             SELECT i.id, i.parent_id, 0 AS generation FROM intents i WHERE i.id = $1
             UNION ALL
             SELECT i.id, i.parent_id, up.generation + 1 FROM up JOIN intents i ON i.id = up.parent_id
             WHERE up.generation < $2)
         SELECT t.chain AS "chain!" FROM up JOIN trigger_intents t ON t.intent_id = up.id
         ORDER BY up.generation LIMIT 1"#,
        intent.uuid(),
        GENERATIONS
    )
    .fetch_optional(conn)
    .await?;
    Ok(Lineage { chain: chain.unwrap_or_default().into_iter().map(TriggerId::from).collect() })
}
