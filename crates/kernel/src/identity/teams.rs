//! Teams: named groups of principals, whose spending a budget limits together, which have quotas together, and which a stop
//! stops together. Tables `teams` and `team_members`.

use std::collections::BTreeSet;

use entente_domain::clock::Timestamp;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::identity::principals::{SYSTEM, check_name};
use entente_domain::ids::IntentId;
use entente_domain::limits::MEMBERS;
use entente_domain::log::events::{Draft, Kind};
use entente_domain::refusal::{Code, Refusal};
use entente_domain::subjects::{Subject, SubjectKind};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sqlx::PgConnection;

use crate::identity::quotas;
use crate::log::writer::IntentLog;
use crate::{Caller, Ctx, IntentTx, Outcome, not_found};

/// A team.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Team {
    /// Its name.
    pub name: String,
    /// Its members, in alphabetical order.
    pub members: Vec<String>,
    /// Principal that created it.
    pub created_by: String,
    /// When it was created.
    pub created_at: Timestamp,
}

/// Creates a team, or replaces its members.
///
/// # Errors
/// The scope `admin` is missing; the name is invalid; a member is unknown.
pub async fn put(
    ctx: &Ctx,
    caller: &Caller,
    name: &str,
    mut members: Vec<String>,
    once: Option<&Idempotency>,
) -> Outcome<Team> {
    caller.require(Scope::Admin)?;
    check_name("name", name)?;
    members.sort_unstable();
    members.dedup();
    if members.len() > MEMBERS {
        let message = format!("A team has at most {MEMBERS} members.");
        return Err(Refusal::field(Code::InvalidRequest, "members", "too_many", message).into());
    }
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, once).await?;
    if let Some(done) = work.repeated()? {
        return Ok(done);
    }
    let unknown = strangers(work.reading(), &members).await?;
    if let Some(name) = unknown.first() {
        let message =
            format!("`members` names {name}, who is no principal here. Create the principal first.");
        return Err(Refusal::field(Code::Unprocessable, "members", "unknown", message).into());
    }
    let payload = json!({ "team": name, "members": members });
    work.record(Draft::of(Kind::TeamChanged, caller.principal(), payload));
    let now = work.now();
    let (conn, log) = work.parts();
    let (created_by, created_at) = write(conn, name, &members, caller.principal(), now, log.tail.seq).await?;
    let team = work.finish(Team { name: name.to_owned(), members, created_by, created_at }).await?;
    ctx.stops.refresh(ctx).await?;
    ctx.quotas.refresh(ctx).await?;
    Ok(team)
}

/// Removes a team, unless a budget or a stop in force names it.
///
/// # Errors
/// The scope `admin` is missing; the team does not exist or is in use.
pub async fn remove(ctx: &Ctx, caller: &Caller, name: &str) -> Outcome<()> {
    caller.require(Scope::Admin)?;
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, None).await?;
    let team = find(work.reading(), name).await?.ok_or_else(|| not_found("team"))?;
    if in_use(work.reading(), name).await? {
        let message =
            "A budget or a stop in force names this team. Close the budget, or lift the stop, first.";
        return Err(Refusal::new(Code::Unprocessable, message).into());
    }
    sqlx::query!("-- teams::remove\n DELETE FROM teams WHERE name = $1", team.name)
        .execute(work.conn())
        .await?;
    work.record(Draft::of(Kind::TeamRemoved, caller.principal(), json!({ "team": name })));
    let (conn, log) = work.parts();
    quotas::forget_team(conn, name, log.tail.seq).await?;
    work.commit().await?;
    ctx.quotas.refresh(ctx).await
}

/// Lists teams by name, up to `limit` after `after`.
///
/// # Errors
/// The scope `admin` is missing.
pub async fn list(ctx: &Ctx, caller: &Caller, after: Option<&str>, limit: u32) -> Outcome<Vec<Team>> {
    caller.require(Scope::Admin)?;
    let rows = sqlx::query_as!(
        Team,
        r#"-- teams::list
         SELECT t.name, t.created_by, t.created_at,
                ARRAY(SELECT m.principal_id FROM team_members m WHERE m.team = t.name ORDER BY 1) AS "members!"
         FROM teams t WHERE t.name > $1 ORDER BY t.name LIMIT $2"#,
        after.unwrap_or(""),
        i64::from(limit)
    )
    .fetch_all(&ctx.pool)
    .await?;
    Ok(rows)
}

/// Returns a team; its members may read it too.
///
/// # Errors
/// It does not exist, or the caller may not read it.
pub async fn get(ctx: &Ctx, caller: &Caller, name: &str) -> Outcome<Team> {
    let mut conn = ctx.pool.acquire().await?;
    let team = find(&mut conn, name).await?;
    let may = |team: &Team| {
        caller.has(Scope::Admin) || team.members.iter().any(|member| member == caller.principal())
    };
    team.filter(may).ok_or_else(|| not_found("team"))
}

/// Requires that the team of a subject exists; other subjects need not exist yet.
///
/// # Errors
/// [`Code::Unprocessable`].
pub(crate) async fn require_known(conn: &mut PgConnection, subject: &Subject) -> Outcome<()> {
    if subject.kind != SubjectKind::Team || find(conn, &subject.name).await?.is_some() {
        return Ok(());
    }
    let message = format!("There is no team {}. Create it first: PUT /api/v1/teams/{0}.", subject.name);
    Err(Refusal::field(Code::Unprocessable, "scope", "unknown", message).into())
}

/// Makes a person a member of the teams `wanted`, and of no other team of `mapped`; teams outside of `mapped` stay as they
/// are. Returns whether anything changed.
///
/// A mapped team that does not exist, or is full, is left out and logged: nobody is kept from logging in by that.
pub(crate) async fn follow(
    ctx: &Ctx,
    conn: &mut PgConnection,
    log: &mut IntentLog,
    person: &str,
    wanted: &BTreeSet<String>,
    mapped: &BTreeSet<&str>,
) -> Outcome<bool> {
    if mapped.is_empty() {
        return Ok(false);
    }
    let names: Vec<String> = mapped.iter().map(|name| (*name).to_owned()).collect();
    let found = memberships(conn, &names, person).await?;
    for missing in
        names.iter().filter(|name| wanted.contains(*name) && !found.iter().any(|one| one.name == **name))
    {
        tracing::warn!(
            team = missing,
            "a group at the provider stands for a team that does not exist; create it first"
        );
    }
    let mut moved = false;
    for Membership { name, is_member } in found {
        let joins = wanted.contains(&name);
        if joins == is_member {
            continue;
        }
        let Some(Team { mut members, .. }) = find(conn, &name).await? else { continue };
        members.retain(|member| member != person);
        if joins && members.len() >= MEMBERS {
            tracing::warn!(team = name, person, "the team is full, so a person of its group was not added");
            continue;
        }
        if joins {
            members.push(person.to_owned());
            members.sort_unstable();
        }
        let payload = json!({ "team": name, "members": members, "follows": person });
        log.record(ctx, Draft::of(Kind::TeamChanged, SYSTEM, payload));
        write(conn, &name, &members, SYSTEM, log.now(), log.tail.seq).await?;
        moved = true;
    }
    Ok(moved)
}

/// Whether a principal is a member of a team.
struct Membership {
    name: String,
    is_member: bool,
}

/// Returns those of these teams that exist, by name.
async fn memberships(conn: &mut PgConnection, names: &[String], person: &str) -> Outcome<Vec<Membership>> {
    let rows = sqlx::query_as!(
        Membership,
        r#"-- teams::memberships
         SELECT t.name, EXISTS (SELECT 1 FROM team_members m WHERE m.team = t.name AND m.principal_id = $2) AS "is_member!"
         FROM teams t WHERE t.name = ANY ($1) ORDER BY t.name"#,
        names,
        person
    );
    Ok(rows.fetch_all(conn).await?)
}

/// Returns a team.
///
/// # Errors
/// A database error.
pub(super) async fn find(conn: &mut PgConnection, name: &str) -> Outcome<Option<Team>> {
    let row = sqlx::query_as!(
        Team,
        r#"-- teams::find
         SELECT t.name, t.created_by, t.created_at,
                ARRAY(SELECT m.principal_id FROM team_members m WHERE m.team = t.name ORDER BY 1) AS "members!"
         FROM teams t WHERE t.name = $1"#,
        name
    )
    .fetch_optional(conn)
    .await?;
    Ok(row)
}

/// Those of these names that are no principals.
async fn strangers(conn: &mut PgConnection, names: &[String]) -> Outcome<Vec<String>> {
    let rows = sqlx::query_scalar!(
        r#"-- teams::strangers
         SELECT n.name AS "name!" FROM UNNEST($1::text[]) AS n (name)
         WHERE NOT EXISTS (SELECT 1 FROM principals p WHERE p.id = n.name)"#,
        names
    )
    .fetch_all(conn)
    .await?;
    Ok(rows)
}

async fn in_use(conn: &mut PgConnection, name: &str) -> Outcome<bool> {
    let used = sqlx::query_scalar!(
        r#"-- teams::in_use
         SELECT EXISTS (SELECT 1 FROM budgets WHERE scope = 'team' AND subject = $1 AND closed_at IS NULL)
             OR EXISTS (SELECT 1 FROM stops WHERE scope = 'team' AND subject = $1 AND lifted_at IS NULL) AS "used!""#,
        name
    )
    .fetch_one(conn)
    .await?;
    Ok(used)
}

/// Writes a team; returns who created it, and when.
async fn write(
    conn: &mut PgConnection,
    name: &str,
    members: &[String],
    by: &str,
    now: Timestamp,
    seq: i64,
) -> Outcome<(String, Timestamp)> {
    let row = sqlx::query!(
        "-- teams::write
         INSERT INTO teams (name, created_by, created_at, changed_seq) VALUES ($1, $2, $3, $4)
         ON CONFLICT (name) DO UPDATE SET changed_seq = excluded.changed_seq
         RETURNING created_by, created_at",
        name,
        by,
        now,
        seq
    )
    .fetch_one(&mut *conn)
    .await?;
    sqlx::query!(
        "-- teams::write_members
         WITH gone AS (DELETE FROM team_members WHERE team = $1 AND principal_id <> ALL($2))
         INSERT INTO team_members (team, principal_id) SELECT $1, UNNEST($2::text[])
         ON CONFLICT (team, principal_id) DO NOTHING",
        name,
        members
    )
    .execute(conn)
    .await?;
    Ok((row.created_by, row.created_at))
}
