//! Requests whose sender waits for the answer in a call: who waits for whom (`crates/bridges/src/waits.rs`). Table
//! `request_waits`.
//!
//! Only the server that holds the connection knows that an agent waits. It writes the row when the wait has lasted for
//! [`SHORT`]: a request that is answered at once, and one that nobody waits for, cost nothing. A row lasts for [`LASTS`] and is
//! renewed while its call waits, so that the waits of a killed server end by themselves.

use std::pin::pin;
use std::time::Duration;

use entente_domain::clock::plus_seconds;
use entente_domain::openintent::messages::Message;
use entente_kernel::Outcome;
use tokio::time::{sleep, timeout};

use crate::Ctx;
use crate::messages::asks::Want;

/// Time after which a wait is known to others: a hundred times the duration of an answer.
const SHORT: Duration = Duration::from_millis(100);

/// Seconds for which a wait is known after its call was last seen.
const LASTS: u32 = 10;

/// How often a waiting call is seen.
const RENEWED: Duration = Duration::from_secs(3);

/// Waits of others that are past their end, and deleted with each that is written.
const LEFT: i64 = 100;

/// Returns the agents that all must answer before the wait is over; none if any of several may.
fn awaited(request: &Message, want: Want) -> &[String] {
    let Some(recipients) = request.recipients.as_deref() else { return &[] };
    let all = match want {
        Want::All => true,
        Want::Count(count) => u32::try_from(recipients.len()).is_ok_and(|asked| count >= asked),
    };
    if all { recipients } else { &[] }
}

/// Waits for the answer to a request, and lets others know of it meanwhile.
pub async fn known<T>(ctx: &Ctx, request: &Message, want: Want, answer: impl Future<Output = T>) -> T {
    let mut answer = pin!(answer);
    if let Ok(done) = timeout(SHORT, &mut answer).await {
        return done;
    }
    let awaited = awaited(request, want);
    let done = loop {
        // Beside the wait, and to its end: a write that is given up half-way could follow the deletion.
        let mut write = pin!(put(ctx, request, awaited));
        let early = tokio::select! {
            biased;
            done = &mut answer => Some(done),
            written = &mut write => {
                note(written);
                None
            }
        };
        if let Some(done) = early {
            note(write.await);
            break done;
        }
        tokio::select! {
            biased;
            done = &mut answer => break done,
            () = sleep(RENEWED) => {}
        }
    };
    note(forget(ctx, request).await);
    done
}

/// Logs a failure: a wait that is not known, or known for some seconds too long, does not concern its own call.
fn note(written: Outcome<()>) {
    if let Err(failure) = written {
        tracing::debug!(error = %failure, "a wait for an answer is not known, or ends by itself");
    }
}

async fn put(ctx: &Ctx, request: &Message, awaited: &[String]) -> Outcome<()> {
    let now = ctx.now();
    sqlx::query!(
        "-- request_waits::put
         WITH gone AS (
             DELETE FROM request_waits w USING (
                 SELECT message_id FROM request_waits WHERE until <= $6 AND message_id <> $1
                 ORDER BY until LIMIT $8 FOR UPDATE SKIP LOCKED) g
             WHERE w.message_id = g.message_id)
         INSERT INTO request_waits (message_id, channel_id, intent_id, agent_id, awaited, since, until)
         VALUES ($1, $2, $3, $4, $5, $6, $7)
         ON CONFLICT (message_id) DO UPDATE SET until = excluded.until",
        request.id.uuid(),
        request.channel_id.uuid(),
        request.intent_id.uuid(),
        request.sender,
        awaited,
        now,
        plus_seconds(now, LASTS),
        LEFT
    )
    .execute(&ctx.pool)
    .await?;
    Ok(())
}

async fn forget(ctx: &Ctx, request: &Message) -> Outcome<()> {
    sqlx::query!(
        "-- request_waits::forget\n DELETE FROM request_waits WHERE message_id = $1",
        request.id.uuid()
    )
    .execute(&ctx.pool)
    .await?;
    Ok(())
}
