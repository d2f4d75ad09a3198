//! Creates due rows for the sweeps of moments, cursors, coordinators, triggers, memory and tools.

use entente::background::sweeps::Sweep;
use sqlx::raw_sql;

use entente_harness::vaults::grant;
use entente_harness::vaults::{SECRET, credential, vault};
use entente_harness::{World, json, talk};

/// Creates `due` due rows for the sweep.
pub async fn prepare(world: &World, sweep: Sweep, due: u64) {
    let ada = world.agent("agent.ada").await;
    match sweep {
        Sweep::Moments => entente_harness::moments::lapsed(world, due).await,
        Sweep::Links => entente_harness::people::lapsed(world, due).await,
        Sweep::Cursors => entente_harness::mcp::lapsed(world, due).await,
        Sweep::Triggers | Sweep::TriggerFirings => {
            crate::openintent::triggers::lapsed(world, sweep, due).await;
        }
        Sweep::Memory => crate::openintent::memory::lapsed(world, due).await,
        Sweep::OldEvents => {
            let intent = talk(&ada, json!({})).await.0;
            // With the intent's creation and its channel one more than are due: the last one stays.
            for _ in 0..4 {
                let note = json!({ "event_type": "note" });
                ada.post(&format!("/intents/{intent}/events"), note).await.ok();
            }
            let admin = world.admin().await;
            admin.post("/admin/checkpoints", json!({ "intent_id": intent })).await.is(201);
            world.clock.advance(24 * 3600 + 1);
        }
        Sweep::Suspensions => {
            let question = json!({ "question": "Go on?", "response_type": "text", "timeout_seconds": 60 });
            for _ in 0..due {
                let intent = ada.post("/intents", json!({ "title": "t", "status": "active" })).await.ok();
                let intent = intent["id"].as_str().unwrap();
                ada.post(&format!("/intents/{intent}/suspend"), question.clone()).await.is(201);
            }
            world.clock.advance(60);
        }
        Sweep::Coordinators => {
            for _ in 0..due {
                let intent = talk(&ada, json!({})).await.0;
                let ask =
                    json!({ "intent_id": intent, "agent_id": "agent.ada", "heartbeat_interval_seconds": 30 });
                ada.post("/coordinators", ask).await.is(200);
            }
            // Silent for two intervals, but not for five.
            world.clock.advance(61);
        }
        Sweep::ToolGrants => {
            let put = credential(&ada, &vault(&ada).await, json!({ "secret": SECRET })).await;
            for _ in 0..due {
                grant(&ada, &put, "agent.bob", json!({ "expires_at": "2026-11-21T08:01:00Z" })).await;
            }
            world.clock.advance(60);
        }
        Sweep::Invocations => {
            let sql = "INSERT INTO tool_invocations (id, grant_id, owner_id, service, tool, agent_id, parameters, status, context, reported,
                                                     started_at, deadline_at)
                 SELECT gen_random_uuid(), gen_random_uuid(), 'agent.ada', 'mail', 'send', 'agent.ada', '{}', 'running', '{}', false,
                        '2026-11-21T08:00:00Z', '2026-11-21T08:01:00Z' FROM generate_series(1, 5)";
            raw_sql(sql).execute(&world.ctx().pool).await.unwrap();
            world.clock.advance(60);
        }
        Sweep::OldNotifications => {
            let sql = "INSERT INTO contact_points (id, principal_id, kind, address, settings, created_at)
                 SELECT gen_random_uuid(), 'agent.ada', 'mail', 'ada@example.com', '{}', '2026-11-21T08:00:00Z';
                 INSERT INTO notifications (contact_id, reason, subject, step, created_at, due_at, status, finished_at)
                 SELECT id, 'test', n::text, 0, created_at, created_at, 'sent', created_at
                 FROM contact_points, generate_series(1, 5) n";
            raw_sql(sql).execute(&world.ctx().pool).await.unwrap();
            world.clock.advance(7 * 24 * 3600 + 1);
        }
        _ => unreachable!("{sweep:?} is prepared elsewhere"),
    }
}
