//! Notifications of people: that a task waits for a person's approval (`approvals.rs`).

use entente_domain::aee::envelopes::receipt::{Receipt, ReceiptStatus};
use entente_domain::clock::Timestamp;
use entente_domain::notifications::Topic;
use entente_domain::notifications::forms::WaitingItem;
use entente_domain::notifications::times::Occasion;
use entente_kernel::Outcome;
use entente_kernel::notifications::{self, Audience, Told};
use sqlx::PgConnection;

use crate::Ctx;
use crate::envelopes::PreparedEnvelope;

/// Queues notifications of the tasks among these new envelopes that wait for approval, for all who may decide; returns whether
/// there are any.
pub(crate) async fn tell(
    ctx: &Ctx,
    conn: &mut PgConnection,
    taken: &[(&PreparedEnvelope, &Receipt)],
    now: Timestamp,
) -> Outcome<bool> {
    let held = taken.iter().filter(|(_, receipt)| receipt.status == ReceiptStatus::Held);
    let told: Vec<Told<'_>> = held
        .map(|(prepared, receipt)| Told {
            audience: Audience::Anybody {
                only: ctx.state.settings.approver.as_deref(),
                except: [&prepared.envelope.sender, prepared.principal.as_deref().unwrap_or_default()],
            },
            occasion: Occasion {
                topic: Topic::Approval,
                agent: Some(&prepared.envelope.sender),
                deadline: receipt.deadline,
            },
            subject: &receipt.id,
        })
        .collect();
    if told.is_empty() { Ok(false) } else { notifications::tell(conn, &told, now).await }
}

/// Returns those of these tasks that still wait, for a person who is neither their sender nor handed them in.
pub(crate) async fn waiting(
    ctx: &entente_kernel::Ctx,
    person: &str,
    subjects: &[String],
) -> Outcome<Vec<(String, WaitingItem)>> {
    let rows = sqlx::query!(
        r#"-- notifying::waiting
         SELECT e.id, e.sender, e.purpose, max(p.deadline) AS deadline
         FROM aee_envelopes e JOIN aee_pairs p ON p.task_id = e.id
         WHERE e.id = ANY ($1) AND p.status = 'held' AND (p.deadline IS NULL OR p.deadline > $2)
           AND e.sender <> $3 AND e.principal_id IS DISTINCT FROM $3
         GROUP BY e.id, e.sender, e.purpose"#,
        subjects,
        ctx.now(),
        person
    )
    .fetch_all(&ctx.pool)
    .await?;
    let item = |quote, agent, deadline| WaitingItem {
        topic: Topic::Approval,
        quote: Some(quote),
        agent: Some(agent),
        deadline,
        path: "/inbox".to_owned(),
    };
    Ok(rows.into_iter().map(|row| (row.id, item(row.purpose, row.sender, row.deadline))).collect())
}
