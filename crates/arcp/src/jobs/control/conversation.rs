//! Conversation of a job's submitter and its worker: the input and the signals, `status` events, references to
//! artifacts and the end. A job is read up to its last event, so that a reader that follows it from there misses
//! nothing and is told nothing twice.

use std::collections::BTreeMap;

use entente_domain::arcp::jobs::labels::Labels;
use entente_domain::arcp::jobs::{Job, JobStatus};
use entente_domain::clock::Timestamp;
use entente_domain::ids::JobId;
use entente_kernel::{Caller, Outcome};
use uuid::Uuid;

use super::rerun::asked;
use crate::Ctx;
use crate::jobs::log::{self, Stored};
use crate::jobs::reading::visible;
use crate::jobs::records::labels;
use crate::jobs::records::signals::{self, Signal};
use crate::jobs::results::chunk_bytes;

/// Most `status` events and most references of a job, and most pages of its signals, that are read.
const TOLD: i64 = 200;
const SIGNAL_PAGES: usize = 20;
/// Signals of a page.
const SIGNALS: i64 = 100;
/// Events read at once while a streamed result is reassembled.
const STEP: i64 = 64;

/// Conversation of a job's submitter and its worker.
#[derive(Debug)]
pub struct Conversation {
    /// The job, as it was after its last event.
    pub job: Job,
    /// Its input, JSON.
    pub input: Option<String>,
    /// Its labels.
    pub labels: Labels,
    /// Its signals, in order; the last of them if there are very many.
    pub signals: Vec<Signal>,
    /// Its `status` events, oldest first; the last of them if there are many.
    pub said: Vec<Stored>,
    /// Its `artifact_ref` events, likewise.
    pub references: Vec<Stored>,
    /// Its end.
    pub end: Option<Stored>,
}

/// Returns the conversation of a job.
///
/// # Errors
/// There is no such job, or the caller may not see it.
pub async fn conversation(ctx: &Ctx, caller: &Caller, id: JobId) -> Outcome<Conversation> {
    let mut conn = ctx.pool.acquire().await?;
    let job = visible(ctx, &mut conn, caller, id).await?;
    let input = asked(&mut conn, id).await?.input.map(|raw| raw.get().to_owned());
    let labels = labels::load(&mut conn, &[id]).await?.remove(&id).unwrap_or_default();
    let (mut said, mut references) = (Vec::new(), Vec::new());
    if job.last_seq > 0 {
        said = log::of_kind(&mut conn, id, "status", job.last_seq, TOLD).await?;
        references = log::of_kind(&mut conn, id, "artifact_ref", job.last_seq, TOLD).await?;
    }
    let end = if job.status.is_terminal() { log::ends(&mut conn, &[id]).await?.pop() } else { None };
    let mut all: Vec<Signal> = Vec::new();
    for _page in 0..SIGNAL_PAGES {
        let first = all.last().map_or(i64::MAX, |first| first.seq);
        let page = signals::before(&mut conn, id, first, SIGNALS).await?;
        if page.is_empty() {
            break;
        }
        all.extend(page);
    }
    all.reverse();
    Ok(Conversation { job, input, labels, signals: all, said, references, end })
}

/// Returns the bytes of a job's streamed result in its events up to a number; `None` if there are more than `most`.
///
/// # Errors
/// A database error; a stored chunk is invalid.
pub async fn chunks(
    ctx: &Ctx,
    id: JobId,
    result_id: &str,
    upto: i64,
    most: usize,
) -> Outcome<Option<Vec<u8>>> {
    let mut conn = ctx.pool.acquire().await?;
    let (mut bytes, mut after) = (Vec::new(), 0);
    loop {
        let chunks = log::chunks(&mut conn, id, after, upto, STEP, log::BYTES).await?;
        for chunk in &chunks {
            bytes.extend(chunk_bytes(id, &chunk.body, result_id)?.unwrap_or_default());
        }
        if bytes.len() > most {
            return Ok(None);
        }
        match chunks.last().filter(|last| last.job_seq < upto) {
            Some(last) => after = last.job_seq,
            None => return Ok(Some(bytes)),
        }
    }
}

/// Where a job stands, beside its own row.
#[derive(Debug, Default)]
pub struct Position {
    /// Last `status` event of a running job.
    pub said: Option<Stored>,
    /// Payload of the last signal with the name that was asked for, to a running job, and when it was sent.
    pub signal: Option<(String, Timestamp)>,
    /// The end of a job that failed.
    pub failure: Option<Stored>,
}

/// Returns where these jobs stand, with the last signals of this name; the caller may see the jobs.
///
/// # Errors
/// A database error.
pub async fn positions(ctx: &Ctx, jobs: &[Job], signal: &str) -> Outcome<BTreeMap<JobId, Position>> {
    let of = |status: JobStatus| jobs.iter().filter(move |job| job.status == status).map(|job| job.id);
    let running: Vec<Uuid> = of(JobStatus::Running).map(JobId::uuid).collect();
    let failed: Vec<JobId> = of(JobStatus::Error).collect();
    let mut found: BTreeMap<JobId, Position> = BTreeMap::new();
    let mut conn = ctx.pool.acquire().await?;
    if !running.is_empty() {
        for said in log::said_last(&mut conn, &running).await? {
            let id = said.job_id;
            found.entry(id).or_default().said = Some(said);
        }
        for (id, last) in signals::last_named(&mut conn, &running, signal).await? {
            found.entry(id).or_default().signal = Some(last);
        }
    }
    if !failed.is_empty() {
        for end in log::ends(&mut conn, &failed).await? {
            let id = end.job_id;
            found.entry(id).or_default().failure = Some(end);
        }
    }
    Ok(found)
}
