//! Stops: subjects that start nothing any more, until the stop is lifted. Table `stops`.
//!
//! Each server has a copy of the stops in force, so a check costs no query. A change renews the copy of its own server
//! before it is answered; the others learn of it by the look-around (`due::look`), within half a second.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use entente_domain::clock::Timestamp;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{BudgetId, IntentId, KeyId, StopId};
use entente_domain::log::events::{Draft, Kind};
use entente_domain::refusal::{Code, Refusal};
use entente_domain::stops::{Stop, StopSet, check_reason};
use entente_domain::subjects::{Act, Subject, SubjectKind, unversioned};
use serde_json::json;
use sqlx::PgConnection;
use uuid::Uuid;

use super::budgets::require_reading;
use crate::identity::teams;
use crate::{Caller, Ctx, IntentTx, Outcome, not_found, unknown};

/// This server's copy of the stops in force, and whether there are budgets at all.
#[derive(Debug)]
pub struct Stops {
    set: RwLock<Arc<StopSet>>,
    /// Number in the system log up to which changes are known.
    seen: AtomicI64,
    any: AtomicBool,
    budgets: AtomicBool,
}

impl Default for Stops {
    fn default() -> Self {
        Self {
            set: RwLock::default(),
            seen: AtomicI64::new(-1),
            any: AtomicBool::new(false),
            budgets: AtomicBool::new(true),
        }
    }
}

impl Stops {
    /// Returns the stops in force.
    #[must_use]
    pub fn current(&self) -> Arc<StopSet> {
        Arc::clone(&self.set.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Number in the system log up to which changes of stops, budgets and teams are known here.
    #[must_use]
    pub fn seen(&self) -> i64 {
        self.seen.load(Ordering::Acquire)
    }

    /// Whether an open budget is known here, or nothing is known yet.
    #[must_use]
    pub fn has_budgets(&self) -> bool {
        self.budgets.load(Ordering::Acquire)
    }

    /// Requires that an act is not stopped.
    ///
    /// # Errors
    /// [`Stopped`](entente_domain::refusal::Code::Stopped).
    pub fn require_none(&self, act: &Act) -> Result<(), Refusal> {
        self.current().require_none(act)
    }

    /// Returns the refusal of a caller's act for an intent, if that is stopped.
    ///
    /// `speaker` is the agent that the request names: a key that may act as others must not do it for a stopped one.
    #[must_use]
    pub fn objection(&self, caller: &Caller, speaker: &str, intent: Option<IntentId>) -> Option<Refusal> {
        // Nearly always there is no stop: then nothing is looked up.
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let mut act = caller.act(intent);
        act.agents.push(unversioned(speaker).to_owned());
        self.require_none(&act).err()
    }

    /// Renews the copy.
    ///
    /// # Errors
    /// A database error; a stored value is invalid.
    pub async fn refresh(&self, ctx: &Ctx) -> Outcome<()> {
        let mut conn = ctx.pool.acquire().await?;
        // The number first: the next look then finds a change that is made meanwhile.
        let known = sqlx::query!(
            r#"-- stops::seen
             SELECT greatest((SELECT coalesce(max(changed_seq), 0) FROM stops),
                             (SELECT coalesce(max(changed_seq), 0) FROM budgets),
                             (SELECT coalesce(max(changed_seq), 0) FROM teams)) AS "seq!",
                    EXISTS (SELECT 1 FROM budgets WHERE closed_at IS NULL) AS "budgets!""#
        )
        .fetch_one(&mut *conn)
        .await?;
        let stops = in_force(&mut conn).await?;
        let teams = stops.iter().filter(|stop| stop.scope.kind == SubjectKind::Team);
        let teams: Vec<String> = teams.map(|stop| stop.scope.name.clone()).collect();
        let members = members(&mut conn, &teams).await?;
        let mut set = self.set.write().unwrap_or_else(PoisonError::into_inner);
        // A slower refresh must not replace a later one.
        if known.seq >= self.seen() {
            self.any.store(!stops.is_empty(), Ordering::Release);
            *set = Arc::new(StopSet::new(stops, members));
            self.budgets.store(known.budgets, Ordering::Release);
            self.seen.store(known.seq, Ordering::Release);
        }
        Ok(())
    }
}

/// Stops a subject.
///
/// # Errors
/// The scope `admin` is missing; the reason is empty or too long; the team does not exist.
pub async fn make(
    ctx: &Ctx,
    caller: &Caller,
    scope: Subject,
    reason: String,
    once: Option<&Idempotency>,
) -> Outcome<Stop> {
    caller.require(Scope::Admin)?;
    check_reason(&reason)?;
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, once).await?;
    if let Some(done) = work.repeated()? {
        return Ok(done);
    }
    teams::require_known(work.reading(), &scope).await?;
    let stop = put(&mut work, scope, reason, None, caller.principal()).await?;
    let stop = work.finish(stop).await?;
    ctx.stops.refresh(ctx).await?;
    Ok(stop)
}

/// Writes a stop within an operation on the system log.
///
/// # Errors
/// A database error.
pub async fn put(
    work: &mut IntentTx<'_>,
    scope: Subject,
    reason: String,
    budget_id: Option<BudgetId>,
    by: &str,
) -> Outcome<Stop> {
    let now = work.now();
    let id = StopId::mint(now, &*work.ctx().chance);
    let (created_by, created_at) = (by.to_owned(), now);
    let stop =
        Stop { id, scope, reason, budget_id, created_by, created_at, lifted_by: None, lifted_at: None };
    let payload = json!({
        "stop_id": id, "scope": stop.scope, "reason": stop.reason, "budget_id": stop.budget_id,
    });
    work.record(Draft::of(Kind::StopMade, by, payload));
    let (conn, log) = work.parts();
    sqlx::query!(
        "-- stops::insert
         INSERT INTO stops (id, scope, subject, reason, budget_id, created_by, created_at, changed_seq, subject_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        id.uuid(),
        stop.scope.kind.as_str(),
        stop.scope.name,
        stop.reason,
        budget_id.map(BudgetId::uuid),
        by,
        now,
        log.tail.seq,
        subject_id(&stop.scope)
    )
    .execute(conn)
    .await?;
    Ok(stop)
}

/// The id of an intent or a key.
fn subject_id(scope: &Subject) -> Option<Uuid> {
    match scope.kind {
        SubjectKind::Intent => scope.name.parse::<IntentId>().ok().map(IntentId::uuid),
        SubjectKind::Key => scope.name.parse::<KeyId>().ok().map(KeyId::uuid),
        _ => None,
    }
}

/// Lifts a stop. Jobs that were told to end stay so.
///
/// # Errors
/// The scope `admin` is missing; the stop does not exist; it stops the caller, who has not made it. A stop that is lifted
/// already is returned as it is.
pub async fn lift(ctx: &Ctx, caller: &Caller, id: StopId) -> Outcome<Stop> {
    caller.require(Scope::Admin)?;
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, None).await?;
    let stop = load(work.reading(), id).await?.ok_or_else(|| not_found("stop"))?;
    if stop.lifted_at.is_some() {
        return Ok(stop);
    }
    let is_own = stop.created_by == caller.principal() || stop.scope.kind == SubjectKind::System;
    if !is_own
        && StopSet::new(vec![stop.clone()], members_of(work.reading(), &stop).await?)
            .find(&caller.act(None))
            .is_some()
    {
        let message =
            "The stop stops you. Somebody else with the scope `admin` lifts it, or whoever made it.";
        return Err(Refusal::new(Code::Stopped, message).into());
    }
    let (by, now) = (caller.principal().to_owned(), work.now());
    let payload = json!({ "stop_id": id, "scope": stop.scope });
    work.record(Draft::of(Kind::StopLifted, &by, payload));
    let (conn, log) = work.parts();
    sqlx::query!(
        "-- stops::lift\n UPDATE stops SET lifted_by = $2, lifted_at = $3, changed_seq = $4 WHERE id = $1",
        id.uuid(),
        by,
        now,
        log.tail.seq
    )
    .execute(conn)
    .await?;
    work.commit().await?;
    ctx.stops.refresh(ctx).await?;
    Ok(Stop { lifted_by: Some(by), lifted_at: Some(now), ..stop })
}

/// Lists stops, newest first: admins see all, others those in force that stop them.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn list(
    ctx: &Ctx,
    caller: &Caller,
    lifted: bool,
    before: Option<StopId>,
    limit: u32,
) -> Outcome<Vec<Stop>> {
    require_reading(caller)?;
    if !caller.has(Scope::Admin) {
        return Ok(ctx.stops.current().find(&caller.act(None)).cloned().into_iter().collect());
    }
    let rows = sqlx::query_as!(
        Row,
        "-- stops::list
         SELECT id, scope, subject, reason, budget_id, created_by, created_at, lifted_by, lifted_at FROM stops
         WHERE ($1 OR lifted_at IS NULL) AND ($2::uuid IS NULL OR id < $2) ORDER BY id DESC LIMIT $3",
        lifted,
        before.map(StopId::uuid),
        i64::from(limit)
    )
    .fetch_all(&ctx.pool)
    .await?;
    rows.into_iter().map(Stop::try_from).collect()
}

/// Returns a stop.
///
/// # Errors
/// The scope `admin` is missing; it does not exist.
pub async fn get(ctx: &Ctx, caller: &Caller, id: StopId) -> Outcome<Stop> {
    caller.require(Scope::Admin)?;
    load(&mut *ctx.pool.acquire().await?, id).await?.ok_or_else(|| not_found("stop"))
}

/// Members of the team that a stop stops.
async fn members_of(conn: &mut PgConnection, stop: &Stop) -> Outcome<Vec<(String, String)>> {
    let team = (stop.scope.kind == SubjectKind::Team).then(|| stop.scope.name.clone());
    members(conn, team.as_slice()).await
}

async fn in_force(conn: &mut PgConnection) -> Outcome<Vec<Stop>> {
    let rows = sqlx::query_as!(
        Row,
        "-- stops::in_force
         SELECT id, scope, subject, reason, budget_id, created_by, created_at, lifted_by, lifted_at FROM stops
         WHERE lifted_at IS NULL ORDER BY created_at, id"
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Stop::try_from).collect()
}

async fn load(conn: &mut PgConnection, id: StopId) -> Outcome<Option<Stop>> {
    let row = sqlx::query_as!(
        Row,
        "-- stops::load
         SELECT id, scope, subject, reason, budget_id, created_by, created_at, lifted_by, lifted_at FROM stops
         WHERE id = $1",
        id.uuid()
    )
    .fetch_optional(conn)
    .await?;
    row.map(Stop::try_from).transpose()
}

/// Members of these teams, as pairs of a team and a principal.
async fn members(conn: &mut PgConnection, teams: &[String]) -> Outcome<Vec<(String, String)>> {
    if teams.is_empty() {
        return Ok(Vec::new());
    }
    let rows = sqlx::query!(
        "-- stops::members\n SELECT team, principal_id FROM team_members WHERE team = ANY($1)",
        teams
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.team, row.principal_id)).collect())
}

struct Row {
    id: Uuid,
    scope: String,
    subject: String,
    reason: String,
    budget_id: Option<Uuid>,
    created_by: String,
    created_at: Timestamp,
    lifted_by: Option<String>,
    lifted_at: Option<Timestamp>,
}

impl TryFrom<Row> for Stop {
    type Error = crate::AppError;

    fn try_from(row: Row) -> Outcome<Self> {
        let kind = SubjectKind::parse(&row.scope).ok_or_else(|| unknown("scope of a stop", &row.scope))?;
        Ok(Self {
            id: row.id.into(),
            scope: Subject::of(kind, row.subject),
            reason: row.reason,
            budget_id: row.budget_id.map(BudgetId::from),
            created_by: row.created_by,
            created_at: row.created_at,
            lifted_by: row.lifted_by,
            lifted_at: row.lifted_at,
        })
    }
}
