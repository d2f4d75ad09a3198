//! Concurrent reservations over nested budgets on two servers: never more than the limits. `tests/it/ledger/spending.rs`
//! kills the servers meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::join_all;

use entente_harness::{Client, Value, World, json};

use super::{budget, usage};

/// Cents that the widest budget allows.
const CENTS: u64 = 2_000;
/// Concurrent callers.
const CALLERS: usize = 32;

/// Reserves a cent at a time, and settles most of them, until nothing is left; returns the cents charged.
async fn spender(client: Client, name: usize, spent: Arc<AtomicU64>) {
    for n in 0.. {
        let agent = if name.is_multiple_of(2) { "agent.even" } else { "agent.odd" };
        let call =
            json!({ "agent_id": agent, "reserve": { "USD": "0.01" }, "call_id": format!("{name}-{n}") });
        let Some(made) = client.try_send("POST", "/spend/reservations", Some(call.to_string())).await else {
            // The server was killed; whether the amount is held is unknown, and the same call finds out.
            return;
        };
        if made.status == 403 {
            return;
        }
        if made.status != 201 {
            continue;
        }
        let path = format!("/spend/reservations/{}/settle", made.json()["reservation_id"].as_str().unwrap());
        let cost = json!({ "cost": { "USD": if n % 3 == 0 { "0.005" } else { "0.01" } } });
        if let Some(settled) = client.try_send("POST", &path, Some(cost.to_string())).await
            && settled.status == 200
        {
            spent.fetch_add(if n % 3 == 0 { 5 } else { 10 }, Ordering::Relaxed);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_overspent_over_three_nested_budgets_on_two_servers() {
    let (one, other) = World::two().await;
    let admin = one.admin().await;
    admin.put("/teams/all", json!({ "members": ["service.any"] })).await.is(200);
    let dollars = |cents: u64| json!(format!("{}.{:02}", cents / 100, cents % 100));
    let system = budget(&admin, "system", dollars(CENTS), json!({})).await;
    let team = budget(&admin, "team:all", dollars(CENTS + 100), json!({ "window": "month" })).await;
    let even = budget(&admin, "agent:agent.even", dollars(CENTS / 4), json!({ "window": "day" })).await;
    let spent = Arc::new(AtomicU64::new(0));
    let callers = (0..CALLERS).map(|name| {
        let client = if name % 4 < 2 { one.any() } else { other.any() };
        tokio::spawn(spender(client, name, Arc::clone(&spent)))
    });
    for done in join_all(callers).await {
        done.unwrap();
    }
    let within = |[limit, spent, reserved, left]: [Value; 4]| {
        let number = |value: &Value| value.as_f64().unwrap();
        assert!(
            number(&spent) + number(&reserved) <= number(&limit) + 1e-9,
            "{spent} and {reserved} of {limit}"
        );
        assert!(number(&left) >= -1e-9);
        number(&spent)
    };
    let all = within(usage(&admin, &system).await);
    within(usage(&admin, &team).await);
    let half = within(usage(&admin, &even).await);
    #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
    let counted = spent.load(Ordering::Relaxed) as f64 / 1_000.0;
    assert!((all - counted).abs() < 1e-9, "{all} charged, {counted} acknowledged");
    assert!(half > 4.9, "the narrow budget was used up: {half}");
    assert!(all > 19.9, "and the wide one: {all}");
    let report = admin.get("/spend").await.ok();
    assert!(
        (report["lines"][0]["amount"].as_f64().unwrap() - all).abs() < 1e-9,
        "every cost is on record once"
    );
    other.end().await;
    one.end().await;
}
