//! Notifications of people: that a question or a deliberation waits for them. Only whether it does, and the question's own words,
//! leave this place; decisions are taken on the page.

use std::collections::HashMap;
use std::str::FromStr as _;

use entente_domain::clock::Timestamp;
use entente_domain::ids::MomentId;
use entente_domain::moments::{Moment, MomentState};
use entente_domain::notifications::Topic;
use entente_domain::notifications::forms::WaitingItem;
use entente_domain::notifications::times::Occasion;
use entente_kernel::notifications::{self, Audience, Told};
use entente_kernel::{Ctx, Outcome};
use sqlx::PgConnection;
use uuid::Uuid;

use super::rows::{StoredMoment, select};
use super::seen;

/// Queues notifications, in the transaction of the change: for the person asked, or for the second person once they are asked
/// too. An agent's word in a deliberation is told by itself, to both. Returns whether there is any.
pub(super) async fn tell(
    conn: &mut PgConnection,
    moment: &Moment,
    word: Option<i32>,
    now: Timestamp,
) -> Outcome<bool> {
    let subject = match word {
        Some(n) => format!("{}/{n}", moment.id),
        None => moment.id.to_string(),
    };
    let second = moment.escalation.as_ref().filter(|one| one.told_at.is_some()).map(|one| one.to.as_str());
    let people = match (second, word) {
        (Some(second), None) => [Some(second), None],
        _ => [Some(moment.principal_id.as_str()), second],
    };
    let occasion =
        Occasion { topic: Topic::Decision, agent: Some(&moment.agent_id), deadline: moment.expires_at };
    let told: Vec<Told<'_>> = people
        .into_iter()
        .flatten()
        .map(|person| Told { audience: Audience::Person(person), occasion, subject: &subject })
        .collect();
    notifications::tell(conn, &told, now).await
}

/// Returns those of these moments that still wait for the person.
pub(super) async fn waiting(
    ctx: &Ctx,
    person: &str,
    subjects: &[String],
) -> Outcome<Vec<(String, WaitingItem)>> {
    let id = |subject: &str| MomentId::from_str(subject.split('/').next()?).ok();
    let ids: Vec<Uuid> = subjects.iter().filter_map(|subject| Some(id(subject)?.uuid())).collect();
    let mut conn = ctx.pool.acquire().await?;
    let most = i64::try_from(ids.len()).unwrap_or(i64::MAX);
    let rows = select!("moments::notified", "WHERE m.id = ANY ($1) ORDER BY m.id LIMIT $2", &ids, most)
        .fetch_all(&mut *conn)
        .await?;
    drop(conn);
    let now = ctx.now();
    let mut found: HashMap<MomentId, Moment> = HashMap::new();
    for row in rows {
        let kept = StoredMoment::try_from(row)?;
        let moment = seen(&kept, now).unwrap_or(kept.moment);
        found.insert(moment.id, moment);
    }
    let waits = |subject: &String| {
        let moment = found.get(&id(subject)?)?;
        let is_open = match moment.state {
            MomentState::Open => true,
            // A refused question waits for the agent, until it says something.
            MomentState::Deliberating => subject.contains('/') || moment.brief.is_none(),
            _ => false,
        };
        (is_open && moment.is_addressed_to(person, now)).then(|| (subject.clone(), item(moment)))
    };
    Ok(subjects.iter().filter_map(waits).collect())
}

fn item(moment: &Moment) -> WaitingItem {
    let quote = match &moment.brief {
        Some(brief) => Some(brief.question.stem.clone()),
        None => moment.fallback_text.clone(),
    };
    WaitingItem {
        topic: Topic::Decision,
        quote,
        agent: Some(moment.agent_id.clone()),
        deadline: moment.expires_at,
        path: format!("/inbox/{}", moment.id),
    }
}
