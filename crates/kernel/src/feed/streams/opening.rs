//! The beginning of an agent's stream: the agent's open assignments, so that a program that starts after it was given
//! work is told of it (OI-11.8).
//!
//! Each assignment is shown as the event that announced it. Those whose event is before the stream's start are read here,
//! the others come with the log, so that none is missing and none comes twice, also after a broken connection: the
//! resume token has both positions.

use std::collections::HashSet;
use std::sync::Arc;

use entente_domain::access::Level;
use entente_domain::ids::IntentId;

use super::{End, Stream};
use crate::access::assignments::{self, Announced};
use crate::access::membership;
use crate::feed::reader;
use crate::feed::{Frame, Opening, ResumeToken};
use crate::{AppError, Ctx};

/// Open assignments taken at once, which bounds the memory of a stream, however many its agent has.
const PAGE: usize = 100;

/// Assignments read at once, most of which may be to ended intents: a step of a stream stays short, however many the
/// agent ever had.
const STEP: i64 = 200;

impl Stream {
    /// Takes the next open assignments to return; ends the opening after the last one.
    ///
    /// Assignments to intents that the agent may no longer read are left out.
    pub(super) async fn open_with(&mut self, ctx: &Ctx, opening: Opening) -> Result<(), End> {
        let agent = self.visibility.caller.agent.as_str();
        let mut conn = ctx.pool.acquire().await.map_err(AppError::from)?;
        let read = assignments::announced(&mut conn, agent, opening.shown, opening.start, STEP).await?;
        let open: Vec<Announced> = read.iter().filter(|one| one.is_told).take(PAGE).copied().collect();
        // After a full page there may be further open ones among those read.
        let last = if open.len() < PAGE { read.last() } else { open.last() };
        let Some(last) = last.map(Announced::key) else {
            self.opening = None;
            return Ok(());
        };
        if open.is_empty() {
            self.opening = Some(Opening { shown: last, ..opening });
            return Ok(());
        }
        let asked: Vec<(IntentId, &str)> = open.iter().map(|one| (one.intent_id, agent)).collect();
        let memberships = membership::find_all(&mut conn, &asked, ctx.now()).await?;
        drop(conn);
        let readable: HashSet<IntentId> = memberships
            .into_iter()
            .filter(|(_, membership)| membership.access.reaches(Level::Read))
            .map(|((intent, _), _)| intent)
            .collect();
        let events: Vec<(IntentId, i64)> = open.iter().map(|one| (one.intent_id, one.seq)).collect();
        let mut records = reader::at(ctx, &events).await?;
        // From here on nothing waits: a caller that drops this future loses no assignment.
        for one in open {
            let record = records.remove(&(one.intent_id, one.seq));
            let shown = record.filter(|record| readable.contains(&one.intent_id) && self.has(record));
            let mark = ResumeToken::Opening(Opening { shown: one.key(), ..opening });
            self.seen.extend(shown.map(|record| Arc::new(Frame::new(mark, record))));
        }
        self.opening = Some(Opening { shown: last, ..opening });
        Ok(())
    }
}
