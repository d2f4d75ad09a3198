//! The page of budgets and stops: what is spent, and the switch.

use crate::harness::{World, json};
use crate::kernel::people::logged_in;

#[tokio::test]
async fn an_operator_sees_what_is_spent_and_stops_a_scope() {
    let world = World::start().await;
    let (admin, any) = (world.admin().await, world.any());
    let name = json!({ "scope": "system", "unit": "USD", "limit": 10, "name": "<b>all</b>" });
    admin.post("/budgets", name).await.is(201);
    any.post("/spend/reservations", json!({ "reserve": { "USD": 4 } })).await.is(201);
    let mut eve = logged_in(&world, "human.eve", true).await;
    let page = eve.get("/budgets").await;
    assert!(page.text.contains("0 of 10 USD spent, 4 reserved, 6 left"), "{}", page.text);
    assert!(!page.text.contains("<b>all"), "names are text");
    let wrong = eve.act("/stops", "/budgets", &[("scope", "everything"), ("reason", "x")]).await;
    assert!(wrong.status == 422 && wrong.text.contains("team:NAME"), "{}", wrong.text);
    let stopped = eve.act("/stops", "/budgets", &[("scope", "system"), ("reason", "too much")]).await;
    assert_eq!((stopped.status, stopped.location.as_str()), (303, "/budgets"));
    any.post("/spend/reservations", json!({ "reserve": { "USD": 1 } })).await.refused(403, "stopped");
    let page = eve.get("/budgets").await;
    assert!(page.text.contains("too much") && page.text.contains("by human.eve"), "{}", page.text);
    let lift = page.between("action=\"/stops/", "\"");
    assert_eq!(eve.act(&format!("/stops/{lift}"), "/budgets", &[]).await.status, 303);
    any.post("/spend/reservations", json!({ "reserve": { "USD": 1 } })).await.is(201);
    world.end().await;
}

#[tokio::test]
async fn who_is_no_admin_sees_no_switch_and_stops_nothing() {
    let world = World::start().await;
    let mut bob = logged_in(&world, "human.bob", false).await;
    let page = bob.get("/budgets").await;
    assert!(page.status == 200 && !page.text.contains("Stop now"), "{}", page.text);
    // The log-out form has the token.
    let refused = bob.act("/stops", "/budgets", &[("scope", "system"), ("reason", "x")]).await;
    assert_eq!(refused.status, 403, "{}", refused.text);
    let foreign =
        bob.from("cross-site").act("/stops", "/budgets", &[("scope", "system"), ("reason", "x")]).await;
    assert!(foreign.status >= 400);
    assert_eq!(world.admin().await.get("/stops").await.ok()["stops"], json!([]));
    world.end().await;
}
