//! The page of a channel: who is in it, and its messages, which only members see.

use actix_web::http::StatusCode;
use actix_web::web;
use entente_domain::clock::Timestamp;
use entente_domain::cursors::Since;
use entente_domain::ids::ChannelId;
use entente_domain::openintent::channels::Channel;
use entente_domain::openintent::messages::Message;
use entente_domain::refusal::Refusal;
use entente_kernel::AppError;
use entente_kernel::messages::MessageFilter;
use entente_openintent::{channels, messages};
use serde::Deserialize;

use super::{Item, Link, Record, SHORT, STEP, Section, channel_status, query};
use crate::ApiState;
use crate::web::guard::{PageResult, Visitor};
use crate::web::page;
use crate::web::shell::{Place, Shell};
use crate::web::words::{When, shortened};

pub fn routes(config: &mut web::ServiceConfig) {
    config.route("/channels/{id}", web::get().to(show));
}

#[derive(Deserialize)]
struct Part {
    since: Option<String>,
}

async fn show(
    api: web::Data<ApiState>,
    visitor: Visitor,
    path: web::Path<String>,
    part: web::Query<Part>,
) -> PageResult {
    let id = path.parse::<ChannelId>().map_err(|_no_id| Refusal::not_found("channel"))?;
    let (ctx, caller) = (&api.ctx.openintent, &visitor.caller);
    let channel = channels::get(ctx, caller, id).await?;
    let now = api.ctx.now();
    let own = format!("/channels/{id}");
    let since = part.since.as_deref().filter(|text| !text.is_empty()).map(Since::parse).transpose()?;
    let filter = MessageFilter { since, limit: STEP, ..MessageFilter::default() };
    let mut section = Section::new("line", "Messages", "No messages that you may see.", Vec::new());
    match messages::list(ctx, caller, id, &filter).await {
        Ok(found) => {
            let is_full = u32::try_from(found.messages.len()).is_ok_and(|count| count >= STEP);
            section.next = match since {
                // Without a position these are the newest.
                None => is_full.then(|| Link::to("From the first", query(&own, &[("since", "cur_0")]))),
                Some(_) if is_full || found.cut => {
                    Some(Link::to("Later", query(&own, &[("since", &found.next)])))
                }
                Some(_) => None,
            };
            section.items = found.messages.iter().map(|message| item(message, now)).collect();
        }
        Err(AppError::Refused(_)) => section.empty = "Its messages are for its members.",
        Err(failure) => return Err(failure.into()),
    }
    let record = Record {
        shell: Shell::of(&visitor, channel.name.clone(), Place::Dashboard).live("/dashboard/stream"),
        up: Link::to("Its intent", format!("/intents/{}", channel.intent_id)),
        title: channel.name.clone(),
        status: Some(channel_status(channel.status).to_owned()),
        about: format!("by {}", channel.created_by),
        fault: None,
        text: None,
        facts: facts(&channel, now),
        actions: Vec::new(),
        sections: vec![section],
    };
    Ok(page(StatusCode::OK, &record))
}

fn facts(channel: &Channel, now: Timestamp) -> Vec<(&'static str, Vec<Link>)> {
    let mut facts = vec![
        ("Channel", vec![Link::plain(channel.id.to_string())]),
        ("Intent", vec![Link::intent(channel.intent_id)]),
        ("Opened by", vec![Link::agent(&channel.created_by)]),
        ("For", vec![Link::plain(channel.member_policy.as_str())]),
        ("Messages", vec![Link::plain(channel.message_count.to_string())]),
    ];
    if !channel.members.is_empty() {
        facts.push(("Members", channel.members.iter().map(|name| Link::agent(name)).collect()));
    }
    facts.extend(channel.task_id.as_ref().map(|task| ("Task", vec![Link::plain(task.clone())])));
    facts.extend(channel.closed_at.map(|at| ("Closed", vec![Link::plain(When::new(at, now).near)])));
    facts
}

fn item(message: &Message, now: Timestamp) -> Item {
    let to = message.to.as_deref().filter(|to| *to != "*").unwrap_or("everybody");
    Item {
        head: Some(Link::agent(&message.sender)),
        pill: Some(message.message_type.as_str().to_owned()),
        about: format!("to {to} · {} · {}", message.status.as_str(), message.id),
        at: Some(When::new(message.created_at, now)),
        text: Some(shortened(message.payload.as_str(), SHORT)),
        ..Item::default()
    }
}
