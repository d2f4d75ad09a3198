//! Work given to agents, for the lineages of messages: tasks that somebody else delegates to them, parts of intents
//! that are handed over, and jobs that their workers claim. A task that an agent takes by itself is nobody's gift.

use std::collections::HashMap;

use entente_domain::clock::Timestamp;
use entente_domain::ids::{IntentId, JobId};
use entente_domain::log::events::Kind;
use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::Outcome;
use crate::log::GlobalPosition;
use crate::log::order::Parts;

/// Work that an agent was given.
pub(super) struct Given {
    pub place: GlobalPosition,
    pub intent: IntentId,
    pub agent: String,
    pub giver: String,
    pub at: Timestamp,
}

/// Events by which agents are given work.
const KINDS: [Kind; 5] =
    [Kind::TaskDelegated, Kind::TaskEscalated, Kind::TaskClaimed, Kind::HandoverMade, Kind::JobRunning];

/// Reads the work that these parts of logs give to agents.
pub(super) async fn given(conn: &mut PgConnection, parts: &Parts) -> Outcome<Vec<Given>> {
    if parts.is_empty() {
        return Ok(Vec::new());
    }
    let rows = sqlx::query!(
        r#"-- loops::works
         SELECT e.intent_id, e.seq, e.event_type, e.actor, e.payload, e.created_at
         FROM UNNEST($1::uuid[], $2::bigint[], $3::bigint[]) AS p (intent_id, from_seq, to_seq)
         CROSS JOIN LATERAL (SELECT s.* FROM events s
                             WHERE s.intent_id = p.intent_id AND s.seq BETWEEN p.from_seq AND p.to_seq OFFSET 0) e
         WHERE e.event_type = ANY($4) AND NOT e.posted"#,
        &parts.intents,
        &parts.from,
        &parts.to,
        &KINDS.map(Kind::wire) as &[&str]
    )
    .fetch_all(&mut *conn)
    .await?;
    let mut given = Vec::with_capacity(rows.len());
    // A job and the place of its entry, whose worker is to be found.
    let mut jobs: Vec<(Uuid, usize)> = Vec::new();
    for row in rows {
        let payload: Value = serde_json::from_str(&row.payload)?;
        let word = |member: &str| payload.get(member).and_then(Value::as_str).map(str::to_owned);
        let intent = IntentId::from(row.intent_id);
        let is_job = row.event_type == Kind::JobRunning.wire();
        let (agent, giver) = if is_job {
            // The job's agent, without its version, is the actor.
            (Some(row.actor), word("principal"))
        } else if row.event_type == Kind::HandoverMade.wire() {
            (word("to"), word("from"))
        } else {
            (word("assigned_agent"), Some(row.actor))
        };
        let (Some(agent), Some(giver)) = (agent, giver) else { continue };
        if let Some(id) = word("job_id").filter(|_| is_job).and_then(|id| id.parse::<JobId>().ok()) {
            jobs.push((id.uuid(), given.len()));
        }
        let (place, at) = (parts.place(intent, row.seq), row.created_at);
        given.push(Given { place, intent, agent, giver, at });
    }
    let workers = workers(conn, &jobs.iter().map(|(id, _)| *id).collect::<Vec<_>>()).await?;
    for (id, index) in jobs {
        let (Some(agent), Some(one)) = (workers.get(&id).cloned(), given.get(index)) else { continue };
        let (place, intent, giver, at) = (one.place, one.intent, one.giver.clone(), one.at);
        given.push(Given { place, intent, agent, giver, at });
    }
    Ok(given)
}

/// Returns the principals whose workers have these jobs.
async fn workers(conn: &mut PgConnection, jobs: &[Uuid]) -> Outcome<HashMap<Uuid, String>> {
    if jobs.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = sqlx::query!(
        "-- loops::workers
         SELECT j.job_id, w.principal FROM job_clock j JOIN workers w ON w.id = j.worker_id WHERE j.job_id = ANY($1)",
        jobs
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.job_id, row.principal)).collect())
}
