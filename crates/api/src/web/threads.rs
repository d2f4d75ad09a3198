//! Pages of envelope threads (AEE §5.3): those with envelopes to the visitor, and of one the senders, recipients, and the tree
//! of answers. They show the same as `aee-api/src/threads.rs`; a person sees the envelopes that they are a party to.

use actix_web::http::StatusCode;
use actix_web::web;
use askama::Template;
use entente_aee::threads::{Leaf, latest, thread};
use entente_domain::identity::keys::Scope;
use serde::Deserialize;

use super::guard::{PageResult, Visitor};
use super::page;
use super::shell::{Place, Shell};
use super::words::{When, escaped};
use crate::ApiState;

/// Page size.
const STEP: u32 = 50;
/// Threads in the list.
const LATEST: u32 = 30;
/// Maximum indentation; deeper envelopes are shown at this level.
const DEEPEST: usize = 6;

/// Registers the routes of this file.
pub fn routes(config: &mut web::ServiceConfig) {
    config.route("/threads", web::get().to(show));
}

#[derive(Template)]
#[template(path = "threads.html")]
struct ThreadsPage {
    shell: Shell,
    corr: String,
    leaves: Vec<EnvelopeLine>,
    next: Option<String>,
    /// The threads of the latest envelopes to the visitor, if none is asked for.
    latest: Vec<Latest>,
}

/// A thread in the list.
struct Latest {
    path: String,
    corr: String,
    purpose: String,
    sender: String,
    at: When,
}

/// An envelope in its thread.
struct EnvelopeLine {
    depth: usize,
    kind: &'static str,
    sender: String,
    recipient: String,
    purpose: String,
    /// Whether it has a signature that nobody has checked.
    unverified: bool,
    at: When,
    /// Respondents, with the state of each exchange.
    pairs: Vec<(String, &'static str)>,
    /// Entities that reject the envelope, with their reasons.
    refuted: Vec<(String, String)>,
    /// The envelope as it was sent.
    body: String,
}

#[derive(Deserialize)]
struct Asked {
    corr: Option<String>,
    cursor: Option<String>,
}

async fn show(api: web::Data<ApiState>, visitor: Visitor, asked: web::Query<Asked>) -> PageResult {
    let Asked { corr, cursor } = asked.into_inner();
    let corr = corr.map(|corr| corr.trim().to_owned()).unwrap_or_default();
    let shell = Shell::of(&visitor, "Threads", Place::Threads);
    let (leaves, next) = if corr.is_empty() {
        (Vec::new(), None)
    } else {
        thread(&api.ctx.aee, &visitor.caller, &corr, cursor.as_deref(), STEP).await?
    };
    let now = api.ctx.now();
    let leaves = leaves.into_iter().map(|leaf| {
        let Leaf { envelope, depth, pairs, refutations } = leaf;
        EnvelopeLine {
            depth: depth.min(DEEPEST),
            kind: envelope.kind.as_str(),
            sender: envelope.sender,
            recipient: envelope.recipient,
            purpose: envelope.purpose,
            unverified: envelope.receipt.verified.sig.is_some(),
            at: When::new(envelope.receipt.received_at, now),
            pairs: pairs.into_iter().map(|(who, status)| (who, status.as_str())).collect(),
            refuted: refutations.into_iter().map(|one| (one.entity, one.reason)).collect(),
            body: envelope.body,
        }
    });
    let leaves = leaves.collect();
    // A key that may not read mail has no list, and may still ask for a thread and be told so.
    let may_list = corr.is_empty() && visitor.caller.has(Scope::MailRead);
    let latest = if may_list { latest(&api.ctx.aee, &visitor.caller, LATEST).await? } else { Vec::new() };
    let latest = latest.into_iter().map(|one| Latest {
        path: format!("/threads?corr={}", escaped(&one.corr)),
        corr: one.corr,
        purpose: one.purpose,
        sender: one.sender,
        at: When::new(one.received_at, now),
    });
    let latest = latest.collect();
    Ok(page(StatusCode::OK, &ThreadsPage { shell, corr, leaves, next, latest }))
}
