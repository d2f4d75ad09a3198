//! Lists of tasks (A2A §3.1.4), those whose state changed last first.
//!
//! No index has that order, so the newest jobs that fit are read and sorted: at most [`NEWEST`], which bounds the work of a
//! request. Tasks of older jobs are found by their ids. A page has fewer tasks than it may if they are large.

use std::cmp::Reverse;

use entente_arcp::jobs::{self, JobSearch};
use entente_domain::a2a::errors::Fault;
use entente_domain::a2a::requests::{ListAsk, PageToken};
use entente_domain::a2a::submissions::{CONTEXT, SIGNAL};
use entente_domain::arcp::jobs::labels;
use entente_domain::identity::keys::Scope;
use entente_domain::limits::PAGE;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::replies::Failed;
use crate::visits::{Visit, standing, written};

/// Number of jobs among which a list looks.
const NEWEST: u32 = PAGE;

/// Bytes of tasks at which a page ends.
const BYTES: usize = 4 * 1024 * 1024;

/// Most searches of one list. Each looks at a limited number of jobs, of which few may be the caller's.
const SEARCHES: usize = 8;

/// A page of tasks.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TaskPage {
    tasks: Vec<Box<RawValue>>,
    next_page_token: String,
    page_size: u32,
    total_size: usize,
}

/// Lists the agent's tasks that the caller may see.
pub(crate) async fn list(visit: &Visit, ask: &ListAsk) -> Result<Box<RawValue>, Failed> {
    let places = places(visit, ask).await?;
    let total_size = places.len();
    let rest: Vec<PageToken> =
        places.into_iter().filter(|place| ask.after.as_ref().is_none_or(|after| place < after)).collect();
    let size = usize::try_from(ask.page_size).unwrap_or(1);
    let (mut tasks, mut bytes, mut taken) = (Vec::new(), 0, 0);
    for PageToken(_, id) in rest.iter().take(size) {
        taken += 1;
        let loaded = match visit.load(id).await {
            // Its retention has ended since.
            Err(failed) if failed.failure.fault == Fault::TaskNotFound => continue,
            loaded => loaded?,
        };
        let task = written(&loaded.task(visit, Some(ask.history_length), ask.artifacts).await?)?;
        bytes += task.get().len();
        tasks.push(task);
        if bytes >= BYTES {
            break;
        }
    }
    let next = rest[..taken].last().filter(|_| rest.len() > taken).map(PageToken::show);
    let page_size = ask.page_size;
    written(&TaskPage { tasks, next_page_token: next.unwrap_or_default(), page_size, total_size })
}

/// Returns the places of the tasks that are asked for, the latest first.
async fn places(visit: &Visit, ask: &ListAsk) -> Result<Vec<PageToken>, Failed> {
    let context = ask.context_id.as_ref().map(|context| (CONTEXT.to_owned(), context.clone()));
    if context.as_ref().is_some_and(|(key, value)| labels::check_one(key, value).is_err()) {
        // No task has such a context.
        return Ok(Vec::new());
    }
    let ctx = &visit.api.ctx;
    // A policy by which all jobs are listed does not let everybody read them.
    let reads_all = visit.caller.has(Scope::Admin) || ctx.state.jobs.policy.subscribes();
    let mut search = JobSearch {
        agent: Some(visit.agent.clone()),
        principal: (!reads_all).then(|| visit.caller.agent.clone()),
        labels: context.into_iter().collect(),
        statuses: ask.state.map(|state| state.statuses().to_vec()).unwrap_or_default(),
        limit: NEWEST,
        ..JobSearch::default()
    };
    let mut found = Vec::new();
    for _search in 0..SEARCHES {
        let (some, more) = jobs::search(ctx, &visit.caller, &search).await?;
        found.extend(some);
        search.limit = NEWEST.saturating_sub(u32::try_from(found.len()).unwrap_or(NEWEST));
        search.cursor = more;
        if search.cursor.is_none() || search.limit == 0 {
            break;
        }
    }
    let mut positions = jobs::positions(ctx, &found, SIGNAL).await?;
    let mut places: Vec<PageToken> = found
        .iter()
        .filter_map(|job| {
            let (state, since, _) = standing(job, positions.remove(&job.id).as_ref());
            let fits =
                ask.state.is_none_or(|asked| asked == state) && ask.since.is_none_or(|from| since >= from);
            fits.then(|| PageToken(since.timestamp_millis(), job.id.to_string()))
        })
        .collect();
    places.sort_unstable_by_key(|place| Reverse(place.clone()));
    Ok(places)
}
