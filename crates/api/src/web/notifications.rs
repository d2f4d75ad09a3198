//! The page on which a person sets where they are told what waits for them, and when: their contact points, with a form for
//! each, and the subscription of this browser to push messages (`assets/push.js` shows them).

use actix_web::http::StatusCode;
use actix_web::web;
use askama::Template;
use entente_domain::clock::Timestamp;
use entente_domain::ids::ContactId;
use entente_domain::inbox::quiet::QuietHours;
use entente_domain::notifications::{Address, ContactKind, ContactSettings, Digest, PushKeys, Topic};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::Outcome;
use entente_kernel::notifications::Contact;
use entente_kernel::notifications::contact_points::{self, ContactAsk, ContactChange};
use serde::Deserialize;

use super::guard::{Form, PageResult, Visitor, concluded};
use super::shell::{Place, Shell};
use super::words::When;
use super::{page, see};
use crate::ApiState;

/// Registers the routes of this file.
pub fn routes(config: &mut web::ServiceConfig) {
    config.route("/notifications", web::get().to(show)).route("/notifications", web::post().to(create));
    config.route("/notifications/{id}", web::post().to(change));
}

/// Path of the page.
const PATH: &str = "/notifications";

/// Kinds that are created by writing down an address, each with a description of its address.
const WRITTEN: [(ContactKind, &str); 4] = [
    (ContactKind::Mail, "Mail: an address"),
    (ContactKind::Slack, "Slack: the URL of an incoming webhook"),
    (ContactKind::Teams, "Teams: the URL of a workflow that a webhook request starts"),
    (ContactKind::Ntfy, "ntfy: the URL of a topic"),
];

#[derive(Template)]
#[template(path = "notifications.html")]
struct NotificationsPage {
    shell: Shell,
    fault: Option<String>,
    contacts: Vec<ContactCard>,
    kinds: Vec<KindOption>,
    /// The new contact point, as it was sent and refused.
    new: ContactForm,
    push_key: String,
}

struct KindOption {
    kind: &'static str,
    about: &'static str,
    is_chosen: bool,
}

/// A contact point.
struct ContactCard {
    id: ContactId,
    kind: &'static str,
    name: String,
    state: &'static str,
    /// State in words, beside the pill.
    note: Option<String>,
    needs_code: bool,
    is_on: bool,
    created: When,
    form: ContactForm,
}

/// How a topic is told, in a form.
struct TopicChoice {
    name: &'static str,
    about: &'static str,
    mode: &'static str,
}

/// Settings of a contact point, as a form sends them.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct ContactForm {
    verb: String,
    kind: String,
    address: String,
    label: String,
    p256dh: String,
    auth: String,
    code: String,
    decision: String,
    approval: String,
    inbox: String,
    digest_at: String,
    quiet_from: String,
    quiet_to: String,
    quiet_except: String,
    time_zone: String,
    after_minutes: String,
    remind_minutes: String,
    quotes: String,
}

const NOW: &str = "now";
const DIGEST: &str = "digest";
const NEVER: &str = "never";

impl ContactForm {
    fn of(contact: &Contact) -> Self {
        let settings = &contact.settings;
        let mode = |topic: Topic| {
            let is_collected = settings.digest.as_ref().is_some_and(|one| one.topics.contains(&topic));
            match (settings.topics.contains(&topic), is_collected) {
                (true, _) => NOW.to_owned(),
                (false, true) => DIGEST.to_owned(),
                (false, false) => NEVER.to_owned(),
            }
        };
        let quiet = settings.quiet_hours.as_ref();
        let zone = settings.zone().name().to_owned();
        let has_zone = quiet.is_some() || settings.digest.is_some();
        Self {
            label: contact.label.clone().unwrap_or_default(),
            decision: mode(Topic::Decision),
            approval: mode(Topic::Approval),
            inbox: mode(Topic::Inbox),
            digest_at: settings.digest.as_ref().map(|one| one.at.join(", ")).unwrap_or_default(),
            quiet_from: quiet.map(|hours| hours.from.clone()).unwrap_or_default(),
            quiet_to: quiet.map(|hours| hours.to.clone()).unwrap_or_default(),
            quiet_except: quiet.map(|hours| hours.except.join(", ")).unwrap_or_default(),
            time_zone: if has_zone { zone } else { String::new() },
            after_minutes: minutes(settings.after_seconds),
            remind_minutes: settings.remind_seconds.map(minutes).unwrap_or_default(),
            quotes: if settings.quotes(contact.address.kind) { "on".to_owned() } else { String::new() },
            ..Self::default()
        }
    }

    fn fresh() -> Self {
        let now = || NOW.to_owned();
        Self { decision: now(), approval: now(), inbox: NEVER.to_owned(), ..Self::default() }
    }

    /// Returns the choices of a topic for the template.
    fn topics(&self) -> [TopicChoice; 3] {
        let mode = |text: &str| match text {
            NOW => NOW,
            DIGEST => DIGEST,
            _ => NEVER,
        };
        [
            TopicChoice { name: "decision", about: "Decisions that wait for me", mode: mode(&self.decision) },
            TopicChoice {
                name: "approval",
                about: "Tasks that wait for an approval",
                mode: mode(&self.approval),
            },
            TopicChoice {
                name: "inbox",
                about: "Messages and jobs in my own inbox that should wake me",
                mode: mode(&self.inbox),
            },
        ]
    }

    /// Returns the settings; `quotes` is the meaning of a form without the choice.
    fn settings(&self, quotes: Option<bool>) -> Result<ContactSettings, Refusal> {
        let chosen = [
            (Topic::Decision, &self.decision),
            (Topic::Approval, &self.approval),
            (Topic::Inbox, &self.inbox),
        ];
        let in_mode = |wanted: &str| -> Vec<Topic> {
            chosen.iter().filter(|(_, mode)| mode.as_str() == wanted).map(|(topic, _)| *topic).collect()
        };
        let zone = self.time_zone.trim();
        let time_zone = if zone.is_empty() { "UTC" } else { zone }.to_owned();
        let collected = in_mode(DIGEST);
        let digest = (!collected.is_empty()).then(|| Digest {
            topics: collected,
            at: listed(&self.digest_at),
            time_zone: time_zone.clone(),
        });
        let (from, to) = (self.quiet_from.trim().to_owned(), self.quiet_to.trim().to_owned());
        let has_hours = !from.is_empty() || !to.is_empty();
        let quiet_hours =
            has_hours.then(|| QuietHours { from, to, time_zone, except: listed(&self.quiet_except) });
        Ok(ContactSettings {
            topics: in_mode(NOW),
            digest,
            quiet_hours,
            after_seconds: seconds(&self.after_minutes, "Wait first")?.unwrap_or(0),
            remind_seconds: seconds(&self.remind_minutes, "Remind me")?,
            quotes,
        })
    }
}

fn minutes(seconds: u32) -> String {
    if seconds == 0 { String::new() } else { seconds.div_ceil(60).to_string() }
}

/// Parses a number of minutes as seconds; `None` if the field is empty.
fn seconds(text: &str, field: &str) -> Result<Option<u32>, Refusal> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let parsed = text.parse::<u32>().ok().and_then(|minutes| minutes.checked_mul(60));
    parsed.map(Some).ok_or_else(|| {
        Refusal::new(Code::InvalidRequest, format!("“{field}” is a number of minutes, such as 10."))
    })
}

fn listed(text: &str) -> Vec<String> {
    text.split([',', ' ']).map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn kind_name(kind: ContactKind) -> &'static str {
    match kind {
        ContactKind::Mail => "Mail",
        ContactKind::Slack => "Slack",
        ContactKind::Teams => "Teams",
        ContactKind::Ntfy => "ntfy",
        ContactKind::WebPush => "Push to a browser",
    }
}

fn card(contact: &Contact, now: Timestamp) -> ContactCard {
    let health = &contact.health;
    let why = |reason: &str| match reason {
        "gone" => "its receiver says that it is gone".to_owned(),
        "failing" => "it failed for days".to_owned(),
        _ => "you have switched it off".to_owned(),
    };
    let last = health.last_error.clone().unwrap_or_default();
    let (state, note) = match (&contact.disabled, contact.confirmed_at, health.failures) {
        (Some((_, reason)), _, _) if last.is_empty() => ("off", Some(why(reason))),
        (Some((_, reason)), _, _) => ("off", Some(format!("{}: {last}", why(reason)))),
        (None, None, 0) => ("unconfirmed", Some("enter the code that was sent there".to_owned())),
        (None, _, 1..) => ("failing", Some(format!("{last}; it is tried again"))),
        (None, Some(_), 0) => {
            ("on", health.last_sent_at.map(|at| format!("last told {}", When::new(at, now).near)))
        }
    };
    let address = contact.address.masked();
    ContactCard {
        id: contact.id,
        kind: kind_name(contact.address.kind),
        name: contact.label.as_ref().map_or_else(|| address.clone(), |label| format!("{label} ({address})")),
        state,
        note,
        needs_code: contact.confirmed_at.is_none() && contact.disabled.is_none(),
        is_on: contact.is_told(),
        created: When::new(contact.created_at, now),
        form: ContactForm::of(contact),
    }
}

/// A form that was refused: the contact point, `None` for a new one, with the input and the reason.
struct Refused {
    id: Option<ContactId>,
    form: ContactForm,
    message: String,
}

async fn show(api: web::Data<ApiState>, visitor: Visitor) -> PageResult {
    render(&api, &visitor, StatusCode::OK, None).await
}

async fn render(
    api: &ApiState,
    visitor: &Visitor,
    status: StatusCode,
    refused: Option<Refused>,
) -> PageResult {
    let (ctx, caller) = (&api.ctx, &visitor.caller);
    let found = contact_points::list(ctx, caller, caller.principal()).await?;
    let mut contacts: Vec<ContactCard> = found.iter().map(|one| card(one, ctx.now())).collect();
    let (mut new, mut fault) = (ContactForm::fresh(), None);
    if let Some(Refused { id, form, message }) = refused {
        fault = Some(message);
        match id.and_then(|id| contacts.iter_mut().find(|one| one.id == id)) {
            Some(shown) => shown.form = form,
            None => new = form,
        }
    }
    let sends_mail = ctx.notifications.sends_mail;
    let kinds = WRITTEN.iter().filter(|(kind, _)| sends_mail || *kind != ContactKind::Mail);
    let kinds = kinds.map(|(kind, about)| KindOption {
        kind: kind.as_str(),
        about,
        is_chosen: kind.as_str() == new.kind,
    });
    let shell = Shell::of(visitor, "What you are told", Place::Elsewhere).at(PATH);
    let push_key = ctx.notifications.push_key.public().to_owned();
    Ok(page(status, &NotificationsPage { shell, fault, contacts, kinds: kinds.collect(), new, push_key }))
}

async fn create(api: web::Data<ApiState>, form: Form<ContactForm>) -> PageResult {
    let Form { visitor, fields } = form;
    let done = make(&api, &visitor, &fields).await;
    conclude(&api, &visitor, None, fields, done).await
}

async fn make(api: &ApiState, visitor: &Visitor, form: &ContactForm) -> Outcome<()> {
    let caller = &visitor.caller;
    let kind = ContactKind::parse(&form.kind)
        .ok_or_else(|| Refusal::new(Code::InvalidRequest, "Choose what kind of address it is."))?;
    let push_keys = (kind == ContactKind::WebPush)
        .then(|| PushKeys { p256dh: form.p256dh.clone(), auth: form.auth.clone() });
    let label = Some(form.label.trim().to_owned()).filter(|label| !label.is_empty());
    let address = Address { kind, text: form.address.trim().to_owned(), push_keys };
    let ask = ContactAsk { address, label, settings: form.settings(None)? };
    contact_points::create(&api.ctx, caller, caller.principal(), ask, None).await?;
    Ok(())
}

async fn change(api: web::Data<ApiState>, path: web::Path<String>, form: Form<ContactForm>) -> PageResult {
    let Form { visitor, fields } = form;
    let id: ContactId = entente_http::body::id("contact point", &path)
        .map_err(|_fault| Refusal::new(Code::NotFound, "There is no such contact point."))?;
    let done = apply(&api, &visitor, id, &fields).await;
    conclude(&api, &visitor, Some(id), fields, done).await
}

async fn apply(api: &ApiState, visitor: &Visitor, id: ContactId, form: &ContactForm) -> Outcome<()> {
    let (ctx, caller) = (&api.ctx, &visitor.caller);
    let switched = |active| ContactChange { active: Some(active), ..ContactChange::default() };
    match form.verb.as_str() {
        "confirm" => contact_points::confirm(ctx, caller, id, &form.code).await.map(drop),
        "test" => contact_points::test(ctx, caller, id).await.map(drop),
        "on" => contact_points::change(ctx, caller, id, switched(true)).await.map(drop),
        "off" => contact_points::change(ctx, caller, id, switched(false)).await.map(drop),
        "remove" => contact_points::remove(ctx, caller, id).await,
        _ => {
            let settings = Some(form.settings(Some(form.quotes == "on"))?);
            let label = Some(form.label.trim().to_owned());
            let change = ContactChange { label, settings, active: None };
            contact_points::change(ctx, caller, id, change).await.map(drop)
        }
    }
}

/// Redirects to the page; after a refusal, renders it with the reason and the input.
async fn conclude(
    api: &ApiState,
    visitor: &Visitor,
    id: Option<ContactId>,
    form: ContactForm,
    done: Outcome<()>,
) -> PageResult {
    match concluded(done)? {
        Ok(()) => Ok(see(PATH).finish()),
        Err(refused) => {
            let refusal = Refused { id, form, message: refused.message };
            render(api, visitor, refused.status, Some(refusal)).await
        }
    }
}
