//! Logins with accounts of the operator's OpenID Connect provider. Tables `provider_accounts` and `provider_logins`.
//!
//! An account is its issuer and its subject. At its first login it is bound to the person that a claim names, by the
//! rules of `entente_domain::identity::provider`; from then on the claim is not looked at again, so a name that
//! changes or passes on at the provider opens nothing else here.

use std::net::IpAddr;

use entente_domain::canonical::{Digest, sha256};
use entente_domain::clock::Timestamp;
use entente_domain::identity::authority::{Authority, Basis};
use entente_domain::identity::keys::Presented;
use entente_domain::identity::people::{BROWSER, BROWSER_SECONDS, PROGRAM, TERMINAL};
use entente_domain::identity::principals::{Principal, PrincipalKind, SYSTEM};
use entente_domain::identity::provider::{Account, Named, ProviderPolicy, may_become};
use entente_domain::identity::provider_logins::ProviderLogin;
use entente_domain::ids::IntentId;
use entente_domain::log::events::{Draft, Kind as EventKind};
use entente_domain::refusal::{Code, Refusal};
use entente_runtime::refused::Refused;
use serde_json::json;
use sqlx::PgConnection;

use super::{Login, ask, open, require_power, scopes};
use crate::identity::authentication::hash;
use crate::identity::keys::{NewKey, Secret};
use crate::identity::{keys, principals, teams};
use crate::log::writer::IntentLog;
use crate::{AppError, Caller, Ctx, IntentTx, Outcome, not_found, unknown};

/// Logs a person in with a verified account and creates a key for the browser; `from` is the client's address, for the log.
///
/// The person is added to the teams that the account's groups stand for, and removed from the others of the mapping.
///
/// # Errors
/// [`Code::Gone`] if this login has succeeded before; [`Code::Forbidden`] if the account may not become the person that
/// it names.
pub async fn log_in_with_account(
    ctx: &Ctx,
    policy: &ProviderPolicy,
    account: &Account,
    login: &ProviderLogin,
    from: Option<IpAddr>,
) -> Outcome<NewKey> {
    let done = enter(ctx, policy, account, login).await;
    if let Err(AppError::Refused(refusal)) = &done {
        let principal = Some(account.principal_id.as_str());
        let reason = refusal.code.wire();
        let refused = Refused { credential: "provider account", address: from, key: None, principal, reason };
        ctx.grants.watch.tell(&refused);
    }
    done
}

/// Returns the secret of the servers that seals logins which have begun at the provider.
#[must_use]
pub fn provider_secret(ctx: &Ctx) -> Digest {
    sha256(ctx.server_keys.signer.sign("entente: logins at a provider").to_bytes())
}

async fn enter(
    ctx: &Ctx,
    policy: &ProviderPolicy,
    account: &Account,
    login: &ProviderLogin,
) -> Outcome<NewKey> {
    let presented = Presented::mint(&*ctx.chance);
    let hashed = hash(&presented.reveal())?;
    // First logins of two accounts with one name wait here for each other, and so do changes of teams.
    let mut work = IntentTx::unattended(ctx, IntentId::SYSTEM).await?;
    let now = work.now();
    let (conn, log) = work.parts();
    use_up(conn, login, now).await?;
    let person = match bound(conn, account).await? {
        Some(person) => person,
        None => bind(ctx, conn, log, policy, account).await?,
    };
    let moved = teams::follow(ctx, conn, log, &person, &account.teams, &policy.mapped_teams()).await?;
    let ask = ask(&scopes(account.admin), BROWSER, BROWSER_SECONDS, now);
    let authority = Authority { basis: Basis::ProviderAccount, let_in_by: Some(SYSTEM.to_owned()) };
    let opening = Login { presented: &presented, hashed: &hashed, opened_by: "provider", authority };
    let key = open(ctx, conn, log, &person, ask, opening).await?;
    let replaced = replace(ctx, conn, log, login, &person).await?;
    work.commit().await?;
    if replaced {
        keys::refresh(ctx).await?;
    }
    if moved {
        ctx.stops.refresh(ctx).await?;
        ctx.quotas.refresh(ctx).await?;
    }
    Ok(NewKey { key, secret: Some(Secret(presented.reveal())) })
}

/// Releases a person from the accounts that are bound to them, and ends the person's logins. The next account that names
/// the person at its first login may become that person.
///
/// # Errors
/// Fails if the scope `admin` or the power over that person is missing, or if no account is bound.
pub async fn release_account(ctx: &Ctx, caller: &Caller, principal_id: &str) -> Outcome<()> {
    require_power(caller, principal_id, true)?;
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, None).await?;
    super::person(work.conn(), caller.grant.kind, principal_id).await?;
    let accounts = unbind(work.conn(), principal_id).await?;
    if accounts.is_empty() {
        return Err(not_found("account of this person"));
    }
    for account in accounts {
        let payload =
            json!({ "principal_id": principal_id, "issuer": account.issuer, "subject": account.subject });
        work.record(Draft::of(EventKind::AccountReleased, caller.principal(), payload));
    }
    let now = work.now();
    let (conn, log) = work.parts();
    for label in [BROWSER, TERMINAL, PROGRAM] {
        keys::end_labelled(conn, principal_id, label, now, log.tail.seq).await?;
    }
    work.commit().await?;
    keys::refresh(ctx).await
}

/// Binds an account to the person that it names, and creates the person if the operator has set so.
async fn bind(
    ctx: &Ctx,
    conn: &mut PgConnection,
    log: &mut IntentLog,
    policy: &ProviderPolicy,
    account: &Account,
) -> Outcome<String> {
    let id = &account.principal_id;
    let named = named(conn, &account.issuer, id).await?;
    let creates = may_become(policy, id, named)?;
    if creates {
        let person = Principal {
            id: id.clone(),
            kind: PrincipalKind::Human,
            display_name: account.display_name.clone(),
            created_by: SYSTEM.to_owned(),
            created_at: log.now(),
        };
        principals::insert(conn, &person).await?;
        let payload = json!({ "principal_id": id, "kind": person.kind });
        log.record(ctx, Draft::of(EventKind::PrincipalCreated, SYSTEM, payload));
    }
    let payload = json!({ "principal_id": id, "issuer": account.issuer, "subject": account.subject });
    log.record(ctx, Draft::of(EventKind::AccountBound, id, payload));
    sqlx::query!(
        "-- provider::bind
         INSERT INTO provider_accounts (issuer, subject, principal_id, bound_at) VALUES ($1, $2, $3, $4)",
        account.issuer,
        account.subject,
        id,
        log.now()
    )
    .execute(conn)
    .await?;
    Ok(id.clone())
}

/// Ends the login that the browser had before; returns whether there was one.
async fn replace(
    ctx: &Ctx,
    conn: &mut PgConnection,
    log: &mut IntentLog,
    login: &ProviderLogin,
    person: &str,
) -> Outcome<bool> {
    let Some(id) = login.replaces else { return Ok(false) };
    let Some(owner) = keys::end_login(conn, id, log.now(), log.tail.seq).await? else { return Ok(false) };
    let payload = json!({ "key_id": id, "principal_id": owner });
    log.record(ctx, Draft::of(EventKind::KeyRevoked, person, payload));
    Ok(true)
}

/// Remembers that a login has succeeded, and forgets those that are over.
async fn use_up(conn: &mut PgConnection, login: &ProviderLogin, now: Timestamp) -> Outcome<()> {
    let digest = login.digest();
    let done = sqlx::query!(
        "-- provider::use_up
         WITH gone AS (DELETE FROM provider_logins WHERE expires_at <= $3)
         INSERT INTO provider_logins (digest, expires_at) VALUES ($1, $2) ON CONFLICT (digest) DO NOTHING",
        digest.as_slice(),
        login.until,
        now
    )
    .execute(conn)
    .await?;
    if done.rows_affected() == 1 {
        return Ok(());
    }
    Err(Refusal::new(Code::Gone, "This login has ended already; it works once. Begin again.").into())
}

/// Returns the person that an account is bound to.
async fn bound(conn: &mut PgConnection, account: &Account) -> Outcome<Option<String>> {
    let found = sqlx::query_scalar!(
        "-- provider::bound
         SELECT principal_id FROM provider_accounts WHERE issuer = $1 AND subject = $2",
        account.issuer,
        account.subject
    );
    Ok(found.fetch_optional(conn).await?)
}

/// Returns the facts that decide whether an account may become a principal; `None` if there is no such principal.
async fn named(conn: &mut PgConnection, issuer: &str, id: &str) -> Outcome<Option<Named>> {
    let found = sqlx::query!(
        r#"-- provider::named
         SELECT p.kind,
                EXISTS (SELECT 1 FROM provider_accounts a WHERE a.principal_id = p.id AND a.issuer = $2) AS "bound!",
                EXISTS (SELECT 1 FROM provider_accounts a WHERE a.principal_id = p.id AND a.issuer <> $2)
                    OR EXISTS (SELECT 1 FROM passwords w WHERE w.principal_id = p.id)
                    OR EXISTS (SELECT 1 FROM links l WHERE l.principal_id = p.id AND l.used_at IS NULL)
                    OR EXISTS (SELECT 1 FROM keys k WHERE k.principal_id = p.id AND k.basis IS DISTINCT FROM $3)
                    AS "has_way_in!"
         FROM principals p WHERE p.id = $1"#,
        id,
        issuer,
        Basis::ProviderAccount.as_str()
    )
    .fetch_optional(conn)
    .await?;
    let Some(found) = found else { return Ok(None) };
    let kind = PrincipalKind::parse(&found.kind).ok_or_else(|| unknown("principal kind", &found.kind))?;
    Ok(Some(Named { kind, bound: found.bound, has_way_in: found.has_way_in }))
}

/// An account that was bound.
struct Released {
    issuer: String,
    subject: String,
}

async fn unbind(conn: &mut PgConnection, principal_id: &str) -> Outcome<Vec<Released>> {
    let released = sqlx::query_as!(
        Released,
        "-- provider::unbind
         DELETE FROM provider_accounts WHERE principal_id = $1 RETURNING issuer, subject",
        principal_id
    );
    Ok(released.fetch_all(conn).await?)
}
