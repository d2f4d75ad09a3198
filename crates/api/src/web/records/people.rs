//! Principals: the list, and one of them with its keys, its contact points and the questions to it. A key is revoked here.

use actix_web::http::StatusCode;
use actix_web::web;
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::{Key, Scope};
use entente_domain::identity::principals::Principal;
use entente_domain::ids::KeyId;
use entente_domain::refusal::Refusal;
use entente_domain::subjects::{Subject, SubjectKind};
use entente_kernel::Outcome;
use entente_kernel::identity::quotas::QuotaView;
use entente_kernel::identity::{keys, principals, quotas};
use entente_kernel::notifications::{Contact, contact_points};
use entente_moments::{self as moments, MomentFilter};
use serde::Deserialize;

use super::{
    Action, Button, Item, Link, Listing, Record, STEP, Section, query, question_item, unless_refused,
};
use crate::ApiState;
use crate::web::guard::{Form, PageResult, Visitor, concluded};
use crate::web::shell::{Place, Shell};
use crate::web::words::When;
use crate::web::{page, see};

pub fn routes(config: &mut web::ServiceConfig) {
    config
        .route("/people", web::get().to(list))
        .route("/person", web::get().to(show))
        .route("/person/revoke", web::post().to(revoke));
}

/// Returns the path of a principal's page.
fn path(id: &str) -> String {
    query("/person", &[("id", id)])
}

#[derive(Deserialize)]
struct Asked {
    after: Option<String>,
}

async fn list(api: web::Data<ApiState>, visitor: Visitor, asked: web::Query<Asked>) -> PageResult {
    let (ctx, caller) = (&api.ctx, &visitor.caller);
    let is_admin = caller.has(Scope::Admin);
    // The operations say so too: whoever is no admin reads its own record alone.
    let found = if is_admin {
        principals::list(ctx, caller, asked.after.as_deref(), STEP).await?
    } else {
        vec![principals::get(ctx, caller, caller.principal()).await?]
    };
    let is_full = u32::try_from(found.len()).is_ok_and(|count| count == STEP);
    let last = found.last().filter(|_| is_full);
    let shown = Listing {
        shell: Shell::of(&visitor, "People and programs", Place::Dashboard),
        title: "People and programs",
        about: if is_admin { "All that have keys, by name" } else { "You" }.to_owned(),
        path: "/people",
        fields: Vec::new(),
        fault: None,
        next: last.map(|last| query("/people", &[("after", &last.id)])),
        items: found.iter().map(|one| item(one, ctx.now())).collect(),
        empty: "Nobody.",
    };
    Ok(page(StatusCode::OK, &shown))
}

fn item(one: &Principal, now: Timestamp) -> Item {
    Item {
        head: Some(Link::to(one.id.clone(), path(&one.id))),
        pill: Some(one.kind.as_str().to_owned()),
        about: one.display_name.clone().unwrap_or_default(),
        at: Some(When::new(one.created_at, now)),
        ..Item::default()
    }
}

#[derive(Deserialize)]
struct Named {
    id: String,
    after: Option<String>,
}

async fn show(api: web::Data<ApiState>, visitor: Visitor, asked: web::Query<Named>) -> PageResult {
    let after = asked.after.as_deref().and_then(|text| text.parse().ok());
    Ok(page(StatusCode::OK, &load(&api, &visitor, &asked.id, after, None).await?))
}

async fn load(
    api: &ApiState,
    visitor: &Visitor,
    id: &str,
    after: Option<KeyId>,
    fault: Option<String>,
) -> Outcome<Record> {
    let (ctx, caller) = (&api.ctx, &visitor.caller);
    let now = ctx.now();
    let principal = principals::get(ctx, caller, id).await?;
    let found = unless_refused(keys::list(ctx, caller, id, after, STEP).await)?;
    let is_full = u32::try_from(found.len()).is_ok_and(|count| count == STEP);
    let next = found
        .last()
        .filter(|_| is_full)
        .map(|last| Link::to("Later keys", query("/person", &[("id", id), ("after", &last.id.to_string())])));
    let of_keys = found.iter().map(|key| key_item(key, now)).collect();
    let filter = MomentFilter { principal: Some(id.to_owned()), limit: STEP, ..MomentFilter::default() };
    let (asked, _) = unless_refused(moments::list(&ctx.moments, caller, &filter).await)?;
    let asked = asked.iter().map(|one| question_item(one, now)).collect();
    let told = unless_refused(contact_points::list(ctx, caller, id).await)?;
    let told = told.iter().map(|contact| contact_item(contact, now)).collect();
    let links = vec![
        Link::to("as an agent", super::agent_path(id)),
        Link::to("jobs", query("/jobs", &[("principal", id)])),
        Link::to("intents", query("/intents", &[("created_by", id)])),
    ];
    let mut facts = vec![
        ("Created by", vec![Link::to(principal.created_by.clone(), path(&principal.created_by))]),
        ("Created", vec![Link::plain(When::new(principal.created_at, now).near)]),
        ("Its", links),
    ];
    let quotas = quotas::get(ctx, caller, Subject::of(SubjectKind::Principal, id)).await?;
    facts.extend(quota_words(&quotas).map(|words| ("Quotas", vec![Link::plain(words)])));
    Ok(Record {
        shell: Shell::of(visitor, id, Place::Dashboard).at(path(id)),
        up: Link::to("People and programs", "/people"),
        title: id.to_owned(),
        status: Some(principal.kind.as_str().to_owned()),
        about: principal.display_name.unwrap_or_default(),
        fault,
        text: None,
        facts,
        actions: Vec::new(),
        sections: vec![
            Section { next, ..Section::new("keys", "Keys", "No keys.", of_keys) },
            Section::new("told", "Where it is told what waits", "Nowhere that you may see.", told),
            Section::new("questions", "Questions to it", "None that you may see.", asked),
        ],
    })
}

fn contact_item(contact: &Contact, now: Timestamp) -> Item {
    let state = match &contact.disabled {
        Some((_, reason)) => format!("off: {reason}"),
        None if contact.confirmed_at.is_none() => "not confirmed".to_owned(),
        None if contact.health.failures > 0 => "failing".to_owned(),
        None => "on".to_owned(),
    };
    let kind = contact.address.kind.as_str().replace('_', " ");
    Item {
        head: Some(Link::plain(format!("{kind}: {}", contact.address.masked()))),
        pill: Some(state),
        about: contact.label.clone().unwrap_or_default(),
        at: Some(When::new(contact.health.last_sent_at.unwrap_or(contact.created_at), now)),
        ..Item::default()
    }
}

/// Returns a principal's quotas with their use, if it has any.
fn quota_words(view: &QuotaView) -> Option<String> {
    let quota = view.quota;
    let limits = [
        (quota.open_requests, Some(view.open_requests), "requests under way"),
        (quota.bytes_per_minute, view.bytes, "bytes in a minute"),
        (quota.storage_bytes, view.stored, "bytes stored"),
    ];
    let words = limits.into_iter().filter(|one| one.0 > 0).map(|one| {
        let (limit, used, noun) = one;
        let used = used.map_or_else(|| "not counted yet".to_owned(), |used| used.to_string());
        format!("{used} of {limit} {noun}")
    });
    let words: Vec<String> = words.collect();
    (!words.is_empty()).then(|| words.join(" · "))
}

fn key_item(key: &Key, now: Timestamp) -> Item {
    let state = match (key.revoked_at, key.in_force(now)) {
        (Some(_), _) => "revoked",
        (None, true) => "active",
        (None, false) => "expired",
    };
    let used = key.last_used_at.map_or_else(|| "never".to_owned(), |at| When::new(at, now).near);
    let button = Button { name: "key", value: key.id.to_string(), label: format!("Revoke {}", key.id) };
    let action = Action {
        path: "/person/revoke".to_owned(),
        fields: vec![("id", key.principal_id.clone())],
        asks: None,
        buttons: vec![button],
    };
    Item {
        head: Some(Link::plain(key.label.clone().unwrap_or_else(|| key.id.to_string()))),
        pill: Some(state.to_owned()),
        about: format!("by {} · last used {used}", key.created_by),
        at: Some(When::new(key.created_at, now)),
        action: (state == "active").then_some(action),
        ..Item::default()
    }
}

#[derive(Deserialize)]
struct RevokeForm {
    id: String,
    key: String,
}

async fn revoke(api: web::Data<ApiState>, form: Form<RevokeForm>) -> PageResult {
    let RevokeForm { id, key } = form.fields;
    let key = key.parse::<KeyId>().map_err(|_no_id| Refusal::not_found("key"))?;
    match concluded(keys::revoke(&api.ctx, &form.visitor.caller, key).await)? {
        Ok(_key) => Ok(see(&path(&id)).finish()),
        Err(refused) => {
            Ok(page(refused.status, &load(&api, &form.visitor, &id, None, Some(refused.message)).await?))
        }
    }
}
