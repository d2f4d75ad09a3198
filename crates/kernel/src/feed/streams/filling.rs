//! Adds committed but unpublished records to the feed's rings: those of other servers, of operations that only
//! announce news, and for followers of all intents. Run by `src/background/feeding.rs`.

use std::sync::Arc;

use entente_domain::ids::IntentId;

use crate::feed::reader;
use crate::feed::reader::LogPage;
use crate::feed::{Frame, ResumeToken};
use crate::inbox;
use crate::{Ctx, Outcome};

/// Publishes the missing records of an intent's topic, so that its followers need not query the database themselves.
///
/// # Errors
/// Returns database errors.
pub async fn fill(ctx: &Ctx, intent: IntentId) -> Outcome<()> {
    loop {
        let Some(topic) = ctx.feed.topic(intent) else { return Ok(()) };
        let Some(head) = topic.head() else {
            topic.wake();
            return Ok(());
        };
        let LogPage { records, reached } = reader::line(ctx, intent, head).await?;
        if reached == head {
            return Ok(());
        }
        let mut previous = head;
        for (seq, record) in records {
            topic.publish(previous, seq, Some(Arc::new(Frame::new(ResumeToken::IntentLog(seq), record))));
            previous = seq;
        }
        topic.publish(previous, reached, None);
    }
}

/// Publishes the records committed since the last call to the followers of all intents; returns true if there is
/// more.
///
/// Without such followers it drops its position, so that the next follower does not pay for the time between.
///
/// # Errors
/// Returns database errors.
pub async fn tail(ctx: &Ctx) -> Outcome<bool> {
    let topic = ctx.feed.global();
    if !ctx.feed.globally_followed() {
        topic.reset();
        return Ok(false);
    }
    let Some(head) = topic.head() else {
        topic.start_at(reader::now(ctx).await?);
        // Records committed between a follower's own read and this one are in no ring; the follower has to read
        // again.
        topic.wake();
        return Ok(true);
    };
    let LogPage { records, reached } = reader::global(ctx, head).await?;
    let more = reached > head;
    let mut previous = head;
    for (place, record) in records {
        topic.publish(previous, place, Some(Arc::new(Frame::new(ResumeToken::Global(place), record))));
        previous = place;
    }
    if reached > previous {
        topic.publish(previous, reached, None);
    }
    Ok(more)
}

/// Checks the database for wake keys with listeners that have changed without notice to this server.
///
/// # Errors
/// Returns database errors.
pub async fn poll_wakeups(ctx: &Ctx) -> Outcome<()> {
    if ctx.feed.has_peers() {
        let wakeups = ctx.feed.wakeups();
        let listened = wakeups.listened();
        let mut found = ctx.hooks.versions(ctx, &listened).await?;
        found.extend(inbox::versions(ctx, &listened).await?);
        wakeups.look(found);
    }
    Ok(())
}

/// Checks the database for followed intents that have advanced without notice to this server.
///
/// # Errors
/// Returns database errors.
pub async fn poll_topics(ctx: &Ctx) -> Outcome<()> {
    let followed = ctx.feed.followed();
    if followed.is_empty() {
        return Ok(());
    }
    let mut conn = ctx.pool.acquire().await?;
    for (intent, tail) in crate::log::writer::tails(&mut conn, &followed).await? {
        let Some(topic) = ctx.feed.topic(intent) else { continue };
        match topic.head() {
            Some(head) if head < tail.seq => ctx.feed.look_at(intent),
            Some(_) => {}
            // Only waiting requests follow it, and they read for themselves; from now on news is noticed.
            None => {
                topic.start_at(tail.seq);
                topic.wake();
            }
        }
    }
    Ok(())
}
