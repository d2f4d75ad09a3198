//! Webhooks: the visitor's subscriptions, and one of them with its deliveries. A URL is shown by its host: the rest may be secret.

use actix_web::http::StatusCode;
use actix_web::web;
use entente_domain::clock::Timestamp;
use entente_domain::ids::EndpointId;
use entente_domain::refusal::Refusal;
use entente_domain::webhooks::Endpoint;
use entente_kernel::overview::url_host;
use entente_kernel::webhooks::deliveries::{self, Delivery, DeliveryFilter, Health};
use entente_kernel::webhooks::endpoints::{self, EndpointFilter, EndpointView};
use serde::Deserialize;

use super::{Item, Link, Listing, Record, STEP, Section, given, query, spoken};
use crate::ApiState;
use crate::web::guard::{PageResult, Visitor};
use crate::web::page;
use crate::web::shell::{Place, Shell};
use crate::web::words::When;

pub fn routes(config: &mut web::ServiceConfig) {
    config.route("/webhooks", web::get().to(list)).route("/webhooks/{id}", web::get().to(show));
}

#[derive(Deserialize)]
struct Asked {
    after: Option<String>,
}

async fn list(api: web::Data<ApiState>, visitor: Visitor, asked: web::Query<Asked>) -> PageResult {
    let (ctx, caller) = (&api.ctx, &visitor.caller);
    let after = asked.after.as_deref().and_then(|text| text.parse().ok());
    let filter = EndpointFilter { after, limit: STEP, ..EndpointFilter::default() };
    let found = endpoints::list(ctx, caller, &filter).await?;
    let is_full = u32::try_from(found.len()).is_ok_and(|count| count == STEP);
    let last = found.last().filter(|_| is_full).map(|last| last.endpoint.id.to_string());
    let shown = Listing {
        shell: Shell::of(&visitor, "Webhooks", Place::Dashboard),
        title: "Webhooks",
        about: "Your subscriptions, the oldest first".to_owned(),
        path: "/webhooks",
        fields: Vec::new(),
        fault: None,
        next: last.map(|last| query("/webhooks", &[("after", &last)])),
        items: found.iter().map(|view| item(view, ctx.now())).collect(),
        empty: "You have no subscriptions.",
    };
    Ok(page(StatusCode::OK, &shown))
}

fn host(endpoint: &Endpoint) -> String {
    match (endpoint.sink(), &endpoint.url) {
        (Some(sink), _) => format!("sink {}", sink.name),
        (None, Some(url)) => url_host(url),
        (None, None) => "without a URL".to_owned(),
    }
}

fn state(endpoint: &Endpoint, health: &Health) -> &'static str {
    match (&endpoint.disabled, health.failures) {
        (Some(_), _) => "disabled",
        (None, 0) => "active",
        (None, _) => "failed",
    }
}

fn item(view: &EndpointView, now: Timestamp) -> Item {
    let endpoint = &view.endpoint;
    Item {
        head: Some(Link::to(host(endpoint), format!("/webhooks/{}", endpoint.id))),
        pill: Some(state(endpoint, &view.health).to_owned()),
        about: format!("for {} · {} failures in a row", endpoint.agent_id, view.health.failures),
        links: endpoint.intent_id.map(Link::intent).into_iter().collect(),
        at: Some(When::new(endpoint.created_at, now)),
        ..Item::default()
    }
}

#[derive(Deserialize)]
struct Part {
    before: Option<String>,
}

async fn show(
    api: web::Data<ApiState>,
    visitor: Visitor,
    path: web::Path<String>,
    part: web::Query<Part>,
) -> PageResult {
    let id = path.parse::<EndpointId>().map_err(|_no_id| Refusal::not_found("endpoint"))?;
    let (ctx, caller) = (&api.ctx, &visitor.caller);
    let now = ctx.now();
    let EndpointView { endpoint, health, secret: _ } = endpoints::get(ctx, caller, id).await?;
    let before = part.before.as_deref().and_then(given);
    let filter = DeliveryFilter { before, limit: STEP, ..DeliveryFilter::default() };
    let found = deliveries::list(ctx, caller, id, &filter).await?;
    let is_full = u32::try_from(found.len()).is_ok_and(|count| count == STEP);
    let next = found
        .last()
        .filter(|_| is_full)
        .map(|last| Link::to("Earlier", query(&format!("/webhooks/{id}"), &[("before", &last.webhook_id)])));
    let items = found.iter().map(|delivery| delivery_item(delivery, now)).collect();
    let record = Record {
        shell: Shell::of(&visitor, host(&endpoint), Place::Dashboard),
        up: Link::to("Webhooks", "/webhooks"),
        title: host(&endpoint),
        status: Some(state(&endpoint, &health).to_owned()),
        about: format!("for {}", endpoint.agent_id),
        fault: None,
        text: None,
        facts: facts(&endpoint, &health, now),
        actions: Vec::new(),
        sections: vec![Section {
            next,
            ..Section::new("line", "Deliveries", "Nothing was sent yet.", items)
        }],
    };
    Ok(page(StatusCode::OK, &record))
}

fn facts(endpoint: &Endpoint, health: &Health, now: Timestamp) -> Vec<(&'static str, Vec<Link>)> {
    let near = |at: Timestamp| vec![Link::plain(When::new(at, now).near)];
    let mut facts = vec![
        ("Endpoint", vec![Link::plain(endpoint.id.to_string())]),
        ("For", vec![Link::agent(&endpoint.agent_id)]),
        ("Created", near(endpoint.created_at)),
    ];
    facts.extend(endpoint.intent_id.map(|id| ("Intent", vec![Link::intent(id)])));
    facts.extend(endpoint.channel_id.map(|id| ("Channel", vec![Link::channel(id)])));
    facts.extend(endpoint.sink().map(|sink| ("Topic", vec![Link::plain(sink.topic)])));
    if !endpoint.event_types.is_empty() {
        facts.push(("Types", vec![Link::plain(endpoint.event_types.join(", "))]));
    }
    facts.extend(health.last_success_at.map(|at| ("Last arrival", near(at))));
    facts.extend(health.failing_since.map(|at| ("Fails since", near(at))));
    facts.extend(health.last_error.clone().map(|error| ("Last error", vec![Link::plain(error)])));
    facts.extend(endpoint.expires_at.map(|at| ("Ends", near(at))));
    facts
}

fn delivery_item(delivery: &Delivery, now: Timestamp) -> Item {
    let tries = delivery.attempts.iter().map(|attempt| {
        let what = match (attempt.status, &attempt.error) {
            (_, Some(error)) => error.clone(),
            (Some(status), None) => status.to_string(),
            (None, None) => "no answer".to_owned(),
        };
        format!("{} in {} ms: {what}", When::new(attempt.at, now).day, attempt.millis)
    });
    Item {
        head: Some(Link::plain(spoken(&delivery.kind))),
        pill: Some(delivery.status.as_str().to_owned()),
        about: delivery.webhook_id.clone(),
        at: Some(When::new(delivery.created_at, now)),
        text: Some(tries.collect::<Vec<_>>().join("\n")).filter(|text| !text.is_empty()),
        ..Item::default()
    }
}
