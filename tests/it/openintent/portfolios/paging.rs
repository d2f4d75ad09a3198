//! The intents of a portfolio, page by page, in their current state.

use super::{portfolio, put};
use crate::openintent::graphs::{intent, shut};
use entente_harness::{World, ids, json};

#[tokio::test(flavor = "multi_thread")]
async fn its_intents_come_in_pages_and_its_sums_are_of_all() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let bob = world.agent("agent.bob").await;
    let folio = portfolio(&bob, "Q1").await;
    let mut ordered = Vec::new();
    for priority in [9, 0, 0, 0, -3] {
        world.clock.advance(1);
        let one = intent(&ada, "one", json!({})).await;
        let ask = json!({ "intent_id": one, "priority": priority });
        bob.post(&format!("/portfolios/{folio}/intents"), ask).await.is(200);
        ordered.push(one);
    }
    shut(&ada, &ordered.remove(2)).await;
    for path in [format!("/portfolios/{folio}"), format!("/portfolios/{folio}/intents")] {
        let whole = bob.get(&path).await;
        assert!(!whole.headers.contains_key("entente-next-cursor"));
        assert_eq!(ids(&whole.ok()["intents"]), ordered);
        let (mut after, mut seen) = (String::new(), Vec::new());
        loop {
            let page = bob.get(&format!("{path}?limit=1{after}")).await;
            let body = page.is(200);
            assert_eq!(body["memberships"][0]["intent_id"], body["intents"][0]["id"]);
            assert_eq!(body["aggregate_status"]["total"], 4, "of what may be read, whatever the page");
            seen.extend(ids(&body["intents"]));
            let Some(next) = page.headers.get("entente-next-cursor") else { break };
            after = format!("&after={}", next.to_str().unwrap());
        }
        assert_eq!(seen, ordered);
        // A page's cursor stays valid when the intent there is removed.
        let page = bob.get(&format!("{path}?limit=2")).await;
        let gone = &ordered[1];
        bob.delete(&format!("/portfolios/{folio}/intents/{gone}")).await.is(200);
        let rest = bob.get(&format!("{path}?after={}", page.header("entente-next-cursor"))).await.is(200);
        assert_eq!(ids(&rest["intents"]), ordered[2..]);
        world.clock.advance(1);
        put(&bob, &folio, gone).await;
        let gone = ordered.remove(1);
        ordered.insert(2, gone);
        for wrong in ["limit=0", "limit=1001", "after=what", "after=1.what", "after=x.mem"] {
            bob.get(&format!("{path}?{wrong}")).await.refused(422, "invalid_parameter");
        }
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_are_shown_where_nothing_is_said() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let folio = portfolio(&ada, "Q1").await;
    let root = intent(&ada, "root", json!({})).await;
    for _ in 0..101 {
        let one = intent(&ada, "part", json!({ "parent_intent_id": root })).await;
        put(&ada, &folio, &one).await;
    }
    for (path, list) in [
        (format!("/portfolios/{folio}"), "intents"),
        (format!("/portfolios/{folio}/intents"), "intents"),
        (format!("/intents/{root}/children"), "children"),
        (format!("/intents/{root}/ready"), "ready"),
    ] {
        let page = ada.get(&path).await;
        assert_eq!(page.is(200)[list].as_array().unwrap().len(), 100, "{path}");
        let rest = ada.get(&format!("{path}?after={}", page.header("entente-next-cursor"))).await;
        assert_eq!(rest.is(200)[list].as_array().unwrap().len(), 1, "{path}");
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_intent_whose_question_has_ended_is_shown_as_it_is() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    world.human("human.ada").await;
    let folio = portfolio(&ada, "Q1").await;
    let one = intent(&ada, "Refund", json!({ "status": "active" })).await;
    put(&ada, &folio, &one).await;
    let ask = json!({
        "question": "Refund?", "response_type": "choice", "principal_id": "human.ada", "timeout_seconds": 30,
        "choices": [{ "value": "yes", "label": "Yes" }, { "value": "no", "label": "No" }],
        "fallback_policy": "complete_with_fallback", "fallback_value": "no",
    });
    ada.post(&format!("/intents/{one}/suspend"), ask).await.is(201);
    world.clock.advance(30);
    // No sweep has recorded it yet.
    let alone = ada.get(&format!("/intents/{one}")).await.ok();
    assert_eq!(alone["status"], "active");
    let shown = ada.get(&format!("/portfolios/{folio}")).await.ok();
    assert_eq!(shown["intents"], json!([alone]));
    assert_eq!(shown["aggregate_status"]["by_status"], json!({ "active": 1 }));
    world.end().await;
}
