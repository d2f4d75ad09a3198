//! Sessions: through which clients follow their jobs (ARCP §6). A session outlives its connections: it goes on counting, can
//! be taken up again for a while, and only then is forgotten.
//!
//! Here they are opened and taken up again. `keeping.rs` is what happens to one that is connected and when it ends,
//! `follows.rs` subscribes to jobs, `frames.rs` is what one is sent, `counters.rs` how the writers of events count,
//! `rows.rs` the table. The conversation itself is `entente_domain::sessions`, its connection `api/src/arcp`.

pub(crate) mod counters;
mod follows;
mod frames;
mod keeping;
mod rows;

use std::time::Duration;

use entente_domain::canonical::sha256;
use entente_domain::clock::Timestamp;
use entente_domain::ids::SessionId;
use entente_domain::keys::Scope;
use entente_domain::refusal::{Code, Refusal};
use entente_domain::sessions::dialects::Dialect;
use entente_domain::sessions::envelope::Resume;
use entente_domain::sessions::features::{Feature, Features};
use entente_domain::sessions::tokens;
use sqlx::PgConnection;
use tokio::time::sleep;

use self::rows::Session;
use super::{Caller, Ctx, Outcome, Tx, credentials, idempotency};
use crate::feed::Touch;

pub use follows::{Followed, Since, follow, followed, observed, plan, unfollow};
pub use frames::{Batch, after, press};
pub use keeping::{acked, forget, is_idle, keep, leave};
pub use rows::presented;

/// How long who comes with the token before the last waits for a sign of life of who has the last one.
const PROOF: Duration = Duration::from_millis(250);

/// What the operator says about sessions.
#[derive(Debug, Clone)]
pub struct SessionSettings {
    /// How often each side says something (§6.4).
    pub heartbeat: Duration,
    /// How long a session can be resumed after it was last connected.
    pub resume_window: Duration,
    /// Connected sessions of one principal at the most.
    pub per_principal: u32,
    /// After how long one that only breathes is closed.
    pub idle: Duration,
    /// With which tokens of the form `principal.exp.sig` are signed, if any are taken.
    pub token_secret: Option<TokenSecret>,
    /// What the server can, when it can provision credentials.
    pub offered: Features,
}

/// A secret that stays out of logs.
#[derive(Clone)]
pub struct TokenSecret(pub String);

impl std::fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenSecret(…)")
    }
}

/// Who comes, and how it is written to.
#[derive(Debug, Clone)]
pub struct Arrival {
    /// What it calls itself.
    pub client: String,
    /// In whose shapes; `None` leaves a session as it was.
    pub dialect: Option<Dialect>,
    /// What both sides can; `None` leaves a session as it was.
    pub features: Option<Features>,
    /// Whether its frames are lines.
    pub lines: bool,
}

/// A session on a connection.
#[derive(Debug, Clone)]
pub struct Entered {
    /// The session.
    pub id: SessionId,
    /// Which of its connections this is: an older one is over.
    pub connection: i64,
    /// In whose shapes.
    pub dialect: Dialect,
    /// What both sides can.
    pub features: Features,
    /// The next resume token.
    pub token: String,
    /// Whether its frames are lines.
    pub lines: bool,
    /// What the client has said to have processed.
    pub acked: i64,
}

/// Opens a session.
///
/// # Errors
/// The caller may not read jobs, or its principal has as many sessions as it may.
pub async fn open(ctx: &Ctx, caller: &Caller, arrival: Arrival) -> Outcome<Entered> {
    caller.require(Scope::JobsRead)?;
    let mut tx = begin(ctx, caller).await?;
    let now = ctx.now();
    has_room(&mut tx, ctx, caller, now).await?;
    let token = tokens::mint(&*ctx.chance);
    let session = Session {
        id: SessionId::mint(now, &*ctx.chance),
        principal: caller.agent.clone(),
        features: arrival.features.unwrap_or_default(),
        dialect: arrival.dialect.unwrap_or_default(),
        token: sha256(&token),
        prior: None,
        last_seq: 0,
        acked_seq: 0,
        connection: 1,
        attached: true,
        client: arrival.client,
        expires_at: until(ctx, now),
        lines: arrival.lines,
        opened_by: rows::opened_by(caller),
    };
    rows::insert(&mut tx, &session, now).await?;
    tx.commit().await?;
    Ok(session.entered(token))
}

/// Begins what makes a session of this principal a connected one: of two at once the second counts the first.
async fn begin(ctx: &Ctx, caller: &Caller) -> Outcome<Tx> {
    ctx.begin_locked(vec![idempotency::lock_key(&caller.agent, "sessions")]).await
}

/// Requires that the principal may have one more session connected.
async fn has_room(conn: &mut PgConnection, ctx: &Ctx, caller: &Caller, now: Timestamp) -> Outcome<()> {
    let most = ctx.settings.sessions.per_principal;
    if rows::attached(conn, &caller.agent, now).await? < i64::from(most) {
        return Ok(());
    }
    let agent = &caller.agent;
    let message = format!("`{agent}` has {most} open sessions, as many as it may. Close some.");
    Err(Refusal::new(Code::PermissionDenied, message).into())
}

/// Takes a session up again (§6.3). Whoever held it until now is told to go, connected or not. A wrong token changes nothing.
///
/// # Errors
/// [`Code::ResumeWindowExpired`]: there is no such session for this token and caller, or what is asked for is not kept.
/// Or the principal has as many others connected as it may: this one can be taken up when one of them is closed.
pub async fn resume(ctx: &Ctx, caller: &Caller, said: &Resume, arrival: Arrival) -> Outcome<Entered> {
    caller.require(Scope::JobsRead)?;
    let id: SessionId = said.session_id.parse().map_err(|_no_id| lost())?;
    let (mut tx, mut session) = knock(ctx, caller, said, id).await?;
    if !tokens::opens(&said.resume_token, &session.token) {
        // The sign of life that makes the token before the last worthless may be on its way.
        tx.rollback().await?;
        sleep(PROOF).await;
        (tx, session) = knock(ctx, caller, said, id).await?;
    }
    let now = ctx.now();
    if !session.attached {
        has_room(&mut tx, ctx, caller, now).await?;
    }
    let token = tokens::mint(&*ctx.chance);
    // The one that the client is known to have opens the session until it is known to have the new one.
    let presented = [Some(session.token), session.prior].into_iter().flatten();
    session.prior = presented.into_iter().find(|known| tokens::opens(&said.resume_token, known));
    session.token = sha256(&token);
    session.connection += 1;
    session.expires_at = until(ctx, now);
    session.dialect = arrival.dialect.unwrap_or(session.dialect);
    session.features = arrival.features.map_or(session.features, |asked| counted_as(asked, session.features));
    session.opened_by = rows::opened_by(caller);
    rows::take_up(&mut tx, &session).await?;
    tx.commit().await?;
    // Whoever held it reads that it is another's.
    ctx.feed.ring(Touch::Session(id));
    Ok(session.entered(token))
}

/// The session that is asked for, locked, if it opens to who asks.
async fn knock(ctx: &Ctx, caller: &Caller, said: &Resume, id: SessionId) -> Outcome<(Tx, Session)> {
    let mut tx = begin(ctx, caller).await?;
    let session = rows::lock(&mut tx, id).await?;
    let session = session.filter(|session| opens(session, &caller.agent, said, ctx.now()));
    Ok((tx, session.ok_or_else(lost)?))
}

/// Until when a session can be resumed that is connected now: the window counts from the last message, and it is not
/// written down each time that one comes.
fn until(ctx: &Ctx, now: Timestamp) -> Timestamp {
    now + ctx.settings.sessions.resume_window * 3 / 2
}

fn opens(session: &Session, principal: &str, said: &Resume, now: Timestamp) -> bool {
    let in_time = session.expires_at > now;
    // Where chunks are cut the client counts further than what is stored.
    let covered = said.last_event_seq >= session.acked_seq
        && (session.lines || said.last_event_seq <= session.last_seq);
    let mut known = [Some(&session.token), session.prior.as_ref()].into_iter().flatten();
    let presented = known.any(|known| tokens::opens(&said.resume_token, known));
    presented && session.principal == principal && in_time && covered
}

/// What clients are told that the server can: credentials only where they are also taken back, and nobody reads along (§14).
#[must_use]
pub fn offered(ctx: &Ctx) -> Features {
    let all = ctx.settings.sessions.offered;
    if credentials::offered(ctx) { all } else { all.without(Feature::ProvisionedCredentials) }
}

/// What decides which events have numbers stays as it was: they are counted already.
fn counted_as(asked: Features, before: Features) -> Features {
    let counting = [Feature::Progress, Feature::ResultChunk];
    let kept = counting.into_iter().filter(|feature| before.has(*feature));
    let free = counting.into_iter().fold(asked, Features::without);
    Feature::ALL.iter().copied().filter(|feature| free.has(*feature)).chain(kept).collect()
}

/// The refusal of a session that cannot be resumed (ARCP §6.3).
#[must_use]
pub fn lost() -> Refusal {
    Refusal::new(
        Code::ResumeWindowExpired,
        "The session cannot be resumed: it is not known by this token, its window is over, or the events after \
         last_event_seq are no longer kept for it. Open a new one and subscribe to your jobs.",
    )
}
