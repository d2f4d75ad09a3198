//! Logins of people: passwords (`people/passwords.rs`), one-time links (`people/links.rs`) and accounts of a provider
//! (`people/provider.rs`).
//!
//! Logging in creates an ordinary API key of the person, for a browser or for a terminal; logging out revokes it. All
//! rules for keys therefore hold for logins, and the reader of a page is a [`Caller`] like any other. The API limits
//! the rate of attempts (`http/src/login_throttle.rs`).
//!
//! The basis of such a key is stored with it (`entente_domain::identity::authority`). A login that somebody else set up for a
//! person cannot decide anything until that person takes it over, by opening the link or by choosing a password of
//! their own (`people/passwords.rs`).

mod links;
mod passwords;
mod provider;

use std::net::IpAddr;

use entente_domain::clock::{Timestamp, plus_seconds};
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::authority::{Authority, Basis};
use entente_domain::identity::keys as domain;
use entente_domain::identity::keys::{Key, KeyAsk, Presented, Scope};
use entente_domain::identity::people::{
    BROWSER, BROWSER_SECONDS, PROGRAM, PROGRAM_SECONDS, TERMINAL, TERMINAL_SECONDS, Ticket, check_path,
    may_let_in,
};
use entente_domain::identity::principals::{Principal, PrincipalKind, SYSTEM};
use entente_domain::ids::{IntentId, KeyId};
use entente_domain::log::events::{Draft, Kind as EventKind};
use entente_domain::refusal::{Code, Refusal};
use entente_runtime::refused::Refused;
use serde_json::json;
use sqlx::PgConnection;

use crate::identity::authentication::{Hashed, hash, hash_password, verify};
use crate::identity::keys::{NewKey, Secret, insert};
use crate::identity::people::links::Maker;
use crate::identity::people::passwords::{Known, password_of};
use crate::identity::principals;
use crate::log::writer::IntentLog;
use crate::{AppError, Caller, Ctx, IntentTx, Outcome, not_found, run_blocking};
pub use links::tidy;
pub use passwords::{change_password, set_password};
pub use provider::{log_in_with_account, provider_secret, release_account};

/// Id of the person that `entente dev` creates for viewing its pages.
pub const DEVELOPER: &str = "human.dev";

/// Request for a one-time link.
#[derive(Debug, Clone)]
pub struct LinkAsk {
    /// Whether the login also has the scope `admin`.
    pub admin: bool,
    /// Path of the page that the link opens.
    pub leads_to: String,
    /// Seconds until the link expires.
    pub seconds: u32,
}

/// A one-time link that was just created: its path, shown only this once, and its expiry.
#[derive(Debug)]
pub struct NewLink {
    /// The path, which is the secret; `None` if a repeated request finds that the link was created before.
    pub path: Option<Secret>,
    /// Time at which the link expires.
    pub expires_at: Timestamp,
}

/// The contents of a link, shown before it is opened.
#[derive(Debug)]
pub struct Invitation {
    /// Person that the link logs in.
    pub principal_id: String,
    /// Path of the page that the link opens.
    pub leads_to: String,
}

/// A person to whom a decision can be put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    /// Principal id.
    pub id: String,
    /// Display name.
    pub display_name: Option<String>,
}

/// Lists the people to whom a decision can be put, by id, for every caller that may ask them.
///
/// # Errors
/// The caller lacks the scope; the database query fails.
pub async fn list(ctx: &Ctx, caller: &Caller, after: Option<&str>, limit: u32) -> Outcome<Vec<Person>> {
    caller.require(Scope::MomentsWrite)?;
    let people = sqlx::query_as!(
        Person,
        "-- people::list
         SELECT id, display_name FROM principals WHERE kind = 'human' AND id > $1 ORDER BY id LIMIT $2",
        after.unwrap_or(""),
        i64::from(limit)
    )
    .fetch_all(&ctx.pool)
    .await?;
    Ok(people)
}

/// Creates a one-time link that logs a person in.
///
/// # Errors
/// Fails if the scope `admin` or the power over that person is missing, if the person does not exist, or if the path
/// leads to another site.
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
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, once).await?;
    person(work.conn(), caller.grant.kind, principal_id).await?;
    if let Some(expires_at) = work.repeated()? {
        return Ok(NewLink { path: None, expires_at });
    }
    let key = &caller.grant.key;
    let let_in_by = key.lets_in(principal_id);
    let maker =
        Maker { principal_id: caller.principal(), key: Some(key.id), let_in_by: let_in_by.as_deref() };
    let (conn, log) = work.parts();
    let expires_at = links::keep(ctx, conn, log, &ticket, principal_id, &ask, &maker).await?;
    let expires_at = work.finish(expires_at).await?;
    Ok(NewLink { path: Some(Secret(ticket.path())), expires_at })
}

/// Creates a link for the operator of `entente dev`, as a person with the scope `admin`.
///
/// # Errors
/// Returns database errors.
pub async fn development(ctx: &Ctx) -> Outcome<NewLink> {
    let ticket = Ticket::mint(&*ctx.chance);
    let mut work = IntentTx::unattended(ctx, IntentId::SYSTEM).await?;
    let developer = Principal {
        id: DEVELOPER.to_owned(),
        kind: PrincipalKind::Human,
        display_name: None,
        created_by: SYSTEM.to_owned(),
        created_at: work.now(),
    };
    principals::insert(work.conn(), &developer).await?;
    let ask = LinkAsk { admin: true, leads_to: "/inbox".to_owned(), seconds: BROWSER_SECONDS };
    let maker = Maker { principal_id: SYSTEM, key: None, let_in_by: Some(SYSTEM) };
    let (conn, log) = work.parts();
    let expires_at = links::keep(ctx, conn, log, &ticket, DEVELOPER, &ask, &maker).await?;
    work.commit().await?;
    Ok(NewLink { path: Some(Secret(ticket.path())), expires_at })
}

/// Logs a person in with a password and creates a key for the browser; `from` is the client's address, for the log.
///
/// # Errors
/// [`Code::Unauthenticated`], with the same message after the same time whether the name, the password or both are
/// wrong.
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
    let mut work = IntentTx::unattended(ctx, IntentId::SYSTEM).await?;
    // The password may have changed during the check.
    let current = password_of(work.conn(), name).await?;
    let Some(known) = current.filter(|now| found.is_some_and(|then| then.hash == now.hash)) else {
        return Err(nobody());
    };
    let ask = ask(&known.scopes(), BROWSER, BROWSER_SECONDS, work.now());
    let authority = known.authority();
    let login = Login { presented: &presented, hashed: &hashed, opened_by: "password", authority };
    let (conn, log) = work.parts();
    let key = open(ctx, conn, log, &known.principal_id, ask, login).await?;
    work.commit().await?;
    Ok(NewKey { key, secret: Some(Secret(presented.reveal())) })
}

/// Returns the contents of a presented link without opening it.
///
/// # Errors
/// [`Code::Gone`] if the link was opened, has expired or is void; not found if it does not exist.
pub async fn invitation(ctx: &Ctx, ticket: &str) -> Outcome<Invitation> {
    let digest = Ticket::digest_of(ticket).ok_or_else(|| not_found("link"))?;
    let mut connection = ctx.pool.acquire().await?;
    let link = links::waiting(&mut connection, &digest, ctx.now()).await?;
    Ok(Invitation { principal_id: link.principal_id, leads_to: link.leads_to })
}

/// Opens a link, once: returns a key for the browser and the page that the link leads to.
///
/// # Errors
/// As [`invitation`].
pub async fn redeem(ctx: &Ctx, ticket: &str) -> Outcome<(NewKey, String)> {
    let digest = Ticket::digest_of(ticket).ok_or_else(|| not_found("link"))?;
    // Checked before the lock is taken, because anybody may present anything.
    let mut connection = ctx.pool.acquire().await?;
    links::waiting(&mut connection, &digest, ctx.now()).await?;
    drop(connection);
    let presented = Presented::mint(&*ctx.chance);
    let hashed = hash(&presented.reveal())?;
    // Everybody who presents the link waits here, for the lock of the system log.
    let mut work = IntentTx::unattended(ctx, IntentId::SYSTEM).await?;
    let now = work.now();
    let link = links::waiting(work.conn(), &digest, now).await?;
    links::use_up(work.conn(), &digest, now).await?;
    let ask = ask(&scopes(link.admin), BROWSER, BROWSER_SECONDS, now);
    let authority = Authority { basis: Basis::OneTimeLink, let_in_by: link.let_in_by };
    let login = Login { presented: &presented, hashed: &hashed, opened_by: "link", authority };
    let (conn, log) = work.parts();
    let key = open(ctx, conn, log, &link.principal_id, ask, login).await?;
    work.commit().await?;
    Ok((NewKey { key, secret: Some(Secret(presented.reveal())) }, link.leads_to))
}

/// Purpose of a key that a logged-in person creates for themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyPurpose {
    /// A terminal, for a few minutes.
    Terminal,
    /// A program of theirs that answers over the API.
    Program,
}

/// Creates a key of a logged-in person, with the same basis as the login.
///
/// # Errors
/// Fails if the caller is not a person, or uses another key than a browser's.
pub async fn own_key(ctx: &Ctx, caller: &Caller, purpose: KeyPurpose) -> Outcome<NewKey> {
    let key = &caller.grant.key;
    if caller.grant.kind != PrincipalKind::Human || key.label.as_deref() != Some(BROWSER) {
        return Err(Refusal::new(
            Code::Forbidden,
            "Keys of their own are made by a person who is logged in.",
        )
        .into());
    }
    let presented = Presented::mint(&*ctx.chance);
    let hashed = hash(&presented.reveal())?;
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, None).await?;
    let (label, seconds) = match purpose {
        KeyPurpose::Terminal => (TERMINAL, TERMINAL_SECONDS),
        KeyPurpose::Program => (PROGRAM, PROGRAM_SECONDS),
    };
    // The key may decide, but not administer.
    let ask = ask(&scopes(false), label, seconds, work.now());
    let authority = caller.hands_on(&key.principal_id);
    let login = Login { presented: &presented, hashed: &hashed, opened_by: "page", authority };
    let (conn, log) = work.parts();
    let made = open(ctx, conn, log, &key.principal_id, ask, login).await?;
    work.commit().await?;
    Ok(NewKey { key: made, secret: Some(Secret(presented.reveal())) })
}

/// Verifies a password against the stored hash; without a stored hash it takes the same time.
async fn fits(ctx: &Ctx, known: Option<&Known>, password: String) -> Outcome<bool> {
    let Some(kept) = known.map(|known| known.hash.clone()) else {
        hash_password(ctx, password).await?;
        return Ok(false);
    };
    let _turn = ctx.grants.passwords.enter().await?;
    run_blocking(move || verify(&password, &kept)).await
}

/// Returns the error of every failed login.
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

/// Requires that the caller may let this person in, by the rules for creating a key of that person with those scopes.
fn require_power(caller: &Caller, principal_id: &str, admin: bool) -> Outcome<()> {
    caller.require(Scope::Admin)?;
    caller.require_no_token()?;
    let ask = KeyAsk { scopes: Some(scopes(admin)), ..KeyAsk::default() };
    Ok(caller.grant.key.may_make(&ask, principal_id)?)
}

/// Loads a person by id, if a principal of the kind `by` may let that person in.
async fn person(conn: &mut PgConnection, by: PrincipalKind, id: &str) -> Outcome<Principal> {
    let found = principals::find(conn, id).await?.ok_or_else(|| not_found("principal"))?;
    may_let_in(by, found.kind, None)?;
    if found.kind == PrincipalKind::Human {
        return Ok(found);
    }
    let message = "Only people log in. Make a key for an agent or a service.";
    Err(Refusal::new(Code::Unprocessable, message).into())
}

/// A login: the secret of the key that it creates, how the person logged in, and the authority of the key.
struct Login<'a> {
    /// The key's secret.
    presented: &'a Presented,
    /// The hashes of the secret.
    hashed: &'a Hashed,
    /// The means of the login, for the log.
    opened_by: &'static str,
    /// The authority of the key.
    authority: Authority,
}

/// Creates the key of a login.
async fn open(
    ctx: &Ctx,
    conn: &mut PgConnection,
    log: &mut IntentLog,
    principal_id: &str,
    ask: KeyAsk,
    login: Login<'_>,
) -> Outcome<Key> {
    let id = KeyId::mint(log.now(), &*ctx.chance);
    let public_id = login.presented.public_id.clone();
    let mut key = domain::create(ask, public_id, principal_id, principal_id, id, log.now())?;
    key.authority = Some(login.authority);
    let payload = json!({
        "key_id": key.id, "principal_id": key.principal_id, "scopes": key.scopes, "act_as": key.act_as,
        "label": key.label, "opened_by": login.opened_by, "authority": key.authority,
    });
    log.record(ctx, Draft::of(EventKind::KeyCreated, principal_id, payload));
    insert(conn, &key, login.hashed, log.tail.seq).await?;
    Ok(key)
}
