//! One look for everything that time or another server has made due: the idle server's question to the database, instead
//! of one question per background task. Reads the tables of all protocols, and writes none.
//!
//! Each line repeats the condition under which its task finds work, or a wider one. It is only a hint: every task also
//! runs now and then without it (`src/background/lookout.rs`), and the tests fail if a sweep finds work that this query
//! did not announce (`sweeps::run_all`).

use entente_kernel::Outcome;

use crate::Ctx;

/// Returns each kind of background work with whether there is any.
///
/// # Errors
/// The database query fails.
pub async fn look(ctx: &Ctx) -> Outcome<Vec<(String, bool)>> {
    let rows = sqlx::query!(
        r#"-- due::look
         SELECT w.word AS "word!", w.due AS "due!" FROM (VALUES
             ('messages', EXISTS (SELECT 1 FROM pending WHERE expires_at <= $1)), ('tasks', EXISTS (SELECT 1 FROM tasks WHERE due_at <= $1)),
             ('jobs', EXISTS (SELECT 1 FROM job_clock WHERE due_at <= $1 AND (ended_at IS NOT NULL OR status <> 'preparing'))
                 OR EXISTS (SELECT 1 FROM job_clock WHERE not_before <= $1)
                 OR EXISTS (SELECT 1 FROM job_clock WHERE status = 'pending' AND parked AND gate IS NOT NULL)),
             ('channels', EXISTS (SELECT 1 FROM channels WHERE status = 'open' AND ttl_check_at <= $1)),
             ('evictions', EXISTS (SELECT 1 FROM channels WHERE over_limit)), ('purges', EXISTS (SELECT 1 FROM channels WHERE purge_at <= $1)),
             ('access', EXISTS (SELECT 1 FROM acl_entries WHERE expires_at <= $1)), ('leases', EXISTS (SELECT 1 FROM leases WHERE status = 'active' AND expires_at <= $1)),
             ('deadlocks', EXISTS (SELECT 1 FROM request_waits WHERE until > $1) OR EXISTS (SELECT 1 FROM lease_waits WHERE until > $1) OR EXISTS (SELECT 1 FROM deadlocks)),
             ('silence', EXISTS (SELECT 1 FROM agents WHERE status IN ('registering', 'active', 'unhealthy', 'draining')
                                   AND (interval_seconds IS NOT NULL OR last_heartbeat_at IS NOT NULL)
                                   AND greatest(last_heartbeat_at, registered_at) + make_interval(secs => CASE status
                                           WHEN 'active' THEN coalesce(unhealthy_after_seconds, 90)
                                           ELSE coalesce(dead_after_seconds, 300) END) <= $1)),
             ('drains', EXISTS (SELECT 1 FROM agents
                                WHERE status = 'draining' AND draining_since + make_interval(secs => drain_timeout_seconds) <= $1)),
             ('pairs', EXISTS (SELECT 1 FROM aee_pairs WHERE status IN ('open', 'held') AND deadline <= $1)),
             ('moments', EXISTS (SELECT 1 FROM moments WHERE due_at <= $1)
                 OR EXISTS (SELECT 1 FROM moments m JOIN job_clock c ON c.job_id = m.job_id
                            WHERE m.job_id IS NOT NULL AND m.state IN ('open', 'deliberating')
                              AND m.resolution_kind IS NULL AND c.ended_at IS NOT NULL)
                 OR EXISTS (SELECT 1 FROM moments v JOIN moments n ON n.id = v.superseded_by
                            WHERE v.resolution_kind = 'dialogue' AND v.veto_settled_at IS NULL
                              AND v.state = 'superseded' AND n.state IN ('withdrawn', 'expired'))),
             ('suspensions', EXISTS (SELECT 1 FROM suspensions WHERE state = 'open' AND expires_at <= $1)), ('coordinators', EXISTS (SELECT 1 FROM coordinators WHERE due_at <= $1)),
             ('retries', EXISTS (SELECT 1 FROM failures WHERE due_at <= $1)), ('memory', EXISTS (SELECT 1 FROM memory_entries WHERE expires_at <= $1)),
             ('trigger_events', EXISTS (SELECT 1 FROM triggers WHERE listens AND enabled AND removed_at IS NULL)),
             ('triggers', EXISTS (SELECT 1 FROM triggers WHERE next_due <= $1 AND enabled AND removed_at IS NULL)
                 OR EXISTS (SELECT 1 FROM trigger_firings f JOIN triggers t ON t.id = f.trigger_id
                            WHERE f.status IN ('heard', 'waiting')
                              AND (f.status = 'heard' OR t.deduplication <> 'queue' OR NOT EXISTS (
                                  SELECT 1 FROM trigger_intents i
                                  WHERE i.open AND i.principal_id = t.principal_id AND i.type = t.makes
                                    AND (t.namespace IS NULL OR i.namespace = t.namespace))))),
             ('federation_reports', EXISTS (SELECT 1 FROM federation_deliveries WHERE ended_at IS NULL)),
             ('tool_grants', EXISTS (SELECT 1 FROM tool_credentials WHERE expires_at <= $1 AND NOT expired AND revoked_at IS NULL)
                 OR EXISTS (SELECT 1 FROM tool_grants WHERE expires_at <= $1 AND NOT expired AND revoked_at IS NULL)),
             ('fan-out', EXISTS (SELECT 1 FROM webhook_endpoints WHERE removed_at IS NULL) OR EXISTS (SELECT 1 FROM webhook_replays)),
             ('search', EXISTS (SELECT 1 FROM search_backlog)), ('letters', EXISTS (SELECT 1 FROM federation_letters WHERE due_at <= $1)),
             ('deliveries', EXISTS (SELECT 1 FROM webhook_shifts WHERE due_at <= $1 AND (claimed_until IS NULL OR claimed_until <= $1))), ('notifications', EXISTS (SELECT 1 FROM contact_points WHERE due_at <= $1 AND (claimed_until IS NULL OR claimed_until <= $1))), ('task_pushes', EXISTS (SELECT 1 FROM task_pushes WHERE due_at <= $1 AND behind AND (claimed_until IS NULL OR claimed_until <= $1))),
             ('revocations', EXISTS (SELECT 1 FROM credentials WHERE state = 'revoking' AND due_at <= $1)), ('bridges', EXISTS (SELECT 1 FROM aee_bridges) OR EXISTS (SELECT 1 FROM trigger_firings WHERE job IS NOT NULL AND (job_next_at IS NULL OR job_next_at <= $1))),
             ('stopped_jobs', EXISTS (SELECT 1 FROM stops WHERE lifted_at IS NULL) OR EXISTS (SELECT 1 FROM stopped_jobs)),
             ('budgets', EXISTS (SELECT 1 FROM budget_reached r WHERE r.handled_at IS NULL AND (r.moment_id IS NULL OR EXISTS (
                 SELECT 1 FROM moments m WHERE m.id = r.moment_id AND coalesce(m.ended_at::text, m.resolution_kind) IS NOT NULL)))),
             ('reservations', EXISTS (SELECT 1 FROM spend_reservations WHERE expires_at <= $1 AND ended_at IS NULL)),
             ('inboxes', EXISTS (SELECT 1 FROM inboxes) OR EXISTS (SELECT 1 FROM inbox_cursor WHERE global IS NOT NULL)),
             ('inbox_rings', EXISTS (SELECT 1 FROM inbox_entries WHERE rings_at <= $1)), ('loop_holds', EXISTS (SELECT 1 FROM loop_cursor WHERE holds > $6)),
             ('stops', $3 < greatest(-1, (SELECT max(changed_seq) FROM stops), (SELECT max(changed_seq) FROM budgets), (SELECT max(changed_seq) FROM teams))),
             ('quotas', $7 < greatest(-1, (SELECT max(changed_seq) FROM quotas), (SELECT max(changed_seq) FROM teams)) OR EXISTS (SELECT 1 FROM storage_clock WHERE laps > $8)),
             ('strict', EXISTS (SELECT 1 FROM agent_sessions WHERE strict_seq > greatest($4::bigint, 0))),
             ('loops', (($5 OR EXISTS (SELECT 1 FROM loop_policies WHERE enabled)) AND EXISTS (SELECT 1 FROM loop_backlog))
                 OR EXISTS (SELECT 1 FROM loop_news) OR EXISTS (SELECT 1 FROM talks WHERE due_at <= $1)),
             ('keys', EXISTS (SELECT 1 FROM keys WHERE changed_seq > $2))
         ) AS w (word, due)"#,
        ctx.now(),
        ctx.grants.seen(),
        ctx.stops.seen(),
        ctx.strict_agents.seen(),
        ctx.settings.loops.enabled,
        ctx.loops.seen(),
        ctx.quotas.seen(),
        ctx.quotas.laps()
    )
    .fetch_all(&ctx.pool)
    .await?;
    Ok(rows.into_iter().map(|row| (row.word, row.due)).collect())
}
