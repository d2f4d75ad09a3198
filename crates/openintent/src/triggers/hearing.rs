//! Matching of events with event triggers (RFC-0017 §3). Table `trigger_cursor`.
//!
//! The logs are the outbox, as for webhooks (`crates/kernel/src/webhooks/fanout.rs`): one server at a time reads the
//! events after the cursor, inserts a firing for each matching trigger, and moves the cursor in the
//! same transaction. A crash repeats a step or continues after it; in either case an event fires once, because the
//! firing names it.

use std::collections::{BTreeSet, HashMap, HashSet};

use entente_domain::access::Level;
use entente_domain::ids::{FiringId, IntentId, TriggerId};
use entente_domain::log::events::{Event, Kind};
use entente_domain::log::kinds::names;
use entente_domain::openintent::triggers::{Cause, SkipReason, filter};
use entente_kernel::access::membership;
use entente_kernel::feed::reader;
use entente_kernel::feed::streams::{View, VisibilityFilter};
use entente_kernel::log::{GlobalPosition, Record, order};
use entente_kernel::{Outcome, try_locks};
use serde_json::{Map, Value};
use sqlx::PgConnection;

use super::firings::{self, Firing, FiringStatus};
use super::listeners::{Listener, listening};
use super::rates::{self, Rates};
use super::tx::owners;
use super::{rows, time};
use crate::Ctx;

/// Advisory lock of the server that moves the cursor, which is only tried.
const LOCK: i64 = 0x656e_7465_6e74_6502;

/// Maximum pages of the log per run, so that no run takes long.
const STRETCHES: usize = 16;

/// Matches the events logged since the last run; returns the number of new firings.
///
/// # Errors
/// Returns database errors.
pub async fn hear(ctx: &Ctx) -> Outcome<u64> {
    let mut total = 0;
    for _ in 0..STRETCHES {
        let Some(page) = Box::pin(step(ctx)).await? else { return Ok(total) };
        total += page.new;
        for id in page.broken {
            Box::pin(time::break_off(ctx, id)).await?;
        }
    }
    // There may be more.
    Ok(total.max(1))
}

/// Result of a page of the log.
struct HeardPage {
    /// Number of new firings.
    new: u64,
    /// Triggers that cannot be read.
    broken: Vec<TriggerId>,
}

/// Processes the next page; `None` if there is none.
async fn step(ctx: &Ctx) -> Outcome<Option<HeardPage>> {
    let mut conn = ctx.pool.acquire().await?;
    let first = rows::first_heard(&mut conn).await?;
    if first.is_none() && load(&mut conn).await?.is_none() {
        return Ok(None);
    }
    // Before the transaction: the numbers that it gives are committed before they are read here.
    order::advance(&mut conn).await?;
    drop(conn);
    let mut tx = ctx.pool.begin().await?;
    if try_locks(&mut tx, &[LOCK]).await?.is_empty() {
        return Ok(None);
    }
    let Some(first) = first else {
        save(&mut tx, None).await?;
        tx.commit().await?;
        return Ok(None);
    };
    let cursor = load(&mut tx).await?;
    let beginning = match cursor {
        Some(place) => Some(place),
        None => order::places_in_system(&mut tx, &[first]).await?.remove(&first),
    };
    let Some(place) = beginning else {
        tx.rollback().await?;
        return Ok(None);
    };
    let (events, reached) = reader::logged(&mut tx, place).await?;
    if reached == place && cursor.is_some() {
        tx.rollback().await?;
        return Ok(None);
    }
    // A trigger that is not visible yet was created after all events just read.
    let page = heard(ctx, &mut tx, &events).await?;
    save(&mut tx, Some(reached)).await?;
    tx.commit().await?;
    Ok(Some(page))
}

/// An event with the values that filters examine.
struct Heard<'a> {
    place: GlobalPosition,
    event: &'a Event,
    members: Map<String, Value>,
}

/// Inserts the firings for these events.
async fn heard(ctx: &Ctx, conn: &mut PgConnection, events: &[(GlobalPosition, Event)]) -> Outcome<HeardPage> {
    if events.is_empty() {
        return Ok(HeardPage { new: 0, broken: Vec::new() });
    }
    // Of the events about triggers only a firing counts: a trigger that fires for its own failures would never end.
    let audible = |event: &Event| {
        event.posted
            || event.event_type == Kind::TriggerFired.wire()
            || !event.event_type.starts_with("trigger.")
    };
    let types: HashSet<&str> = events.iter().flat_map(|(_, event)| names(&event.event_type)).collect();
    let types: Vec<&str> = types.into_iter().collect();
    let events = events.iter().filter(|(_, event)| audible(event));
    let events: Vec<Heard<'_>> = events
        .map(|(place, event)| Heard { place: *place, event, members: filter::members(event) })
        .collect();
    let (mut page, mut after) = (HeardPage { new: 0, broken: Vec::new() }, None);
    loop {
        let part = listening(conn, &types, after).await?;
        page.broken.extend(part.broken);
        let pairs = part.listeners.iter().flat_map(|one| {
            let hears = |heard: &&Heard<'_>| {
                one.begins.is_some_and(|begins| begins < heard.place) && one.condition.hears(&heard.members)
            };
            events.iter().filter(hears).map(move |heard| (one, heard))
        });
        let seen = visible(ctx, conn, pairs.collect()).await?;
        let firings = within_rate(ctx, conn, seen).await?;
        page.new += firings::insert(conn, &firings).await?;
        after = part.next;
        if after.is_none() {
            return Ok(page);
        }
    }
}

/// Selects the pairs in which the trigger's owner may read the event.
async fn visible<'a, 'e>(
    ctx: &Ctx,
    conn: &mut PgConnection,
    pairs: Vec<(&'a Listener, &'a Heard<'e>)>,
) -> Outcome<Vec<(&'a Listener, &'a Heard<'e>)>> {
    let now = ctx.now();
    let mut triggers: Vec<_> = pairs
        .iter()
        .map(|(listener, _)| (listener.id, listener.key_id, listener.agent_id.as_str()))
        .collect();
    triggers.dedup_by_key(|(id, ..)| *id);
    if triggers.is_empty() {
        return Ok(Vec::new());
    }
    let owners = owners(conn, &triggers, now).await?;
    let mut asked: Vec<(IntentId, &str)> = pairs
        .iter()
        .filter(|(_, one)| one.event.intent_id != IntentId::SYSTEM)
        .map(|(listener, one)| (one.event.intent_id, listener.agent_id.as_str()))
        .collect();
    asked.sort_unstable();
    asked.dedup();
    let memberships: HashMap<(IntentId, String), _> =
        membership::find_all(conn, &asked, now).await?.into_iter().collect();
    let mut seen = Vec::new();
    for (listener, one) in pairs {
        let id = listener.id;
        let intent = one.event.intent_id;
        // A trigger without a valid key fires once more, which disables it.
        let Some(owner) = owners.get(&id) else {
            seen.push((listener, one));
            continue;
        };
        let membership = memberships.get(&(intent, listener.agent_id.clone())).cloned();
        let readable = membership.as_ref().is_some_and(|membership| membership.access.reaches(Level::Read));
        if intent != IntentId::SYSTEM && !readable {
            continue;
        }
        let mut visibility = VisibilityFilter::new(owner.clone(), View::All);
        visibility.learn(intent, membership);
        if visibility.sees(ctx, &Record::Event { event: one.event.clone(), change: None }).await? {
            seen.push((listener, one));
        }
    }
    Ok(seen)
}

/// Builds the firings, up to the rates per minute of each trigger and principal.
///
/// The first one beyond the rate is recorded in its trigger's history.
async fn within_rate(
    ctx: &Ctx,
    conn: &mut PgConnection,
    pairs: Vec<(&Listener, &Heard<'_>)>,
) -> Outcome<Vec<Firing>> {
    if pairs.is_empty() {
        return Ok(Vec::new());
    }
    let now = ctx.now();
    let ids: BTreeSet<TriggerId> = pairs.iter().map(|(listener, _)| listener.id).collect();
    let principals: BTreeSet<&str> =
        pairs.iter().map(|(listener, _)| listener.principal_id.as_str()).collect();
    let (ids, principals): (Vec<_>, Vec<_>) = (ids.into_iter().collect(), principals.into_iter().collect());
    let mut rates = Rates::load(conn, &ids, &principals, now).await?;
    let mut made = Vec::new();
    for (listener, one) in pairs {
        let work = rates.take(listener.id, &listener.principal_id);
        if work == rates::Admission::Full {
            continue;
        }
        let id = FiringId::mint(now, &*ctx.chance);
        let mut firing = Firing::new(id, listener.id, Cause::Event, one.event.id.to_string(), now);
        firing.source = Some((one.event.intent_id, one.event.seq));
        if work == rates::Admission::JustFull {
            firing.status = FiringStatus::Skipped;
            firing.reason = Some(SkipReason::Rate.as_str().to_owned());
            firing.detail =
                Some("It was due too often within a minute; what came then was passed over.".to_owned());
            firing.done_at = Some(now);
        }
        made.push(firing);
    }
    Ok(made)
}

async fn load(conn: &mut PgConnection) -> Outcome<Option<GlobalPosition>> {
    let row = sqlx::query!("-- trigger_cursor::load\n SELECT global, global_seq FROM trigger_cursor")
        .fetch_one(conn)
        .await?;
    Ok(GlobalPosition::stored(row.global, row.global_seq))
}

async fn save(conn: &mut PgConnection, place: Option<GlobalPosition>) -> Outcome<()> {
    sqlx::query!(
        "-- trigger_cursor::save
         UPDATE trigger_cursor SET global = $1, global_seq = $2",
        place.map(|place| place.global),
        place.map(|place| place.seq)
    )
    .execute(conn)
    .await?;
    Ok(())
}
