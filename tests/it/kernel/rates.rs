//! The rate limit of a key: its size, the headers and the recovery. The limit uses the machine's
//! monotonic clock, not the test's clock.

use std::time::Duration;

use entente_harness::keys::key;
use entente_harness::{Reply, Setup, World, json};

fn number(reply: &Reply, header: &str) -> u64 {
    reply.header(header).parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_asks_too_often_is_told_when_to_come_back() {
    let world = World::start().await;
    let admin = world.admin().await;
    let made = key(&world, &admin, "agent.ada", json!({ "rate_per_second": 1 })).await.client;
    let first = made.get("/principals/me").await;
    first.ok();
    assert_eq!((number(&first, "ratelimit-limit"), number(&first, "ratelimit-remaining")), (1, 1));
    assert_eq!(first.header("ratelimit-reset"), "1");
    let burst = (0..20).map(|_| made.get("/principals/me"));
    let replies = futures_util::future::join_all(burst).await;
    let (passed, waiting): (Vec<_>, Vec<_>) = replies.into_iter().partition(|reply| reply.status == 200);
    // A burst of two seconds' worth, and one more for each second that the machine took for the requests.
    assert!(!waiting.is_empty() && passed.len() < 10, "{} passed", passed.len());
    for reply in &waiting {
        reply.refused(429, "rate_limited");
        assert!((1..=2).contains(&number(reply, "retry-after")), "{}", reply.header("retry-after"));
        assert_eq!((number(reply, "ratelimit-limit"), number(reply, "ratelimit-remaining")), (1, 0));
    }
    // Another key of the same principal has its own limit.
    let other = key(&world, &admin, "agent.ada", json!({ "rate_per_second": 0 })).await.client;
    for _ in 0..20 {
        assert!(!other.get("/principals/me").await.headers.contains_key("ratelimit-limit"), "no limit");
    }
    // After the `Retry-After` delay the request passes.
    let told = made.get("/principals/me").await;
    if told.status == 429 {
        tokio::time::sleep(Duration::from_secs(number(&told, "retry-after"))).await;
        made.get("/principals/me").await.ok();
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_without_a_rate_has_the_servers() {
    let settings = vec![("ENTENTE_RATE_PER_SECOND", "7")];
    let world = World::with(Setup { settings, live: false }).await;
    let admin = world.admin().await;
    let usual = key(&world, &admin, "agent.ada", json!({})).await.client.get("/principals/me").await;
    assert_eq!((number(&usual, "ratelimit-limit"), number(&usual, "ratelimit-remaining")), (7, 13));
    let own = key(&world, &admin, "agent.ada", json!({ "rate_per_second": 3 })).await.client;
    assert_eq!(number(&own.get("/principals/me").await, "ratelimit-limit"), 3);
    // A seeded key has no limit, and an unauthenticated caller has none to report.
    let seeded = world.agent("agent.bob").await.get("/principals/me").await;
    assert!(!seeded.headers.contains_key("ratelimit-limit"));
    let nobody = world.anon().get("/principals/me").await;
    nobody.refused(401, "unauthenticated");
    assert!(!nobody.headers.contains_key("ratelimit-limit"));
    world.end().await;
}
