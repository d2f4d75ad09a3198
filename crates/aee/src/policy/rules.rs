//! Rules about the envelopes that may pass between entities (AEE §11.5). Table `aee_rules`; their meaning is in
//! `domain/src/aee/envelopes/policy.rs`.

use entente_domain::aee::envelopes::policy::{RULES, Rule};
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::identity::principals::check_name;
use entente_domain::ids::IntentId;
use entente_domain::log::events::{Draft, Kind};
use entente_domain::refusal::Code;
use entente_kernel::{Caller, IntentTx, Outcome, not_found, refuse};
use serde_json::json;
use sqlx::PgConnection;

use crate::Ctx;
use crate::policy::version;

/// A rule with its name.
#[derive(Debug, Clone)]
pub struct Named {
    /// Name of the rule.
    pub name: String,
    /// The rule.
    pub rule: Rule,
    /// Principal that last changed it.
    pub updated_by: String,
    /// Time of the last change.
    pub updated_at: Timestamp,
}

/// Lists all rules, in the order of their names.
///
/// # Errors
/// Fails if the scope `admin` is missing.
pub async fn list(ctx: &Ctx, caller: &Caller) -> Outcome<Vec<Named>> {
    caller.require(Scope::Admin)?;
    let mut connection = ctx.pool.acquire().await?;
    load(&mut connection).await
}

/// Sets a rule, replacing one of the same name; it applies to every envelope accepted afterwards.
///
/// # Errors
/// Fails if the scope `admin` is missing, if a pattern or a pointer is malformed, or if the maximum number of rules
/// is reached.
pub async fn set(ctx: &Ctx, caller: &Caller, name: String, rule: Rule) -> Outcome<Named> {
    caller.require(Scope::Admin)?;
    check_name("name", &name)?;
    let rule = rule.check()?.rule;
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, None).await?;
    let known = load(work.conn()).await?;
    if let Some(same) = known.iter().find(|one| one.name == name && one.rule == rule) {
        return Ok(same.clone());
    }
    if known.len() >= RULES && !known.iter().any(|one| one.name == name) {
        let message =
            format!("There are {RULES} rules, as many as there may be. Take some away, or say more in one.");
        return Err(refuse(Code::Unprocessable, message));
    }
    let named = Named { name, rule, updated_by: caller.principal().to_owned(), updated_at: work.now() };
    save(work.conn(), &named).await?;
    version::bump(work.conn()).await?;
    let payload = json!({ "name": named.name, "rule": named.rule });
    work.record(Draft::of(Kind::EnvelopeRuleSet, caller.principal(), payload));
    work.commit().await?;
    Ok(named)
}

/// Deletes a rule.
///
/// # Errors
/// Fails if the scope `admin` is missing, or if there is no such rule.
pub async fn remove(ctx: &Ctx, caller: &Caller, name: &str) -> Outcome<()> {
    caller.require(Scope::Admin)?;
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, None).await?;
    if !delete(work.conn(), name).await? {
        return Err(not_found("rule"));
    }
    version::bump(work.conn()).await?;
    work.record(Draft::of(Kind::EnvelopeRuleRemoved, caller.principal(), json!({ "name": name })));
    work.commit().await
}

/// Loads all rules, in the order of their names.
pub(crate) async fn load(conn: &mut PgConnection) -> Outcome<Vec<Named>> {
    let rows = sqlx::query!(
        "-- rules::load
         SELECT name, rule, updated_by, updated_at FROM aee_rules ORDER BY name"
    )
    .fetch_all(conn)
    .await?;
    let read = rows.into_iter().map(|row| {
        let rule = serde_json::from_str(&row.rule)?;
        Ok(Named { name: row.name, rule, updated_by: row.updated_by, updated_at: row.updated_at })
    });
    read.collect()
}

async fn save(conn: &mut PgConnection, named: &Named) -> Outcome<()> {
    sqlx::query!(
        "-- rules::save
         INSERT INTO aee_rules (name, rule, updated_by, updated_at) VALUES ($1, $2, $3, $4)
         ON CONFLICT (name) DO UPDATE SET rule = $2, updated_by = $3, updated_at = $4",
        named.name,
        serde_json::to_string(&named.rule)?,
        named.updated_by,
        named.updated_at
    )
    .execute(conn)
    .await?;
    Ok(())
}

async fn delete(conn: &mut PgConnection, name: &str) -> Outcome<bool> {
    let done = sqlx::query!(
        "-- rules::delete
         DELETE FROM aee_rules WHERE name = $1",
        name
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected() > 0)
}
