//! Quotas of principals and teams: requests in progress, bytes received in a minute, bytes stored. Table `quotas`.
//!
//! Each server has a copy of the limits and of who is over its storage, so a check costs no query, and without any limit no
//! lock either. A change renews the copy of its own server before it is answered; the others learn of it by the look-around
//! (`due::look`), within half a second. `usage.rs` has the use at this server, `storage.rs` counts the stored bytes.
//! An admin's key is counted like any other and never refused: it must be able to lift a quota.

pub mod storage;
mod usage;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use entente_domain::clock::Timestamp;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::identity::quotas::{Defaults, Quota, QuotaOverride, QuotaSet, busy, spent};
use entente_domain::ids::IntentId;
use entente_domain::log::events::{Draft, Kind};
use entente_domain::refusal::Refusal;
use entente_domain::subjects::{Subject, SubjectKind};
use entente_runtime::metrics::Metrics;
use serde_json::json;
use sqlx::PgConnection;

use self::usage::Usages;
pub use self::usage::{BundlePlace, Usage};
use crate::identity::teams;
use crate::{Caller, Ctx, Grant, IntentTx, Outcome, not_found};

/// How long a request of a session waits for a place among its principal's requests before it looks again.
const PLACE_PAUSE: Duration = Duration::from_millis(200);

/// This server's copy of the quotas.
#[derive(Debug, Default)]
struct Snapshot {
    set: QuotaSet,
    /// The use of each team that limits requests or bytes.
    teams: HashMap<String, Arc<Usage>>,
}

/// The quotas and their use at this server.
#[derive(Debug)]
pub struct Quotas {
    defaults: Defaults,
    snapshot: RwLock<Arc<Snapshot>>,
    /// Number in the system log up to which changes are known, and number of the last changed count of storage.
    seen: AtomicI64,
    laps: AtomicI64,
    /// Whether anybody's requests or bytes are limited, anybody's storage, and whether anybody is over it.
    limits_use: AtomicBool,
    limits_storage: AtomicBool,
    bars: AtomicBool,
    usages: Usages,
    started: Instant,
    metrics: Metrics,
}

/// A request or a body beyond a quota.
#[derive(Debug)]
pub struct Exceeded {
    /// The refusal.
    pub refusal: Refusal,
    /// The quota, for the headers of the response.
    pub limit: Option<u64>,
}

/// The teams for which a request counts besides its principal.
#[derive(Debug, Default)]
pub(crate) struct Place(Vec<Arc<Usage>>);

impl Place {
    /// Stops counting the request of a key.
    pub(crate) fn leave(&self, grant: &Grant) {
        grant.usage.leave();
        self.0.iter().for_each(|team| team.leave());
    }
}

/// A principal or team with a limit, and its use.
struct Limited<'a> {
    subject: Subject,
    quota: Quota,
    usage: &'a Arc<Usage>,
}

impl Quotas {
    /// Creates the quotas, without any override until [`Self::refresh`].
    #[must_use]
    pub fn new(defaults: Defaults, metrics: &Metrics) -> Self {
        let set = QuotaSet::new(defaults, HashMap::new(), Vec::new(), &HashMap::new());
        Self {
            defaults,
            snapshot: RwLock::new(Arc::new(Snapshot { set, teams: HashMap::new() })),
            seen: AtomicI64::new(-1),
            laps: AtomicI64::new(-1),
            limits_use: AtomicBool::new(false),
            limits_storage: AtomicBool::new(false),
            bars: AtomicBool::new(false),
            usages: Usages::default(),
            started: Instant::now(),
            metrics: metrics.clone(),
        }
    }

    fn current(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Number in the system log up to which changes of quotas and teams are known here.
    #[must_use]
    pub fn seen(&self) -> i64 {
        self.seen.load(Ordering::Acquire)
    }

    /// Number of the last changed count of storage that is known here.
    #[must_use]
    pub fn laps(&self) -> i64 {
        self.laps.load(Ordering::Acquire)
    }

    /// Whether storage is limited for anybody, so that it has to be counted.
    #[must_use]
    pub fn counts_storage(&self) -> bool {
        self.limits_storage.load(Ordering::Acquire)
    }

    /// Returns the use of a principal, which all its keys share.
    #[must_use]
    pub fn usage(&self, principal: &str) -> Arc<Usage> {
        self.usages.of(&Subject::of(SubjectKind::Principal, principal), self.now())
    }

    /// Counts a request for its principal and for the principal's teams.
    ///
    /// # Errors
    /// One of them has as many requests in progress as it may.
    pub(crate) fn enter(&self, grant: &Grant) -> Result<Place, Box<Exceeded>> {
        let before = grant.usage.enter();
        let mut place = Place::default();
        if !self.limits_use.load(Ordering::Acquire) {
            return Ok(place);
        }
        let snapshot = self.current();
        let all = limited(&snapshot, grant);
        let Some((own, teams)) = all.split_first() else { return Ok(place) };
        let mut exceeded = over(own, before);
        for team in teams {
            let before = team.usage.enter();
            place.0.push(Arc::clone(team.usage));
            exceeded = exceeded.or_else(|| over(team, before));
        }
        match exceeded.filter(|_| !is_exempt(grant)) {
            Some(exceeded) => {
                place.leave(grant);
                Err(self.refused("open_requests", exceeded))
            }
            None => Ok(place),
        }
    }

    /// Whether bodies are counted.
    #[must_use]
    pub fn counts_bytes(&self) -> bool {
        self.limits_use.load(Ordering::Acquire)
    }

    /// Takes bytes of the minute for a principal and its teams.
    ///
    /// # Errors
    /// The minute's bytes of one of them are used up; those before it have been charged.
    pub fn take(&self, grant: &Grant, bytes: u64) -> Result<(), Box<Exceeded>> {
        if !self.counts_bytes() {
            return Ok(());
        }
        let (snapshot, now) = (self.current(), self.now());
        for one in limited(&snapshot, grant) {
            let limit = one.quota.bytes_per_minute;
            if limit > 0
                && let Err(nanos) = one.usage.take(limit, bytes, now)
                && !is_exempt(grant)
            {
                let refusal = spent(&one.subject, limit, nanos);
                return Err(self.refused("bytes", Exceeded { refusal, limit: Some(limit) }));
            }
        }
        Ok(())
    }

    /// Takes bytes that a session has read, for a principal and its teams: an excess delays its next requests.
    pub fn charge(&self, grant: &Grant, bytes: u64) {
        if !self.counts_bytes() {
            return;
        }
        let (snapshot, now) = (self.current(), self.now());
        let limited = limited(&snapshot, grant).into_iter();
        limited.filter(|one| one.quota.bytes_per_minute > 0).for_each(|one| {
            one.usage.charge(one.quota.bytes_per_minute, bytes, now);
        });
    }

    /// Returns how long a request of a session has to wait: nothing is refused there, it is read later.
    #[must_use]
    pub fn pause(&self, grant: &Grant) -> Option<Duration> {
        if !self.counts_bytes() || is_exempt(grant) {
            return None;
        }
        let (snapshot, now) = (self.current(), self.now());
        let pauses = limited(&snapshot, grant).into_iter().filter_map(|one| {
            let Quota { open_requests, bytes_per_minute, .. } = one.quota;
            let wait =
                (bytes_per_minute > 0).then(|| one.usage.take(bytes_per_minute, 0, now).err()).flatten();
            let busy = open_requests > 0 && one.usage.open_requests() >= open_requests;
            wait.map(Duration::from_nanos).or(busy.then_some(PLACE_PAUSE))
        });
        pauses.max()
    }

    /// Returns the refusal of a write of the caller, if its principal, or one of its teams, is over its storage.
    #[must_use]
    pub fn objection(&self, caller: &Caller) -> Option<Refusal> {
        // Nearly always nobody is over: then nothing is looked up.
        if !self.bars.load(Ordering::Acquire) || is_exempt(&caller.grant) {
            return None;
        }
        self.bar(caller.principal())
    }

    /// As [`Self::objection`], for a principal whose key is not at hand.
    #[must_use]
    pub fn bar(&self, principal: &str) -> Option<Refusal> {
        if !self.bars.load(Ordering::Acquire) {
            return None;
        }
        let refusal = self.current().set.full(principal)?.refusal();
        self.metrics.quota_refused("storage");
        Some(refusal)
    }

    /// Counts a request of a session, which waits instead of being refused ([`Self::pause`]).
    #[must_use]
    pub(crate) fn enter_anyway(&self, grant: &Grant) -> Place {
        grant.usage.enter();
        let mut place = Place::default();
        if self.limits_use.load(Ordering::Acquire) {
            let snapshot = self.current();
            let teams = limited(&snapshot, grant).into_iter().skip(1);
            place.0.extend(teams.map(|team| Arc::clone(team.usage)));
            place.0.iter().for_each(|team| {
                team.enter();
            });
        }
        place
    }

    fn refused(&self, quota: &'static str, exceeded: Exceeded) -> Box<Exceeded> {
        self.metrics.quota_refused(quota);
        Box::new(exceeded)
    }

    /// Renews the copy.
    ///
    /// # Errors
    /// A database error; a stored value is invalid.
    pub async fn refresh(&self, ctx: &Ctx) -> Outcome<()> {
        let mut conn = ctx.pool.acquire().await?;
        // The numbers first: the next look then finds a change that is made meanwhile.
        let known = sqlx::query!(
            r#"-- quotas::seen
             SELECT greatest((SELECT coalesce(max(changed_seq), 0) FROM quotas),
                             (SELECT coalesce(max(changed_seq), 0) FROM teams)) AS "seq!",
                    coalesce((SELECT laps FROM storage_clock), 0) AS "laps!""#
        )
        .fetch_one(&mut *conn)
        .await?;
        let overrides = in_force(&mut conn).await?;
        let alone = QuotaSet::new(self.defaults, overrides.clone(), Vec::new(), &HashMap::new());
        let limits_use = alone.limits(|quota| quota.open_requests.max(quota.bytes_per_minute));
        let limits_storage = alone.limits(|quota| quota.storage_bytes);
        let limited = limits_use || limits_storage;
        let members = if limited { members(&mut conn).await? } else { Vec::new() };
        let stored = if limits_storage { storage::totals(&mut conn).await? } else { HashMap::new() };
        let now = self.now();
        let usage =
            |team: &String| (team.clone(), self.usages.of(&Subject::of(SubjectKind::Team, team), now));
        let teams = members.iter().map(|(team, _)| usage(team)).collect();
        let set = QuotaSet::new(self.defaults, overrides, members, &stored);
        let mut snapshot = self.snapshot.write().unwrap_or_else(PoisonError::into_inner);
        // A slower refresh must not replace a later one.
        if known.seq >= self.seen() && known.laps >= self.laps() {
            self.limits_use.store(limits_use, Ordering::Release);
            self.limits_storage.store(limits_storage, Ordering::Release);
            self.bars.store(!set.has_room(), Ordering::Release);
            *snapshot = Arc::new(Snapshot { set, teams });
            self.seen.store(known.seq, Ordering::Release);
            self.laps.store(known.laps, Ordering::Release);
        }
        Ok(())
    }
}

/// Whether a key is never refused because of a quota.
fn is_exempt(grant: &Grant) -> bool {
    grant.key.scopes.contains(&Scope::Admin)
}

/// Returns a key's principal, and its teams, with their limits and their use.
fn limited<'a>(snapshot: &'a Snapshot, grant: &'a Grant) -> Vec<Limited<'a>> {
    let principal = &grant.key.principal_id;
    let one = |kind, name: &str, usage| {
        let subject = Subject::of(kind, name);
        Limited { quota: snapshot.set.of(&subject), subject, usage }
    };
    let teams = snapshot.set.teams(principal).iter().filter_map(|team| {
        let usage = snapshot.teams.get(team)?;
        Some(one(SubjectKind::Team, team, usage))
    });
    std::iter::once(one(SubjectKind::Principal, principal, &grant.usage)).chain(teams).collect()
}

/// Returns the refusal of one more request, if the subject had `before` in progress.
fn over(one: &Limited<'_>, before: u64) -> Option<Exceeded> {
    let limit = one.quota.open_requests;
    (limit > 0 && before >= limit)
        .then(|| Exceeded { refusal: busy(&one.subject, limit), limit: Some(limit) })
}

/// The limits of a principal or a team, with their use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaView {
    /// Whose they are.
    pub subject: Subject,
    /// The limits in force.
    pub quota: Quota,
    /// Those that an admin set.
    pub own: QuotaOverride,
    /// Who set them, and when.
    pub set: Option<(String, Timestamp)>,
    /// Requests in progress at this server.
    pub open_requests: u64,
    /// Bytes of the last minute that are not free again at this server; `None` without a limit.
    pub bytes: Option<u64>,
    /// Bytes stored when they were last counted; `None` while nobody's storage is limited.
    pub stored: Option<u64>,
    /// When they were counted.
    pub counted_at: Option<Timestamp>,
}

/// Returns the limits and the use of a principal or a team: for admins, the principal itself, and members of the team.
///
/// # Errors
/// It does not exist, or the caller may not know.
pub async fn get(ctx: &Ctx, caller: &Caller, subject: Subject) -> Outcome<QuotaView> {
    let mut conn = ctx.pool.acquire().await?;
    let members = members_of(&mut conn, &subject).await?;
    let is_own = members.iter().flatten().any(|member| member == caller.principal());
    let members =
        members.filter(|_| is_own || caller.has(Scope::Admin)).ok_or_else(|| not_found(noun(&subject)))?;
    let stored = sqlx::query!(
        r#"-- quotas::find
         SELECT open_requests, bytes_per_minute, storage_bytes, set_by, set_at FROM quotas
         WHERE scope = $1 AND subject = $2"#,
        subject.kind.as_str(),
        subject.name
    )
    .fetch_optional(&mut *conn)
    .await?;
    let own =
        stored.as_ref().map(|row| overriding(row.open_requests, row.bytes_per_minute, row.storage_bytes));
    let own = own.unwrap_or_default();
    let (counted_at, bytes) = storage::sum(&mut conn, &members).await?;
    let quotas = &ctx.quotas;
    let quota = quotas.current().set.of(&subject);
    let usage = quotas.usages.of(&subject, quotas.now());
    let limit = quota.bytes_per_minute;
    Ok(QuotaView {
        quota,
        set: stored.filter(|_| own != QuotaOverride::default()).map(|row| (row.set_by, row.set_at)),
        own,
        open_requests: members.iter().map(|member| quotas.usage(member).open_requests()).sum(),
        bytes: (limit > 0).then(|| usage.bytes(limit, quotas.now())),
        stored: counted_at.filter(|_| quotas.counts_storage()).map(|_| bytes),
        counted_at: counted_at.filter(|_| quotas.counts_storage()),
        subject,
    })
}

/// Sets the limits of a principal or a team; a limit that is not set has the server's default again.
///
/// # Errors
/// The scope `admin` is missing; a value is too large; the principal or the team does not exist.
pub async fn put(
    ctx: &Ctx,
    caller: &Caller,
    subject: Subject,
    own: QuotaOverride,
    once: Option<&Idempotency>,
) -> Outcome<QuotaView> {
    caller.require(Scope::Admin)?;
    own.check()?;
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, once).await?;
    if work.repeated::<()>()?.is_some() {
        drop(work);
        return get(ctx, caller, subject).await;
    }
    if members_of(work.reading(), &subject).await?.is_none() {
        return Err(not_found(noun(&subject)));
    }
    let payload = json!({
        "scope": subject, "open_requests": own.open_requests, "bytes_per_minute": own.bytes_per_minute,
        "storage_bytes": own.storage_bytes,
    });
    work.record(Draft::of(Kind::QuotasSet, caller.principal(), payload));
    let now = work.now();
    let (conn, log) = work.parts();
    write(conn, &subject, own, caller.principal(), now, log.tail.seq).await?;
    work.finish(()).await?;
    ctx.quotas.refresh(ctx).await?;
    get(ctx, caller, subject).await
}

/// Takes back the limits of a team that is removed.
///
/// # Errors
/// A database error.
pub(crate) async fn forget_team(conn: &mut PgConnection, team: &str, seq: i64) -> Outcome<()> {
    // The row stays, without limits, so that the other servers notice.
    sqlx::query!(
        "-- quotas::forget_team
         UPDATE quotas SET open_requests = NULL, bytes_per_minute = NULL, storage_bytes = NULL, changed_seq = $2
         WHERE scope = 'team' AND subject = $1",
        team,
        seq
    )
    .execute(conn)
    .await?;
    Ok(())
}

fn noun(subject: &Subject) -> &'static str {
    if subject.kind == SubjectKind::Team { "team" } else { "principal" }
}

fn overriding(open_requests: Option<i64>, bytes: Option<i64>, storage: Option<i64>) -> QuotaOverride {
    let limit = |value: Option<i64>| value.map(|value| u64::try_from(value).unwrap_or(0));
    QuotaOverride {
        open_requests: limit(open_requests),
        bytes_per_minute: limit(bytes),
        storage_bytes: limit(storage),
    }
}

/// Returns the principals of a subject: itself, or the members of the team; `None` if it does not exist.
async fn members_of(conn: &mut PgConnection, subject: &Subject) -> Outcome<Option<Vec<String>>> {
    if subject.kind == SubjectKind::Team {
        return Ok(teams::find(conn, &subject.name).await?.map(|team| team.members));
    }
    let exists = sqlx::query_scalar!(
        r#"-- quotas::is_known
         SELECT EXISTS (SELECT 1 FROM principals WHERE id = $1) AS "exists!""#,
        subject.name
    )
    .fetch_one(conn)
    .await?;
    Ok(exists.then(|| vec![subject.name.clone()]))
}

async fn in_force(conn: &mut PgConnection) -> Outcome<HashMap<Subject, QuotaOverride>> {
    let rows = sqlx::query!(
        "-- quotas::in_force
         SELECT scope, subject, open_requests, bytes_per_minute, storage_bytes FROM quotas
         WHERE coalesce(open_requests, bytes_per_minute, storage_bytes) IS NOT NULL"
    )
    .fetch_all(conn)
    .await?;
    let rows = rows.into_iter().map(|row| {
        let kind =
            SubjectKind::parse(&row.scope).ok_or_else(|| crate::unknown("scope of a quota", &row.scope))?;
        let own = overriding(row.open_requests, row.bytes_per_minute, row.storage_bytes);
        Ok((Subject::of(kind, row.subject), own))
    });
    rows.collect()
}

/// Members of all teams, as pairs of a team and a principal.
async fn members(conn: &mut PgConnection) -> Outcome<Vec<(String, String)>> {
    let rows = sqlx::query!(
        "-- quotas::members\n SELECT team, principal_id FROM team_members ORDER BY team, principal_id"
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.team, row.principal_id)).collect())
}

async fn write(
    conn: &mut PgConnection,
    subject: &Subject,
    own: QuotaOverride,
    by: &str,
    now: Timestamp,
    seq: i64,
) -> Outcome<()> {
    let limit = |value: Option<u64>| value.map(|value| i64::try_from(value).unwrap_or(i64::MAX));
    sqlx::query!(
        "-- quotas::write
         INSERT INTO quotas (scope, subject, open_requests, bytes_per_minute, storage_bytes, set_by, set_at, changed_seq)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
         ON CONFLICT (scope, subject) DO UPDATE SET open_requests = excluded.open_requests,
             bytes_per_minute = excluded.bytes_per_minute, storage_bytes = excluded.storage_bytes,
             set_by = excluded.set_by, set_at = excluded.set_at, changed_seq = excluded.changed_seq",
        subject.kind.as_str(),
        subject.name,
        limit(own.open_requests),
        limit(own.bytes_per_minute),
        limit(own.storage_bytes),
        by,
        now,
        seq
    )
    .execute(conn)
    .await?;
    Ok(())
}
