//! Sessions through which clients follow their jobs (ARCP §6). A session outlives its connections: it keeps counting
//! events, can be resumed for a while, and is deleted only then.
//!
//! This file opens and resumes sessions. `keeping.rs` maintains and ends them, `follows.rs` subscribes to jobs,
//! `frames.rs` reads the frames to send, `opener.rs` knows the credential that opened a session; `session_rows.rs` is the
//! table, which the writers of jobs use as well.
//! The conversation itself is in `entente_domain::arcp::sessions`, its connection in `api/src/arcp`.

mod follows;
mod frames;
mod keeping;
mod opener;

use std::time::Duration;

use entente_domain::arcp::sessions::dialects::Dialect;
use entente_domain::arcp::sessions::envelope::Resume;
use entente_domain::arcp::sessions::features::{Feature, Features};
use entente_domain::arcp::sessions::tokens;
use entente_domain::canonical::sha256;
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::SessionId;
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::wakeups::WakeKey;
use entente_kernel::{Caller, Outcome, Tx, idempotency};
use sqlx::PgConnection;
use tokio::time::sleep;

use crate::Ctx;
use crate::credentials;
use crate::session_rows::{self, Session};

pub use follows::{Followed, Since, follow, followed, observed, plan, unfollow};
pub use frames::{Batch, after, press};
pub use keeping::{acked, forget, is_idle, keep, leave};
pub use opener::presented;

/// Time that a client with the previous token waits, because the holder of the current one may be about to show a
/// sign of life.
const PROOF: Duration = Duration::from_millis(250);

/// The operator's settings for sessions.
#[derive(Debug, Clone)]
pub struct SessionSettings {
    /// Interval of the heartbeats of each side (§6.4).
    pub heartbeat: Duration,
    /// Time for which a session can be resumed after it was last connected.
    pub resume_window: Duration,
    /// Maximum number of connected sessions of one principal.
    pub per_principal: u32,
    /// Time after which a session with nothing but heartbeats is closed.
    pub idle: Duration,
    /// Features that the server offers if it can provision credentials.
    pub offered: Features,
}

/// A client that connects, and the form of its frames.
#[derive(Debug, Clone)]
pub struct Arrival {
    /// The client's name for itself.
    pub client: String,
    /// Dialect of its frames; `None` leaves a session's dialect unchanged.
    pub dialect: Option<Dialect>,
    /// Features of both sides; `None` leaves a session's features unchanged.
    pub features: Option<Features>,
    /// Whether it is connected over stdio, with one frame per line.
    pub lines: bool,
}

/// A session with its current connection.
#[derive(Debug, Clone)]
pub struct Entered {
    /// The session.
    pub id: SessionId,
    /// Number of this connection; an older one is over.
    pub connection: i64,
    /// Dialect of its frames.
    pub dialect: Dialect,
    /// Features of both sides.
    pub features: Features,
    /// The next resume token.
    pub token: String,
    /// Whether it is connected over stdio, with one frame per line.
    pub lines: bool,
    /// The last event that the client has acknowledged.
    pub acked: i64,
}

impl Entered {
    /// Returns a session for its connection, with the token just created for it.
    fn new(session: &Session, token: String) -> Self {
        Self {
            id: session.id,
            connection: session.connection,
            dialect: session.dialect,
            features: session.features,
            token,
            lines: session.lines,
            acked: session.acked_seq,
        }
    }
}

/// Opens a session.
///
/// # Errors
/// Fails if the caller may not read jobs, or if its principal has the maximum number of connected sessions.
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
        opened_by: opener::opened_by(caller),
    };
    session_rows::insert(&mut tx, &session, now).await?;
    tx.commit().await?;
    Ok(Entered::new(&session, token))
}

/// Begins a transaction that connects a session of this principal; a lock makes concurrent ones count each other.
async fn begin(ctx: &Ctx, caller: &Caller) -> Outcome<Tx> {
    ctx.begin_locked(vec![idempotency::lock_key(&caller.agent, "sessions")]).await
}

/// Requires that the principal may have one more session connected.
async fn has_room(conn: &mut PgConnection, ctx: &Ctx, caller: &Caller, now: Timestamp) -> Outcome<()> {
    let most = ctx.state.sessions.per_principal;
    if session_rows::attached(conn, &caller.agent, now).await? < i64::from(most) {
        return Ok(());
    }
    let agent = &caller.agent;
    let message = format!("`{agent}` has {most} open sessions, as many as it may. Close some.");
    Err(Refusal::new(Code::PermissionDenied, message).into())
}

/// Resumes a session (§6.3) and ends its previous connection, if any; a wrong token changes nothing.
///
/// # Errors
/// [`Code::ResumeWindowExpired`]: there is no such session for this token and caller, or the requested events are not
/// kept. Also fails if the principal has the maximum number of other sessions connected: this one can be resumed
/// after one of them is closed.
pub async fn resume(ctx: &Ctx, caller: &Caller, said: &Resume, arrival: Arrival) -> Outcome<Entered> {
    caller.require(Scope::JobsRead)?;
    let id: SessionId = said.session_id.parse().map_err(|_no_id| lost())?;
    let (mut tx, mut session) = knock(ctx, caller, said, id).await?;
    if !tokens::opens(&said.resume_token, &session.token) {
        // The sign of life that invalidates the previous token may be on its way.
        tx.rollback().await?;
        sleep(PROOF).await;
        (tx, session) = knock(ctx, caller, said, id).await?;
    }
    let now = ctx.now();
    if !session.attached {
        has_room(&mut tx, ctx, caller, now).await?;
    }
    let token = tokens::mint(&*ctx.chance);
    // The token that the client is known to have stays valid until it is known to have the new one.
    let presented = [Some(session.token), session.prior].into_iter().flatten();
    session.prior = presented.into_iter().find(|known| tokens::opens(&said.resume_token, known));
    session.token = sha256(&token);
    session.connection += 1;
    session.expires_at = until(ctx, now);
    session.dialect = arrival.dialect.unwrap_or(session.dialect);
    session.features = arrival.features.map_or(session.features, |asked| counted_as(asked, session.features));
    session.opened_by = opener::opened_by(caller);
    session_rows::take_up(&mut tx, &session).await?;
    tx.commit().await?;
    // The previous connection reads that it is no longer the current one.
    ctx.feed.wake(WakeKey::Session(id));
    Ok(Entered::new(&session, token))
}

/// Locks and loads the requested session, if the caller's token opens it.
async fn knock(ctx: &Ctx, caller: &Caller, said: &Resume, id: SessionId) -> Outcome<(Tx, Session)> {
    let mut tx = begin(ctx, caller).await?;
    let session = session_rows::lock(&mut tx, id).await?;
    let session = session.filter(|session| opens(session, &caller.agent, said, ctx.now()));
    Ok((tx, session.ok_or_else(lost)?))
}

/// Returns the time until which a connected session can be resumed.
///
/// The window counts from the last message, and is extended because not every message updates it.
fn until(ctx: &Ctx, now: Timestamp) -> Timestamp {
    now + ctx.state.sessions.resume_window * 3 / 2
}

fn opens(session: &Session, principal: &str, said: &Resume, now: Timestamp) -> bool {
    let in_time = session.expires_at > now;
    // If chunks are cut, the client's numbers exceed the stored ones.
    let covered = said.last_event_seq >= session.acked_seq
        && (session.lines || said.last_event_seq <= session.last_seq);
    let mut known = [Some(&session.token), session.prior.as_ref()].into_iter().flatten();
    let presented = known.any(|known| tokens::opens(&said.resume_token, known));
    presented && session.principal == principal && in_time && covered
}

/// Returns the features offered to clients: credentials only if they can be provisioned, revoked and kept private
/// (§14).
#[must_use]
pub fn offered(ctx: &Ctx) -> Features {
    let all = ctx.state.sessions.offered;
    if credentials::offered(ctx) { all } else { all.without(Feature::ProvisionedCredentials) }
}

/// Keeps the features that decide about numbering, because events are numbered already.
fn counted_as(asked: Features, before: Features) -> Features {
    let counting = [Feature::Progress, Feature::ResultChunk];
    let kept = counting.into_iter().filter(|feature| before.has(*feature));
    let free = counting.into_iter().fold(asked, Features::without);
    Feature::ALL.iter().copied().filter(|feature| free.has(*feature)).chain(kept).collect()
}

/// Builds the refusal of a session that cannot be resumed (ARCP §6.3).
#[must_use]
pub fn lost() -> Refusal {
    Refusal::new(
        Code::ResumeWindowExpired,
        "The session cannot be resumed: it is not known by this token, its window is over, or the events after \
         last_event_seq are no longer kept for it. Open a new one and subscribe to your jobs.",
    )
}
