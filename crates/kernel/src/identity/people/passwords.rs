//! Passwords: setting and storing them. Table `passwords`; logging in with them is in `people.rs`.

use entente_domain::clock::Timestamp;
use entente_domain::identity::authority::{Authority, Basis};
use entente_domain::identity::keys::{Presented, Scope};
use entente_domain::identity::people::{BROWSER, BROWSER_SECONDS, PROGRAM, TERMINAL, check_password};
use entente_domain::identity::principals::PrincipalKind;
use entente_domain::ids::IntentId;
use entente_domain::log::events::{Draft, Kind as EventKind};
use entente_domain::refusal::{Code, Refusal};
use serde_json::json;
use sqlx::PgConnection;

use super::{Login, ask, fits, links, nobody, open, person, require_power, scopes};
use crate::identity::authentication::{hash, hash_password};
use crate::identity::keys;
use crate::identity::keys::{NewKey, Secret};
use crate::log::writer::IntentLog;
use crate::{Caller, Ctx, IntentTx, Outcome};

/// Sets a person's password and ends everything that the old one opened: logins, terminals, and unopened links.
///
/// A password that somebody else sets cannot decide anything until the person has chosen another.
///
/// # Errors
/// Fails if the scope `admin` or the power over that person is missing, if the person does not exist, or if the
/// password is too short.
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
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, None).await?;
    person(work.conn(), caller.grant.kind, principal_id).await?;
    let own = caller.hands_on(principal_id).basis.decides();
    let let_in_by = caller.grant.key.lets_in(principal_id);
    let set = Set { principal_id, hash: &hash, admin, own, by: caller.principal(), let_in_by };
    let now = work.now();
    let (conn, log) = work.parts();
    replace(ctx, conn, log, &set).await?;
    work.commit().await?;
    keys::refresh(ctx).await?;
    Ok(now)
}

/// Lets a logged-in person choose a password of their own, and replaces the browser's key by a new one.
///
/// This takes over a login that somebody else has set up. After a login with a password, the person must repeat that
/// password.
///
/// # Errors
/// Fails if the caller is not logged in, if the current password is wrong, or if the new one is too short.
pub async fn change_password(
    ctx: &Ctx,
    caller: &Caller,
    current: Option<String>,
    password: String,
) -> Outcome<NewKey> {
    let key = &caller.grant.key;
    let logged_in = caller.grant.kind == PrincipalKind::Human && key.label.as_deref() == Some(BROWSER);
    let authority = key.authority.as_ref().filter(|one| logged_in && one.basis != Basis::GivenKey);
    let Some(authority) = authority else {
        let message = "A password is chosen by a person who has logged in, with a one-time link or the password before.";
        return Err(Refusal::new(Code::Forbidden, message).into());
    };
    check_password(&password)?;
    let person = &key.principal_id;
    let mut connection = ctx.pool.acquire().await?;
    let known = password_of(&mut connection, person).await?;
    drop(connection);
    if authority.basis == Basis::ProviderAccount && known.is_none() {
        // A password would outlive the account at the provider.
        let message = "You log in with the account of your organisation and have no password here. Ask an admin for a one-time link if you need one.";
        return Err(Refusal::new(Code::Forbidden, message).into());
    }
    if authority.basis != Basis::OneTimeLink
        && !fits(ctx, known.as_ref(), current.unwrap_or_default()).await?
    {
        return Err(nobody());
    }
    let password_hash = hash_password(ctx, password).await?;
    let presented = Presented::mint(&*ctx.chance);
    let hashed = hash(&presented.reveal())?;
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, None).await?;
    // The password may have been set anew meanwhile, which ends this login.
    let current = password_of(work.conn(), person).await?;
    if current.as_ref().map(|now| &now.hash) != known.as_ref().map(|then| &then.hash) {
        return Err(nobody());
    }
    let admin = current.is_some_and(|known| known.admin) || caller.has(Scope::Admin);
    let let_in_by = authority.let_in_by.clone();
    let set = Set {
        principal_id: person,
        hash: &password_hash,
        admin,
        own: true,
        by: person,
        let_in_by: let_in_by.clone(),
    };
    let (conn, log) = work.parts();
    replace(ctx, conn, log, &set).await?;
    let ask = ask(&scopes(admin), BROWSER, BROWSER_SECONDS, log.now());
    let authority = Authority { basis: Basis::OwnPassword, let_in_by };
    let login = Login { presented: &presented, hashed: &hashed, opened_by: "password", authority };
    let made = open(ctx, conn, log, person, ask, login).await?;
    work.commit().await?;
    keys::refresh(ctx).await?;
    Ok(NewKey { key: made, secret: Some(Secret(presented.reveal())) })
}

/// A password to store.
struct Set<'a> {
    principal_id: &'a str,
    hash: &'a str,
    admin: bool,
    /// Whether the person chose it.
    own: bool,
    by: &'a str,
    let_in_by: Option<String>,
}

/// Stores a new password and records it in the system log.
async fn replace(ctx: &Ctx, conn: &mut PgConnection, log: &mut IntentLog, set: &Set<'_>) -> Outcome<()> {
    let now = log.now();
    let payload = json!({
        "principal_id": set.principal_id, "admin": set.admin, "own": set.own, "let_in_by": set.let_in_by,
    });
    log.record(ctx, Draft::of(EventKind::PasswordSet, set.by, payload));
    save_password(conn, set, now).await?;
    // The old password may have leaked: everything it opened, or that was created for that person, ends.
    for label in [BROWSER, TERMINAL, PROGRAM] {
        keys::end_labelled(conn, set.principal_id, label, now, log.tail.seq).await?;
    }
    links::void(conn, set.principal_id, now).await
}

/// A stored password.
pub(super) struct Known {
    pub principal_id: String,
    pub hash: String,
    pub admin: bool,
    set_by: String,
    set_at: Timestamp,
    own_at: Option<Timestamp>,
    let_in_by: Option<String>,
}

impl Known {
    pub fn scopes(&self) -> Vec<Scope> {
        scopes(self.admin)
    }

    /// Returns the authority of a login with this password.
    pub fn authority(&self) -> Authority {
        // The previous release updates only `set_at`; then somebody else has set the password.
        let own = self.own_at == Some(self.set_at);
        let other = Some(self.set_by.clone()).filter(|by| !own && *by != self.principal_id);
        let basis = if own { Basis::OwnPassword } else { Basis::GivenPassword };
        Authority { basis, let_in_by: other.or_else(|| self.let_in_by.clone()) }
    }
}

pub(super) async fn password_of(conn: &mut PgConnection, principal_id: &str) -> Outcome<Option<Known>> {
    let known = sqlx::query_as!(
        Known,
        "-- people::password_of
         SELECT principal_id, hash, admin, set_by, set_at, own_at, let_in_by FROM passwords WHERE principal_id = $1",
        principal_id
    );
    Ok(known.fetch_optional(conn).await?)
}

async fn save_password(conn: &mut PgConnection, set: &Set<'_>, now: Timestamp) -> Outcome<()> {
    sqlx::query!(
        "-- people::save_password
         INSERT INTO passwords (principal_id, hash, admin, set_by, set_at, own_at, let_in_by)
         VALUES ($1, $2, $3, $4, $5, $6, $7)
         ON CONFLICT (principal_id) DO UPDATE SET hash = excluded.hash, admin = excluded.admin,
             set_by = excluded.set_by, set_at = excluded.set_at, own_at = excluded.own_at, let_in_by = excluded.let_in_by",
        set.principal_id,
        set.hash,
        set.admin,
        set.by,
        now,
        set.own.then_some(now),
        set.let_in_by
    )
    .execute(conn)
    .await?;
    Ok(())
}
