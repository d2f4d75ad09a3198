//! People getting in (issue 6): passwords and one-time links. Table `passwords`; links are
//! `people/links.rs`.
//!
//! Logging in makes an ordinary key of the person, for a browser or for a terminal; logging out revokes it. So whatever
//! holds for keys holds for logins, and the page that somebody looks at is a [`Caller`] like any other. How often somebody
//! may try is the door's affair (`src/web/pace.rs`).

mod links;

use std::net::IpAddr;

use entente_core::clock::{Timestamp, plus_seconds};
use entente_core::events::{Draft, Kind as EventKind};
use entente_core::idempotency::Idempotency;
use entente_core::ids::{IntentId, KeyId};
use entente_core::keys::{self as law, Key, KeyAsk, Presented, Scope};
use entente_core::people::{
    BROWSER, BROWSER_SECONDS, TERMINAL, TERMINAL_SECONDS, Ticket, check_password, check_path, may_let_in,
};
use entente_core::principals::{HOUSE, Kind, Principal};
use entente_core::refusal::{Code, Refusal};
use serde_json::json;
use sqlx::PgConnection;

use super::authentication::{Hashed, hash, hash_password, verify};
use super::keys::{self, NewKey, Secret, insert};
use super::lines::Line;
use super::{AppError, Caller, Ctx, Outcome, aside, idempotency, not_found, principals};
use crate::telemetry::refused::Refused;

pub use links::tidy;

/// The person that `entente dev` makes, for whoever looks at its pages.
pub const DEVELOPER: &str = "human.dev";

/// A one-time link, as it is ordered.
#[derive(Debug, Clone)]
pub struct LinkAsk {
    /// Whether whoever comes with it may also do what needs the scope `admin`.
    pub admin: bool,
    /// Which page it opens.
    pub leads_to: String,
    /// Seconds that it waits to be opened.
    pub seconds: u32,
}

/// A one-time link that was just made: its path for this one time, and until when it waits.
#[derive(Debug)]
pub struct NewLink {
    /// The path, which opens the door; `None` when a repeated request finds that the link was made before.
    pub path: Option<Secret>,
    /// When it is over.
    pub expires_at: Timestamp,
}

/// What a link is about, before it is opened.
#[derive(Debug)]
pub struct Invitation {
    /// Whom it lets in.
    pub principal_id: String,
    /// Which page it opens.
    pub leads_to: String,
}

/// Sets a person's password, and ends what the old one opened: logins, terminals, and links that wait.
///
/// # Errors
/// The scope `admin` or the power over that person is missing; there is no such person; the password is too short.
pub async fn set_password(
    ctx: &Ctx,
    caller: &Caller,
    principal_id: &str,
    password: String,
    admin: bool,
) -> Outcome<Timestamp> {
    require_power(caller, principal_id, admin)?;
    check_password(&password)?;
    let hash = hash_password(ctx, password).await?;
    let mut tx = ctx.begin(&[IntentId::HOUSE]).await?;
    person(&mut tx, caller.grant.kind, principal_id).await?;
    let mut line = Line::open(&mut tx, IntentId::HOUSE, caller.trace, ctx.now()).await?;
    let now = line.now();
    let payload = json!({ "principal_id": principal_id, "admin": admin });
    line.record(ctx, Draft::of(EventKind::PasswordSet, caller.principal(), payload));
    save_password(&mut tx, principal_id, &hash, admin, caller.principal(), now).await?;
    // Whoever knew the old one has perhaps used it: nothing that it opened, or that was made for that person, goes on.
    for label in [BROWSER, TERMINAL] {
        keys::end_labelled(&mut tx, principal_id, label, now, line.tail.seq).await?;
    }
    links::void(&mut tx, principal_id, now).await?;
    line.save(&mut tx).await?;
    tx.commit().await?;
    ctx.feed.news(IntentId::HOUSE);
    keys::refresh(ctx).await?;
    Ok(now)
}

/// Makes a one-time link that logs a person in.
///
/// # Errors
/// As [`set_password`]; it leads elsewhere.
pub async fn link(
    ctx: &Ctx,
    caller: &Caller,
    principal_id: &str,
    ask: LinkAsk,
    once: Option<&Idempotency>,
) -> Outcome<NewLink> {
    require_power(caller, principal_id, ask.admin)?;
    check_path(&ask.leads_to)?;
    let ticket = Ticket::mint(&*ctx.chance);
    let mut tx = ctx.begin_once(&[IntentId::HOUSE], caller, once).await?;
    person(&mut tx, caller.grant.kind, principal_id).await?;
    if let Some(expires_at) = idempotency::find(&mut tx, caller, once).await? {
        return Ok(NewLink { path: None, expires_at });
    }
    let mut line = Line::open(&mut tx, IntentId::HOUSE, caller.trace, ctx.now()).await?;
    let key = caller.grant.key.id;
    let made =
        links::keep(ctx, &mut tx, &mut line, &ticket, principal_id, &ask, (caller.principal(), Some(key)));
    let expires_at = made.await?;
    line.save(&mut tx).await?;
    idempotency::keep(&mut tx, caller, once, &expires_at, line.now()).await?;
    tx.commit().await?;
    ctx.feed.news(IntentId::HOUSE);
    Ok(NewLink { path: Some(Secret(ticket.path())), expires_at })
}

/// A link for whoever runs `entente dev`, as a person who may see everything.
///
/// # Errors
/// The database.
pub async fn development(ctx: &Ctx) -> Outcome<NewLink> {
    let ticket = Ticket::mint(&*ctx.chance);
    let mut tx = ctx.begin(&[IntentId::HOUSE]).await?;
    let mut line = Line::open(&mut tx, IntentId::HOUSE, None, ctx.now()).await?;
    let developer = Principal {
        id: DEVELOPER.to_owned(),
        kind: Kind::Human,
        display_name: None,
        created_by: HOUSE.to_owned(),
        created_at: line.now(),
    };
    principals::insert(&mut tx, &developer).await?;
    let ask = LinkAsk { admin: true, leads_to: "/inbox".to_owned(), seconds: BROWSER_SECONDS };
    let expires_at = links::keep(ctx, &mut tx, &mut line, &ticket, DEVELOPER, &ask, (HOUSE, None)).await?;
    line.save(&mut tx).await?;
    tx.commit().await?;
    ctx.feed.news(IntentId::HOUSE);
    Ok(NewLink { path: Some(Secret(ticket.path())), expires_at })
}

/// Logs a person in with a password: a key for the browser. `from` is who tries, for the log.
///
/// # Errors
/// [`Code::Unauthenticated`], the same after the same time whether the name, the password or both are wrong.
pub async fn log_in(ctx: &Ctx, name: &str, password: String, from: Option<IpAddr>) -> Outcome<NewKey> {
    let mut connection = ctx.pool.acquire().await?;
    let found = password_of(&mut connection, name).await?;
    drop(connection);
    let presented = Presented::mint(&*ctx.chance);
    if !fits(ctx, found.as_ref(), password).await? {
        let (principal, reason) = match &found {
            Some(known) => (Some(known.principal_id.as_str()), "wrong password"),
            None => (None, "no such name, or no password"),
        };
        let refused = Refused { credential: "password", address: from, key: None, principal, reason };
        ctx.grants.watch.tell(&refused);
        return Err(nobody());
    }
    let hashed = hash(&presented.reveal())?;
    let mut tx = ctx.begin(&[IntentId::HOUSE]).await?;
    // It may have been changed meanwhile.
    let current = password_of(&mut tx, name).await?;
    let Some(known) = current.filter(|now| found.is_some_and(|then| then.hash == now.hash)) else {
        return Err(nobody());
    };
    let mut line = Line::open(&mut tx, IntentId::HOUSE, None, ctx.now()).await?;
    let ask = ask(&known.scopes(), BROWSER, BROWSER_SECONDS, line.now());
    let key = open(ctx, &mut tx, &mut line, &known.principal_id, ask, (&presented, &hashed, "password"));
    let key = key.await?;
    line.save(&mut tx).await?;
    tx.commit().await?;
    ctx.feed.news(IntentId::HOUSE);
    Ok(NewKey { key, secret: Some(Secret(presented.reveal())) })
}

/// What a link that somebody presents is about. It is not opened by that.
///
/// # Errors
/// [`Code::Gone`] when it was opened, is over or is void; there is none.
pub async fn invitation(ctx: &Ctx, ticket: &str) -> Outcome<Invitation> {
    let digest = Ticket::digest_of(ticket).ok_or_else(|| not_found("link"))?;
    let mut connection = ctx.pool.acquire().await?;
    let link = links::waiting(&mut connection, &digest, ctx.now()).await?;
    Ok(Invitation { principal_id: link.principal_id, leads_to: link.leads_to })
}

/// Opens a link, once: a key for the browser, and which page it leads to.
///
/// # Errors
/// As [`invitation`].
pub async fn redeem(ctx: &Ctx, ticket: &str) -> Outcome<(NewKey, String)> {
    let digest = Ticket::digest_of(ticket).ok_or_else(|| not_found("link"))?;
    // Looked at before anybody is locked out, because everybody may come with anything.
    let mut connection = ctx.pool.acquire().await?;
    links::waiting(&mut connection, &digest, ctx.now()).await?;
    drop(connection);
    let presented = Presented::mint(&*ctx.chance);
    let hashed = hash(&presented.reveal())?;
    // All who come with it wait here for one another: the house's lock.
    let mut tx = ctx.begin(&[IntentId::HOUSE]).await?;
    let mut line = Line::open(&mut tx, IntentId::HOUSE, None, ctx.now()).await?;
    let link = links::waiting(&mut tx, &digest, line.now()).await?;
    links::use_up(&mut tx, &digest, line.now()).await?;
    let ask = ask(&scopes(link.admin), BROWSER, BROWSER_SECONDS, line.now());
    let key = open(ctx, &mut tx, &mut line, &link.principal_id, ask, (&presented, &hashed, "link")).await?;
    line.save(&mut tx).await?;
    tx.commit().await?;
    ctx.feed.news(IntentId::HOUSE);
    Ok((NewKey { key, secret: Some(Secret(presented.reveal())) }, link.leads_to))
}

/// Makes a key for the terminal of a person who is logged in, for a few minutes.
///
/// # Errors
/// The caller is no person, or comes with another key than a browser's.
pub async fn terminal(ctx: &Ctx, caller: &Caller) -> Outcome<NewKey> {
    let key = &caller.grant.key;
    if caller.grant.kind != Kind::Human || key.label.as_deref() != Some(BROWSER) {
        return Err(
            Refusal::new(Code::Forbidden, "A terminal is let in by a person who is logged in.").into()
        );
    }
    let presented = Presented::mint(&*ctx.chance);
    let hashed = hash(&presented.reveal())?;
    let mut tx = ctx.begin(&[IntentId::HOUSE]).await?;
    let mut line = Line::open(&mut tx, IntentId::HOUSE, caller.trace, ctx.now()).await?;
    // A terminal decides; it administers nothing.
    let ask = ask(&scopes(false), TERMINAL, TERMINAL_SECONDS, line.now());
    let made = open(ctx, &mut tx, &mut line, &key.principal_id, ask, (&presented, &hashed, "page")).await?;
    line.save(&mut tx).await?;
    tx.commit().await?;
    ctx.feed.news(IntentId::HOUSE);
    Ok(NewKey { key: made, secret: Some(Secret(presented.reveal())) })
}

/// Whether a password is the one that is kept. Where none is kept, it takes as long.
async fn fits(ctx: &Ctx, known: Option<&Known>, password: String) -> Outcome<bool> {
    let Some(kept) = known.map(|known| known.hash.clone()) else {
        hash_password(ctx, password).await?;
        return Ok(false);
    };
    let _turn = ctx.grants.passwords.enter().await?;
    aside(move || verify(&password, &kept)).await
}

/// What every failed login is told.
fn nobody() -> AppError {
    let message =
        "This name and this password open nothing here. Check both; an admin can send you a one-time link.";
    Refusal::new(Code::Unauthenticated, message).into()
}

fn scopes(admin: bool) -> Vec<Scope> {
    if admin { Scope::ALL.to_vec() } else { Scope::ordinary() }
}

fn ask(scopes: &[Scope], label: &str, seconds: u32, now: Timestamp) -> KeyAsk {
    KeyAsk {
        label: Some(label.to_owned()),
        scopes: Some(scopes.to_vec()),
        expires_at: Some(plus_seconds(now, seconds)),
        ..KeyAsk::default()
    }
}

/// Requires that the caller may let this person in: as for making a key of that person with those scopes.
fn require_power(caller: &Caller, principal_id: &str, admin: bool) -> Outcome<()> {
    caller.require(Scope::Admin)?;
    let ask = KeyAsk { scopes: Some(scopes(admin)), ..KeyAsk::default() };
    Ok(caller.grant.key.may_make(&ask, principal_id)?)
}

/// A person by its id, whom somebody of this kind may let in.
async fn person(conn: &mut PgConnection, by: Kind, id: &str) -> Outcome<Principal> {
    let found = principals::find(conn, id).await?.ok_or_else(|| not_found("principal"))?;
    may_let_in(by, found.kind, None)?;
    if found.kind == Kind::Human {
        return Ok(found);
    }
    let message = "Only people log in. Make a key for an agent or a service.";
    Err(Refusal::new(Code::Unprocessable, message).into())
}

/// Makes the key that a login is.
async fn open(
    ctx: &Ctx,
    conn: &mut PgConnection,
    line: &mut Line,
    principal_id: &str,
    ask: KeyAsk,
    (presented, hashed, by): (&Presented, &Hashed, &str),
) -> Outcome<Key> {
    let id = KeyId::mint(line.now(), &*ctx.chance);
    let key = law::create(ask, presented.public_id.clone(), principal_id, principal_id, id, line.now())?;
    let payload = json!({
        "key_id": key.id, "principal_id": key.principal_id, "scopes": key.scopes, "act_as": key.act_as,
        "label": key.label, "opened_by": by,
    });
    line.record(ctx, Draft::of(EventKind::KeyCreated, principal_id, payload));
    insert(conn, &key, hashed, line.tail.seq).await?;
    Ok(key)
}

struct Known {
    principal_id: String,
    hash: String,
    admin: bool,
}

impl Known {
    fn scopes(&self) -> Vec<Scope> {
        scopes(self.admin)
    }
}

async fn password_of(conn: &mut PgConnection, principal_id: &str) -> Outcome<Option<Known>> {
    let known = sqlx::query_as!(
        Known,
        "-- people::password_of
         SELECT principal_id, hash, admin FROM passwords WHERE principal_id = $1",
        principal_id
    );
    Ok(known.fetch_optional(conn).await?)
}

async fn save_password(
    conn: &mut PgConnection,
    principal_id: &str,
    hash: &str,
    admin: bool,
    by: &str,
    now: Timestamp,
) -> Outcome<()> {
    sqlx::query!(
        "-- people::save_password
         INSERT INTO passwords (principal_id, hash, admin, set_by, set_at) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (principal_id) DO UPDATE SET hash = excluded.hash, admin = excluded.admin,
             set_by = excluded.set_by, set_at = excluded.set_at",
        principal_id,
        hash,
        admin,
        by,
        now
    )
    .execute(conn)
    .await?;
    Ok(())
}
