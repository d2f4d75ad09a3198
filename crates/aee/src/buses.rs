//! Buses (AEE §5.2): an envelope sent to a bus goes to each entity subscribed to it. Owns the table
//! `aee_subscriptions`.

use std::collections::HashMap;

use entente_domain::aee::envelopes::is_bus;
use entente_domain::canonical::sha256;
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::limits::NAME_BYTES;
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::{Caller, Outcome, not_found};
use sqlx::PgConnection;

use crate::Ctx;
use crate::mailboxes;

/// Maximum number of buses that one entity listens to.
const PER_ENTITY: i64 = 1_000;

/// Maximum number of listeners of one bus, because each envelope is put into every listener's mailbox.
const PER_BUS: i64 = 1_000;

/// Maximum number of subscriptions of one principal to one bus, unless it is an admin; this leaves room for
/// others.
const PER_PRINCIPAL: i64 = 250;

/// Maximum number of subscriptions of one principal in total, for all its entities, unless it is an admin.
const OF_PRINCIPAL: i64 = 5_000;

/// A subscription.
#[derive(Debug, Clone)]
pub struct Listening {
    /// The bus.
    pub bus: String,
    /// The entity that listens.
    pub entity: String,
    /// When it was made.
    pub created_at: Timestamp,
}

fn check(bus: &str) -> Result<(), Refusal> {
    if is_bus(bus) && bus.len() <= NAME_BYTES && !bus.chars().any(char::is_control) {
        return Ok(());
    }
    let message = format!(
        "A channel is called `bus.` and a name, of at most {NAME_BYTES} bytes, such as `bus.alerts`."
    );
    Err(Refusal::new(Code::InvalidParameter, message))
}

/// Subscribes an entity of the caller's to a bus; a repeated call returns the existing subscription.
///
/// # Errors
/// The name is invalid; the entity is not the caller's; a limit is reached.
pub async fn subscribe(ctx: &Ctx, caller: &Caller, bus: &str, entity: &str) -> Outcome<Listening> {
    caller.require(Scope::MailWrite)?;
    check(bus)?;
    let now = ctx.now();
    // Serialised per principal and per bus, so that the counts stay true.
    let mut tx = ctx.begin_locked(vec![lock_key("by", caller.principal()), lock_key("bus", bus)]).await?;
    mailboxes::require(&mut tx, caller, entity).await?;
    mailboxes::open_row(&mut tx, entity, caller.principal(), now).await?;
    if let Some(created_at) = since(&mut tx, bus, entity).await? {
        tx.commit().await?;
        return Ok(Listening { bus: bus.to_owned(), entity: entity.to_owned(), created_at });
    }
    require_room(&mut tx, caller, bus, entity).await?;
    sqlx::query!(
        "-- aee_subscriptions::insert
         INSERT INTO aee_subscriptions (bus, entity, created_by, created_at) VALUES ($1, $2, $3, $4)
         ON CONFLICT DO NOTHING",
        bus,
        entity,
        caller.principal(),
        now
    )
    .execute(&mut *tx)
    .await?;
    let created_at = since(&mut tx, bus, entity).await?.unwrap_or(now);
    tx.commit().await?;
    Ok(Listening { bus: bus.to_owned(), entity: entity.to_owned(), created_at })
}

/// Returns when an entity subscribed to a bus, if it did.
async fn since(conn: &mut PgConnection, bus: &str, entity: &str) -> Outcome<Option<Timestamp>> {
    let since = sqlx::query_scalar!(
        "-- aee_subscriptions::since\n SELECT created_at FROM aee_subscriptions WHERE bus = $1 AND entity = $2",
        bus,
        entity
    );
    Ok(since.fetch_optional(conn).await?)
}

async fn require_room(conn: &mut PgConnection, caller: &Caller, bus: &str, entity: &str) -> Outcome<()> {
    let counts = sqlx::query!(
        r#"-- aee_subscriptions::count
         SELECT (SELECT count(*) FROM aee_subscriptions WHERE entity = $1) AS "own!", count(*) AS "all!",
                count(*) FILTER (WHERE created_by = $3) AS "principals!",
                (SELECT count(*) FROM aee_subscriptions WHERE created_by = $3) AS "in_all!"
         FROM aee_subscriptions WHERE bus = $2"#,
        entity,
        bus,
        caller.principal()
    )
    .fetch_one(conn)
    .await?;
    let much = counts.principals >= PER_PRINCIPAL || counts.in_all >= OF_PRINCIPAL;
    let share = much && !caller.has(Scope::Admin);
    if counts.own < PER_ENTITY && counts.all < PER_BUS && !share {
        return Ok(());
    }
    let message = format!(
        "There are as many subscriptions as there may be: {PER_ENTITY} of one entity, {PER_BUS} of one channel, \
         {PER_PRINCIPAL} of those by one principal that is no admin, and {OF_PRINCIPAL} by one in all. End one first."
    );
    Err(Refusal::new(Code::Unprocessable, message).into())
}

/// Returns the advisory lock of a bus or of a subscribing principal.
fn lock_key(kind: &str, name: &str) -> i64 {
    let digest = sha256(format!("aee_subscriptions\0{kind}\0{name}"));
    digest.first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes))
}

/// Ends a subscription.
///
/// # Errors
/// The entity is not subscribed, or is not the caller's.
pub async fn unsubscribe(ctx: &Ctx, caller: &Caller, bus: &str, entity: &str) -> Outcome<()> {
    caller.require(Scope::MailWrite)?;
    let mut conn = ctx.pool.acquire().await?;
    mailboxes::require(&mut conn, caller, entity).await?;
    let done = sqlx::query!(
        "-- aee_subscriptions::delete\n DELETE FROM aee_subscriptions WHERE bus = $1 AND entity = $2",
        bus,
        entity
    )
    .execute(&mut *conn)
    .await?;
    if done.rows_affected() == 0 { Err(not_found("subscription")) } else { Ok(()) }
}

/// Lists the subscriptions of an entity of the caller's.
///
/// # Errors
/// The entity is not the caller's.
pub async fn of(ctx: &Ctx, caller: &Caller, entity: &str) -> Outcome<Vec<Listening>> {
    caller.require(Scope::MailRead)?;
    let mut conn = ctx.pool.acquire().await?;
    mailboxes::require(&mut conn, caller, entity).await?;
    let rows = sqlx::query_as!(
        Listening,
        "-- aee_subscriptions::of
         SELECT bus, entity, created_at FROM aee_subscriptions WHERE entity = $1 ORDER BY bus LIMIT $2",
        entity,
        PER_ENTITY
    )
    .fetch_all(&mut *conn)
    .await?;
    Ok(rows)
}

/// Returns the number of listeners per bus; buses without listeners are left out.
pub(crate) async fn sizes(conn: &mut PgConnection, buses: &[&str]) -> Outcome<HashMap<String, usize>> {
    let rows = sqlx::query!(
        r#"-- aee_subscriptions::sizes
         SELECT bus, count(*) AS "size!" FROM aee_subscriptions WHERE bus = ANY($1) GROUP BY bus"#,
        buses as &[&str]
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.bus, usize::try_from(row.size).unwrap_or_default())).collect())
}

/// Returns the listeners per bus.
pub(crate) async fn listeners(
    conn: &mut PgConnection,
    buses: &[&str],
) -> Outcome<HashMap<String, Vec<String>>> {
    if buses.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = sqlx::query!(
        "-- aee_subscriptions::listeners
         SELECT bus, entity FROM aee_subscriptions WHERE bus = ANY($1) ORDER BY bus, entity",
        buses as &[&str]
    )
    .fetch_all(conn)
    .await?;
    let mut found: HashMap<String, Vec<String>> = HashMap::new();
    for row in rows {
        found.entry(row.bus).or_default().push(row.entity);
    }
    Ok(found)
}
