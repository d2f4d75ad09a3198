//! Operations on contact points. Only the person themselves changes them, with a login of their own: whoever sets where a
//! person is told, and when, could keep a decision from them. An admin sees that there are some, and may remove them.

use chrono::TimeDelta;
use entente_domain::clock::plus_seconds;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{Chance, ContactId, IntentId};
use entente_domain::log::events::{Draft, Kind};
use entente_domain::notifications::{
    Address, CODE_SECONDS, CODE_TRIES, CONTACTS, ContactKind, ContactSettings, Reason, check_label,
};
use entente_domain::refusal::{Code, Refusal};
use serde_json::json;

use super::queue;
use super::rows::{self, Contact, ContactHealth};
use crate::{Caller, Ctx, IntentTx, Outcome, not_found};

/// Seconds for which a removed contact point counts as one of its person's: otherwise one could have a server send mail after
/// mail to addresses that never confirm them.
pub const COUNTED_SECONDS: i64 = 24 * 3_600;

/// Digits of a code.
const CODE_MODULUS: u128 = 100_000_000;

/// A contact point to create.
#[derive(Debug, Clone)]
pub struct ContactAsk {
    /// Where it is reached.
    pub address: Address,
    /// A name for it.
    pub label: Option<String>,
    /// The topics and times of its notifications.
    pub settings: ContactSettings,
}

/// A change of a contact point; members that are `None` stay.
#[derive(Debug, Clone, Default)]
pub struct ContactChange {
    /// Its name.
    pub label: Option<String>,
    /// The topics and times of its notifications.
    pub settings: Option<ContactSettings>,
    /// Whether it is told at all.
    pub active: Option<bool>,
}

/// Creates a contact point. A mail address is told nothing until the person confirms it with the code that is sent there.
///
/// # Errors
/// The caller is not that person; the address is invalid; there are too many; the server sends no mail.
pub async fn create(
    ctx: &Ctx,
    caller: &Caller,
    person: &str,
    ask: ContactAsk,
    once: Option<&Idempotency>,
) -> Outcome<Contact> {
    require_own(caller, person)?;
    let webhooks = &ctx.settings.webhooks;
    ask.address.check(&webhooks.allowed, webhooks.https_only)?;
    ask.settings.check()?;
    check_label(ask.label.as_deref().unwrap_or_default())?;
    if ask.address.kind == ContactKind::Mail && !ctx.notifications.sends_mail {
        let message = "This server sends no mail: its operator sets ENTENTE_SMTP_URL and ENTENTE_SMTP_FROM. Use another kind.";
        return Err(Refusal::field(Code::Unprocessable, "kind", "value", message).into());
    }
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, once).await?;
    if let Some(id) = work.repeated::<ContactId>()? {
        return rows::find(work.conn(), id).await?.ok_or_else(|| not_found("contact point"));
    }
    let now = work.now();
    let since = now - TimeDelta::seconds(COUNTED_SECONDS);
    if rows::count(work.conn(), person, since).await? >= CONTACTS {
        let message = format!(
            "You have {CONTACTS} contact points, as many as a person may; removed ones count for a day. Remove one, or wait."
        );
        return Err(Refusal::new(Code::Unprocessable, message).into());
    }
    let needs_code = ask.address.kind.needs_confirmation();
    let contact = Contact {
        id: ContactId::mint(now, &*ctx.chance),
        person: person.to_owned(),
        label: ask.label,
        settings: ask.settings,
        created_at: now,
        confirmed_at: (!needs_code).then_some(now),
        code: needs_code.then(|| code(&*ctx.chance)),
        code_tries: 0,
        disabled: None,
        health: ContactHealth::default(),
        address: ask.address,
    };
    rows::insert(work.conn(), &contact).await?;
    if let Some(code) = &contact.code {
        let confirmation = queue::New::of_contact(contact.id, Reason::Confirmation, code.clone(), now);
        queue::insert(work.conn(), &[confirmation], now).await?;
    }
    work.record(event_draft(Kind::ContactCreated, &contact, &caller.agent));
    work.finish(contact.id).await?;
    ctx.notifications.wake();
    Ok(contact)
}

fn code(chance: &dyn Chance) -> String {
    format!("{:08}", chance.bits() % CODE_MODULUS)
}

/// Lists a person's contact points, oldest first.
///
/// # Errors
/// The caller is neither that person nor an admin.
pub async fn list(ctx: &Ctx, caller: &Caller, person: &str) -> Outcome<Vec<Contact>> {
    require_reader(caller, person)?;
    rows::of_person(&mut *ctx.pool.acquire().await?, person).await
}

/// Returns a contact point.
///
/// # Errors
/// The caller is neither its person nor an admin.
pub async fn get(ctx: &Ctx, caller: &Caller, id: ContactId) -> Outcome<Contact> {
    let found = rows::find(&mut *ctx.pool.acquire().await?, id).await?;
    let found = found.filter(|contact| require_reader(caller, &contact.person).is_ok());
    found.ok_or_else(|| not_found("contact point"))
}

/// Changes a contact point. Switching on one that was disabled makes it due again.
///
/// # Errors
/// The caller is not its person; the settings are invalid.
pub async fn change(ctx: &Ctx, caller: &Caller, id: ContactId, change: ContactChange) -> Outcome<Contact> {
    let ContactChange { label, settings, active } = change;
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, None).await?;
    let mut contact = own(&mut work, caller, id).await?;
    let now = work.now();
    if let Some(label) = label {
        check_label(&label)?;
        contact.label = Some(label).filter(|label| !label.is_empty());
    }
    if let Some(settings) = settings {
        settings.check()?;
        contact.settings = settings;
    }
    match active {
        Some(true) if contact.disabled.is_some() => {
            contact.disabled = None;
            contact.health =
                ContactHealth { last_sent_at: contact.health.last_sent_at, ..ContactHealth::default() };
            rows::save_health(work.conn(), &contact).await?;
            rows::poke(work.conn(), &[(id, now)]).await?;
        }
        Some(false) if contact.disabled.is_none() => {
            contact.disabled = Some((now, "by its person".to_owned()));
        }
        _ => {}
    }
    rows::save(work.conn(), &contact).await?;
    work.record(event_draft(Kind::ContactChanged, &contact, &caller.agent));
    work.commit().await?;
    ctx.notifications.wake();
    Ok(contact)
}

/// Confirms a contact point with the code that was sent there; one that is confirmed stays as it is.
///
/// # Errors
/// The caller is not its person; the code is another, was tried too often, or is too old.
pub async fn confirm(ctx: &Ctx, caller: &Caller, id: ContactId, code: &str) -> Outcome<Contact> {
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, None).await?;
    let mut contact = own(&mut work, caller, id).await?;
    let now = work.now();
    let Some(expected) = contact.code.clone().filter(|_| contact.confirmed_at.is_none()) else {
        return Ok(contact);
    };
    let fault = |message: &str| Refusal::field(Code::Unprocessable, "code", "value", message);
    if contact.code_tries >= CODE_TRIES || now > plus_seconds(contact.created_at, CODE_SECONDS) {
        let message = "This code can no longer be used. Remove the contact point and create it again.";
        return Err(fault(message).into());
    }
    let digits: String = code.chars().filter(char::is_ascii_digit).collect();
    if digits != expected {
        contact.code_tries += 1;
        rows::save(work.conn(), &contact).await?;
        work.commit().await?;
        let message =
            "This is not the code that was sent there. Look at the newest message from this server.";
        return Err(fault(message).into());
    }
    (contact.confirmed_at, contact.code) = (Some(now), None);
    rows::save(work.conn(), &contact).await?;
    work.record(event_draft(Kind::ContactChanged, &contact, &caller.agent));
    work.commit().await?;
    Ok(contact)
}

/// Queues a message to try a contact point.
///
/// # Errors
/// The caller is not its person; it is not confirmed, or disabled.
pub async fn test(ctx: &Ctx, caller: &Caller, id: ContactId) -> Outcome<Contact> {
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, None).await?;
    let contact = own(&mut work, caller, id).await?;
    if !contact.is_told() {
        let message = "Nothing is sent to this contact point: confirm it, or switch it on, first.";
        return Err(Refusal::new(Code::Unprocessable, message).into());
    }
    let now = work.now();
    // However often one tries, one message within the time that messages have between them anyway.
    let subject = (now.timestamp() / i64::from(entente_domain::notifications::SPACING_SECONDS)).to_string();
    let test = queue::New::of_contact(id, Reason::Test, subject, now);
    queue::insert(work.conn(), &[test], now).await?;
    work.commit().await?;
    ctx.notifications.wake();
    Ok(contact)
}

/// Removes a contact point.
///
/// # Errors
/// The caller is neither its person nor an admin.
pub async fn remove(ctx: &Ctx, caller: &Caller, id: ContactId) -> Outcome<()> {
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, None).await?;
    let found = rows::find(work.conn(), id).await?;
    let found =
        found.filter(|contact| require_own(caller, &contact.person).is_ok() || caller.has(Scope::Admin));
    let contact = found.ok_or_else(|| not_found("contact point"))?;
    let now = work.now();
    rows::remove(work.conn(), id, now).await?;
    work.record(event_draft(Kind::ContactRemoved, &contact, &caller.agent));
    work.commit().await
}

/// Loads a contact point of the caller's own; any other counts as missing.
async fn own(work: &mut IntentTx<'_>, caller: &Caller, id: ContactId) -> Outcome<Contact> {
    caller.require(Scope::MomentsWrite)?;
    let found = rows::find(work.conn(), id).await?;
    let found = found.filter(|contact| require_reader(caller, &contact.person).is_ok());
    let contact = found.ok_or_else(|| not_found("contact point"))?;
    require_own(caller, &contact.person)?;
    Ok(contact)
}

fn require_own(caller: &Caller, person: &str) -> Outcome<()> {
    caller.require(Scope::MomentsWrite)?;
    if caller.principal() != person {
        require_reader(caller, person)?;
        let message = "Only the person themselves sets where they are told.";
        return Err(Refusal::new(Code::NotThePrincipal, message).into());
    }
    Ok(caller.require_person()?)
}

/// Requires the person themselves or an admin; to anybody else the person's contact points are missing.
fn require_reader(caller: &Caller, person: &str) -> Outcome<()> {
    caller.require(Scope::MomentsRead)?;
    let own = caller.principal() == person && caller.is_itself();
    if own || caller.has(Scope::Admin) { Ok(()) } else { Err(not_found("person")) }
}

/// Builds the event of a change to a contact point; it omits the address, which may be a secret.
pub(super) fn event_draft(kind: Kind, contact: &Contact, actor: &str) -> Draft {
    let payload = json!({
        "contact_point_id": contact.id, "principal_id": contact.person, "kind": contact.address.kind,
        "confirmed": contact.confirmed_at.is_some(),
        "disabled": contact.disabled.as_ref().map(|(_, reason)| reason.as_str()),
    });
    Draft::of(kind, actor, payload)
}
