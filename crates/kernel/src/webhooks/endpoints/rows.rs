//! Rows of the table `webhook_endpoints`.

use std::collections::HashMap;

use entente_domain::clock::Timestamp;
use entente_domain::ids::{ChannelId, EndpointId, IntentId, KeyId, PortfolioId};
use entente_domain::webhooks::formats::BodyFormat;
use entente_domain::webhooks::signing::{Scheme, Secret, Secrets};
use entente_domain::webhooks::{DisabledReason, Endpoint, EndpointKind};
use sqlx::PgConnection;

use super::EndpointFilter;
use crate::webhooks::deliveries;
use crate::{AppError, Ctx, Outcome, unknown};

/// The kinds of endpoints created by subscribing, not by registering an agent.
const SUBSCRIBED: [EndpointKind; 2] = [EndpointKind::Subscription, EndpointKind::Mailbox];

/// An endpoint with the data needed to send to it.
#[derive(Debug)]
pub(crate) struct Stored {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// The signing secrets.
    pub secrets: Secrets,
    /// The key whose permissions limit its deliveries.
    pub key_id: KeyId,
    /// Number of the event in the system log after which it receives records.
    pub hears_from: i64,
}

struct Row {
    id: uuid::Uuid,
    kind: String,
    principal_id: String,
    agent_id: String,
    key_id: uuid::Uuid,
    intent_id: Option<uuid::Uuid>,
    channel_id: Option<uuid::Uuid>,
    portfolio_id: Option<uuid::Uuid>,
    event_types: Vec<String>,
    url: Option<String>,
    format: String,
    signature: String,
    secret: String,
    old_secret: Option<String>,
    old_secret_until: Option<Timestamp>,
    created_at: Timestamp,
    expires_at: Option<Timestamp>,
    disabled_at: Option<Timestamp>,
    disabled_reason: Option<String>,
    hears_from: i64,
}

fn secret(text: &str) -> Outcome<Secret> {
    Secret::parse(text)
        .ok_or_else(|| AppError::Inconsistent("a stored secret of an endpoint is none".to_owned()))
}

impl TryFrom<Row> for Stored {
    type Error = AppError;

    fn try_from(row: Row) -> Outcome<Self> {
        let current = secret(&row.secret)?;
        let disabled = match (row.disabled_at, row.disabled_reason) {
            (Some(at), Some(word)) => {
                Some((at, DisabledReason::parse(&word).ok_or_else(|| unknown("reason", &word))?))
            }
            _ => None,
        };
        let before = match (row.old_secret, row.old_secret_until) {
            (Some(text), Some(until)) => Some((secret(&text)?, until)),
            _ => None,
        };
        Ok(Self {
            endpoint: Endpoint {
                id: row.id.into(),
                kind: EndpointKind::parse(&row.kind).ok_or_else(|| unknown("endpoint kind", &row.kind))?,
                principal_id: row.principal_id,
                agent_id: row.agent_id,
                intent_id: row.intent_id.map(IntentId::from),
                channel_id: row.channel_id.map(ChannelId::from),
                portfolio_id: row.portfolio_id.map(PortfolioId::from),
                event_types: row.event_types,
                url: row.url,
                format: BodyFormat::parse(&row.format).ok_or_else(|| unknown("format", &row.format))?,
                signature: Scheme::parse(&row.signature)
                    .ok_or_else(|| unknown("signature", &row.signature))?,
                public_key: current.public(),
                created_at: row.created_at,
                expires_at: row.expires_at,
                disabled,
            },
            secrets: Secrets { current, before },
            key_id: row.key_id.into(),
            hears_from: row.hears_from,
        })
    }
}

/// Loads whole endpoints: takes the query's name and the text after `FROM webhook_endpoints`.
macro_rules! select {
    ($name:literal, $rest:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            Row,
            "-- " + $name + "
             SELECT id, kind, principal_id, agent_id, key_id, intent_id, channel_id, portfolio_id, event_types, url,
                    format, signature, secret, old_secret, old_secret_until, created_at, expires_at, disabled_at,
                    disabled_reason, hears_from
             FROM webhook_endpoints " + $rest
            $(, $argument)*
        )
    };
}

/// Loads an endpoint that was not removed.
pub(crate) async fn find(conn: &mut PgConnection, id: EndpointId) -> Outcome<Option<Stored>> {
    let row = select!("endpoints::find", "WHERE id = $1 AND removed_at IS NULL", id.uuid())
        .fetch_optional(conn)
        .await?;
    row.map(Stored::try_from).transpose()
}

/// Loads the endpoint that an agent registered with.
pub(super) async fn of_agent(conn: &mut PgConnection, agent_id: &str) -> Outcome<Option<Stored>> {
    let row = select!(
        "endpoints::of_agent",
        "WHERE agent_id = $1 AND kind = 'agent' AND removed_at IS NULL",
        agent_id
    )
    .fetch_optional(conn)
    .await?;
    row.map(Stored::try_from).transpose()
}

/// Loads a principal's endpoints in the order of their ids.
pub(super) async fn list(
    conn: &mut PgConnection,
    principal_id: &str,
    filter: &EndpointFilter,
) -> Outcome<Vec<Stored>> {
    let kinds = filter.kind.map_or(SUBSCRIBED.to_vec(), |kind| vec![kind]);
    let kinds: Vec<&str> = kinds.iter().map(|kind| kind.as_str()).collect();
    let rows = select!(
        "endpoints::list",
        "WHERE principal_id = $1 AND removed_at IS NULL AND kind = ANY ($2)
           AND ($3::uuid IS NULL OR intent_id = $3) AND ($4::uuid IS NULL OR id > $4)
           AND ($5::uuid IS NULL OR portfolio_id = $5)
         ORDER BY id LIMIT $6",
        principal_id,
        &kinds as &[&str],
        filter.intent_id.map(IntentId::uuid),
        filter.after.map(EndpointId::uuid),
        filter.portfolio_id.map(PortfolioId::uuid),
        i64::from(filter.limit)
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Stored::try_from).collect()
}

/// Counts a principal's subscriptions that have not expired.
pub(super) async fn count(conn: &mut PgConnection, principal_id: &str, now: Timestamp) -> Outcome<i64> {
    let count = sqlx::query_scalar!(
        r#"-- endpoints::count
         SELECT count(*) AS "count!" FROM webhook_endpoints
         WHERE principal_id = $1 AND kind <> 'agent' AND removed_at IS NULL
           AND (expires_at IS NULL OR expires_at > $2)"#,
        principal_id,
        now
    )
    .fetch_one(conn)
    .await?;
    Ok(count)
}

/// Loads all endpoints that receive records now.
pub(super) async fn live(conn: &mut PgConnection, now: Timestamp) -> Outcome<Vec<Stored>> {
    let rows = select!(
        "endpoints::live",
        "WHERE removed_at IS NULL AND url IS NOT NULL AND disabled_at IS NULL AND kind <> 'mailbox'
           AND (expires_at IS NULL OR expires_at > $1)
         ORDER BY id",
        now
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Stored::try_from).collect()
}

/// Returns the live endpoints of these mailboxes, by the mailbox's entity.
///
/// A person's mailbox is forwarded only to that person's own endpoints (`entities.rs`), even if the entity
/// became a person after the endpoint was made.
///
/// # Errors
/// A database error.
pub async fn of_mailboxes(
    conn: &mut PgConnection,
    entities: &[&str],
    now: Timestamp,
) -> Outcome<HashMap<String, Vec<EndpointId>>> {
    let rows = sqlx::query!(
        "-- endpoints::of_mailboxes
         SELECT agent_id, id FROM webhook_endpoints
         WHERE kind = 'mailbox' AND removed_at IS NULL AND agent_id = ANY ($1)
           AND url IS NOT NULL AND disabled_at IS NULL AND (expires_at IS NULL OR expires_at > $2)
           AND (agent_id = principal_id
                OR coalesce((SELECT p.kind <> 'human' FROM principals p WHERE p.id = agent_id), agent_id NOT LIKE 'human.%'))
         ORDER BY id",
        entities as &[&str],
        now
    )
    .fetch_all(conn)
    .await?;
    let mut found: HashMap<String, Vec<EndpointId>> = HashMap::new();
    for row in rows {
        found.entry(row.agent_id).or_default().push(row.id.into());
    }
    Ok(found)
}

/// Returns the live endpoints that receive the rings of these agents' inboxes, by the agent; of a person's, only that person's
/// own, as for mailboxes.
///
/// # Errors
/// A database error.
pub(in crate::webhooks) async fn of_inboxes(
    conn: &mut PgConnection,
    agents: &[&str],
    now: Timestamp,
) -> Outcome<HashMap<String, Vec<EndpointId>>> {
    let rows = sqlx::query!(
        "-- endpoints::of_inboxes
         SELECT agent_id, id FROM webhook_endpoints
         WHERE 'inbox.ring' = ANY (event_types) AND removed_at IS NULL AND agent_id = ANY ($1)
           AND url IS NOT NULL AND disabled_at IS NULL AND (expires_at IS NULL OR expires_at > $2)
           AND (agent_id = principal_id
                OR coalesce((SELECT p.kind <> 'human' FROM principals p WHERE p.id = agent_id), agent_id NOT LIKE 'human.%'))
         ORDER BY id",
        agents as &[&str],
        now
    )
    .fetch_all(conn)
    .await?;
    let mut found: HashMap<String, Vec<EndpointId>> = HashMap::new();
    for row in rows {
        found.entry(row.agent_id).or_default().push(row.id.into());
    }
    Ok(found)
}

/// Returns the keys in force that each of these keys is or was rotated to: the original key, and the public
/// id.
pub(super) async fn heirs(
    conn: &mut PgConnection,
    roots: &[uuid::Uuid],
    now: Timestamp,
) -> Outcome<Vec<(KeyId, String)>> {
    let rows = sqlx::query!(
        r#"-- endpoints::heirs
         WITH RECURSIVE heirs AS (
             SELECT k.id AS root, k.id FROM keys k WHERE k.id = ANY ($1)
             UNION SELECT h.root, n.id FROM heirs h JOIN keys n ON n.rotated_from = h.id)
         SELECT h.root AS "root!", k.public_id FROM heirs h JOIN keys k ON k.id = h.id
         WHERE k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > $2)
         ORDER BY k.id"#,
        roots,
        now
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.root.into(), row.public_id)).collect())
}

/// Inserts an endpoint, which receives records after this event of the system log.
pub(super) async fn insert(
    conn: &mut PgConnection,
    endpoint: &Endpoint,
    key_id: KeyId,
    secret: &Secret,
    hears_from: i64,
) -> Outcome<()> {
    sqlx::query!(
        "-- endpoints::insert
         INSERT INTO webhook_endpoints (id, kind, principal_id, agent_id, key_id, intent_id, channel_id, event_types, url,
                                        signature, secret, created_at, expires_at, portfolio_id, hears_from, format)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)",
        endpoint.id.uuid(),
        endpoint.kind.as_str(),
        endpoint.principal_id,
        endpoint.agent_id,
        key_id.uuid(),
        endpoint.intent_id.map(IntentId::uuid),
        endpoint.channel_id.map(ChannelId::uuid),
        &endpoint.event_types,
        endpoint.url,
        endpoint.signature.as_str(),
        secret.reveal(),
        endpoint.created_at,
        endpoint.expires_at,
        endpoint.portfolio_id.map(PortfolioId::uuid),
        hears_from,
        endpoint.format.as_str()
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Stores an endpoint's changes with its key; with `begins` it receives only records after this event of the system log.
pub(super) async fn save(
    conn: &mut PgConnection,
    endpoint: &Endpoint,
    key_id: Option<KeyId>,
    begins: Option<i64>,
) -> Outcome<()> {
    sqlx::query!(
        "-- endpoints::save
         UPDATE webhook_endpoints SET url = $2, event_types = $3, expires_at = $4, disabled_at = $5, disabled_reason = $6,
                key_id = coalesce($7, key_id),
                hears_from = coalesce($8, hears_from)
         WHERE id = $1",
        endpoint.id.uuid(),
        endpoint.url,
        &endpoint.event_types,
        endpoint.expires_at,
        endpoint.disabled.map(|(at, _)| at),
        endpoint.disabled.map(|(_, reason)| reason.as_str()),
        key_id.map(KeyId::uuid),
        begins
    )
    .execute(conn)
    .await?;
    Ok(())
}

pub(super) async fn save_secrets(conn: &mut PgConnection, id: EndpointId, secrets: &Secrets) -> Outcome<()> {
    sqlx::query!(
        "-- endpoints::save_secrets
         UPDATE webhook_endpoints SET secret = $2, old_secret = $3, old_secret_until = $4 WHERE id = $1",
        id.uuid(),
        secrets.current.reveal(),
        secrets.before.as_ref().map(|(secret, _)| secret.reveal()),
        secrets.before.as_ref().map(|(_, until)| *until)
    )
    .execute(conn)
    .await?;
    Ok(())
}

pub(super) async fn remove(conn: &mut PgConnection, id: EndpointId, now: Timestamp) -> Outcome<()> {
    sqlx::query!(
        "-- endpoints::remove
         UPDATE webhook_endpoints SET removed_at = $2 WHERE id = $1",
        id.uuid(),
        now
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Returns endpoints that expired before a time.
pub(super) async fn ended(
    conn: &mut PgConnection,
    before: Timestamp,
    limit: i64,
) -> Outcome<Vec<uuid::Uuid>> {
    let ids = sqlx::query_scalar!(
        "-- endpoints::ended
         SELECT id FROM webhook_endpoints WHERE removed_at IS NULL AND expires_at < $1 ORDER BY expires_at LIMIT $2",
        before,
        limit
    )
    .fetch_all(conn)
    .await?;
    Ok(ids)
}

/// Deletes the rest of removed endpoints, up to `limit` deliveries of each per call; returns the number of
/// deliveries.
///
/// # Errors
/// A database error.
pub(crate) async fn sweep_removed(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let removed = sqlx::query_scalar!(
        "-- endpoints::removed
         SELECT id FROM webhook_endpoints WHERE removed_at IS NOT NULL ORDER BY removed_at LIMIT 100"
    )
    .fetch_all(&ctx.pool)
    .await?;
    let mut swept = 0;
    for id in removed {
        let mut tx = ctx.begin(&[]).await?;
        let gone = deliveries::forget_all(&mut tx, id.into(), limit).await?;
        swept += gone;
        if gone == 0 {
            sqlx::query!("-- endpoints::delete\n DELETE FROM webhook_endpoints WHERE id = $1", id)
                .execute(&mut *tx)
                .await?;
        }
        tx.commit().await?;
    }
    Ok(swept)
}
