//! Readers that keep the feed up to date with the database: intents with unpublished commits, followers of
//! everything, and a periodic check for missed notifications.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use entente_arcp::jobs;
use entente_bridges::Ctx;
use entente_kernel::Outcome;
use entente_kernel::feed::streams;
use entente_kernel::identity::keys;
use entente_kernel::log::order;
use entente_runtime::tasks::Tasks;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::lookout::{KEYS, Lookout, QUOTAS, STOPS, STRICT};
use super::{FEED_TURN, every, keep, note, tick, timely};

/// Interval of the check for missed commits.
///
/// Wake-ups make it rarely necessary; it bounds the delay after a lost one.
const POLL: Duration = Duration::from_millis(400);

/// Longest time between two updates for followers of everything.
const TAIL: Duration = Duration::from_millis(250);

/// Pause between two such reads, so that many small commits are read together.
const TAIL_REST: Duration = Duration::from_millis(4);

/// Interval in which recent entries get numbers while nobody reads everything: many at once would occupy the database for
/// so long that requests notice.
const NUMBERS: Duration = Duration::from_millis(50);

/// Number of these intervals between two wider searches.
const WIDE: u32 = 8;

/// Age of the marks that are searched for entries without a number: longer than any transaction of a request takes.
const MARKS: Duration = Duration::from_secs(20);

/// Time between two searches of all marks, for those of transactions that took longer.
const ALL_MARKS: Duration = Duration::from_mins(2);

/// Starts the feed's readers.
pub fn start(ctx: &Ctx, lookout: &Arc<Lookout>, tasks: &Tasks) {
    keep(ctx, tasks, "feed fill", fill);
    keep(ctx, tasks, "feed tail", tail);
    keep(ctx, tasks, "feed look-around", poll);
    keep(ctx, tasks, "order over everything", number);
    let lookout = Arc::clone(lookout);
    let (stops, strict, quotas) = (Arc::clone(&lookout), Arc::clone(&lookout), Arc::clone(&lookout));
    keep(ctx, tasks, "keys refresh", move |ctx, stopping| refresh(ctx, Arc::clone(&lookout), stopping));
    keep(ctx, tasks, "stops refresh", move |ctx, stopping| refresh_stops(ctx, Arc::clone(&stops), stopping));
    keep(ctx, tasks, "quotas refresh", move |ctx, stopping| {
        refresh_quotas(ctx, Arc::clone(&quotas), stopping)
    });
    keep(ctx, tasks, "strict agents refresh", move |ctx, stopping| {
        refresh_strict_agents(ctx, Arc::clone(&strict), stopping)
    });
}

/// Gives numbers to the entries that this server has committed, also while nobody reads everything
/// (`kernel::log::order`); idle servers do nothing.
#[derive(Default)]
struct Sequencing {
    /// Commits of this server up to which recent marks, and older ones, were searched.
    recent: u64,
    wide: u64,
    /// The last mark at earlier times, oldest first.
    marks: VecDeque<(Instant, i64)>,
    /// When all marks were searched; `None` at the start, when a server that died may have left some.
    all_at: Option<Instant>,
}

impl Sequencing {
    /// Searches recent marks, unless followers of everything do that anyway.
    async fn narrow_step(&mut self, ctx: &Ctx) -> Outcome<()> {
        let commits = ctx.feed.commits();
        if commits != self.recent && !ctx.feed.globally_followed() {
            order::advance(&mut *ctx.pool.acquire().await?).await?;
            self.recent = commits;
        }
        Ok(())
    }

    async fn wide_step(&mut self, ctx: &Ctx) -> Outcome<()> {
        let commits = ctx.feed.commits();
        if commits == self.wide && self.all_at.is_some() {
            return Ok(());
        }
        let now = Instant::now();
        while self.marks.get(1).is_some_and(|(at, _)| now - *at >= MARKS) {
            self.marks.pop_front();
        }
        let all = self.all_at.is_none_or(|at| now - at >= ALL_MARKS);
        let old = self.marks.front().filter(|(at, _)| !all && now - *at >= MARKS);
        let low = old.map_or(0, |(_, mark)| *mark);
        let ends = order::advance_after(&mut *ctx.pool.acquire().await?, Some(low)).await?;
        (self.recent, self.wide) = (commits, commits);
        self.all_at = if all { Some(now) } else { self.all_at };
        self.marks.push_back((now, ends.last_mark));
        Ok(())
    }
}

async fn number(ctx: Ctx, stopping: CancellationToken) {
    let (mut ticks, mut turns, mut sequencing) = (every(NUMBERS), 0_u32, Sequencing::default());
    while tick(&mut ticks, &stopping).await.is_some() {
        let wide = turns.is_multiple_of(WIDE);
        turns = turns.wrapping_add(1);
        let step = async {
            if wide { sequencing.wide_step(&ctx).await } else { sequencing.narrow_step(&ctx).await }
        };
        if let Err(failure) = timely(FEED_TURN, step).await {
            note("order over everything", &failure);
        }
    }
}

async fn fill(ctx: Ctx, stopping: CancellationToken) {
    while let Some(stale) = stopping.run_until_cancelled(ctx.feed.stale()).await {
        for intent in stale {
            if let Err(failure) = timely(FEED_TURN, streams::fill(&ctx, intent)).await {
                note("feed fill", &failure);
            }
        }
    }
}

async fn tail(ctx: Ctx, stopping: CancellationToken) {
    while stopping.run_until_cancelled(timeout(TAIL, ctx.feed.activity())).await.is_some() {
        loop {
            match timely(FEED_TURN, streams::tail(&ctx)).await {
                Ok(true) => sleep(TAIL_REST).await,
                Ok(false) => break,
                Err(failure) => {
                    note("feed tail", &failure);
                    break;
                }
            }
        }
    }
}

async fn poll(ctx: Ctx, stopping: CancellationToken) {
    let mut ticks = every(POLL);
    while tick(&mut ticks, &stopping).await.is_some() {
        if let Err(failure) = timely(FEED_TURN, streams::poll_topics(&ctx)).await {
            note("feed look-around", &failure);
        }
        if let Err(failure) = timely(FEED_TURN, streams::poll_wakeups(&ctx)).await {
            note("wake-ups look-around", &failure);
        }
        if let Err(failure) = timely(FEED_TURN, jobs::poll_pending(&ctx.arcp)).await {
            note("jobs look-around", &failure);
        }
    }
}

/// Forgets keys that other servers changed without notice.
async fn refresh(ctx: Ctx, lookout: Arc<Lookout>, stopping: CancellationToken) {
    while stopping.run_until_cancelled(lookout.found(KEYS)).await.is_some() {
        if let Err(failure) = timely(FEED_TURN, keys::refresh(&ctx)).await {
            note("keys refresh", &failure);
        }
    }
}

/// Renews the copy of the agents whose writes have to name their epoch, after a change on another server.
async fn refresh_strict_agents(ctx: Ctx, lookout: Arc<Lookout>, stopping: CancellationToken) {
    while stopping.run_until_cancelled(lookout.found(STRICT)).await.is_some() {
        if let Err(failure) = timely(FEED_TURN, ctx.strict_agents.refresh(&ctx)).await {
            note("strict agents refresh", &failure);
        }
    }
}

/// Renews the copy of the stops in force after a change on another server.
async fn refresh_stops(ctx: Ctx, lookout: Arc<Lookout>, stopping: CancellationToken) {
    while stopping.run_until_cancelled(lookout.found(STOPS)).await.is_some() {
        if let Err(failure) = timely(FEED_TURN, ctx.stops.refresh(&ctx)).await {
            note("stops refresh", &failure);
        }
    }
}

/// Renews the copy of the quotas after a change or a count on another server.
async fn refresh_quotas(ctx: Ctx, lookout: Arc<Lookout>, stopping: CancellationToken) {
    while stopping.run_until_cancelled(lookout.found(QUOTAS)).await.is_some() {
        if let Err(failure) = timely(FEED_TURN, ctx.quotas.refresh(&ctx)).await {
            note("quotas refresh", &failure);
        }
    }
}
