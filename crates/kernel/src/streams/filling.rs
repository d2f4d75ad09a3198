//! Filling the feed's rings from the database with what was committed and not published: by other servers, by deeds that
//! only say that there is news, and for those who follow everything. Run by `src/background/feeding.rs`.

use std::sync::Arc;

use entente_domain::ids::IntentId;

use crate::feed::{Frame, Mark};
use crate::places::{self, Stretch};
use crate::{Ctx, Outcome};

/// Publishes what an intent's topic has missed, so that its followers need not each ask the database.
///
/// # Errors
/// The database.
pub async fn fill(ctx: &Ctx, intent: IntentId) -> Outcome<()> {
    loop {
        let Some(topic) = ctx.feed.topic(intent) else { return Ok(()) };
        let Some(head) = topic.head() else {
            topic.wake();
            return Ok(());
        };
        let Stretch { records, reached } = places::line(ctx, intent, head).await?;
        if reached == head {
            return Ok(());
        }
        let mut previous = head;
        for (seq, record) in records {
            topic.publish(previous, seq, Some(Arc::new(Frame::new(Mark::Line(seq), record))));
            previous = seq;
        }
        topic.publish(previous, reached, None);
    }
}

/// Publishes to those who follow everything what has been committed since the last call; when nobody does, forgets where
/// it was, so that the next follower does not pay for the time between. True when there is more.
///
/// # Errors
/// The database.
pub async fn tail(ctx: &Ctx) -> Outcome<bool> {
    let topic = ctx.feed.house();
    if !ctx.feed.house_is_followed() {
        topic.reset();
        return Ok(false);
    }
    let Some(head) = topic.head() else {
        topic.start_at(places::now(ctx).await?.0);
        // What was committed between a follower's own look and this one is in no ring; it has to look again.
        topic.wake();
        return Ok(true);
    };
    let Stretch { records, reached } = places::house(ctx, head).await?;
    let more = reached > head;
    let mut previous = head;
    for (place, record) in records {
        topic.publish(previous, place, Some(Arc::new(Frame::new(Mark::House(place), record))));
        previous = place;
    }
    if reached > previous {
        topic.publish(previous, reached, None);
    }
    Ok(more)
}

/// Asks the database which followed intents have gone on without this server hearing of it.
///
/// # Errors
/// The database.
pub async fn look_around(ctx: &Ctx) -> Outcome<()> {
    let followed = ctx.feed.followed();
    if followed.is_empty() {
        return Ok(());
    }
    let mut conn = ctx.pool.acquire().await?;
    for (intent, tail) in crate::lines::tails(&mut conn, &followed).await? {
        let Some(topic) = ctx.feed.topic(intent) else { continue };
        match topic.head() {
            Some(head) if head < tail.seq => ctx.feed.look_at(intent),
            Some(_) => {}
            // Only requests that wait follow it, and they read for themselves; from now on news will be noticed.
            None => {
                topic.start_at(tail.seq);
                topic.wake();
            }
        }
    }
    Ok(())
}
