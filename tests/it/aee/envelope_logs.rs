//! Logged envelope lines (AEE §7.2): stored byte for byte and independently, readable only by their sender, and
//! kept for a limited time.

use entente_harness::{Client, Reply, Setup, Value, World, json};

fn line(n: usize) -> String {
    format!(r#"{{"v":"1","id":"line-{n:05}","type":"event","from":"agent.ada","intent":"ops.log"}}"#)
}

async fn post(client: &Client, body: &str) -> Reply {
    client.send("POST", "/aee/logs", Some(body.to_owned())).await
}

async fn rows(world: &World, table: &str) -> i64 {
    let count = sqlx::AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
    sqlx::query_scalar(count).fetch_one(&world.ctx().pool).await.unwrap()
}

async fn numbers(client: &Client, query: &str) -> Vec<i64> {
    let page = client.get(&format!("/aee/logs{query}")).await.ok();
    page.as_array().unwrap().iter().map(|kept| kept["seq"].as_i64().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_are_kept_letter_by_letter_and_each_for_itself() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let before = rows(&world, "events").await;
    // Blanks, a number that JSON parsers would rewrite, an unknown member, and a whole envelope.
    let odd =
        r#"{ "v":"1", "id":"line-odd",  "type":"event","from":"agent.ada","intent":"ops.log","x":1.50e1 }"#;
    let whole = r#"{"v":"1","id":"01JFB2R1JZKQ9V3K8W8Y9W1F2A","ts":"2026-11-21T08:00:00Z","type":"task","from":"agent.eve","to":"agent.bob","intent":"ops.check","corr":"thread-1","priority":"low","payload":{}}"#;
    let body = [odd, "", "{", whole, r#"{"v":"1"}"#, r#"{"v":"1","v":"1"}"#, &line(1)].join("\n");
    let reply = post(&ada, &body).await.is(207);
    assert_eq!((&reply["kept"], &reply["refused"]), (&json!(3), &json!(3)));
    let told: Vec<(u64, bool, Value)> = reply["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            (one["index"].as_u64().unwrap(), one["ok"].as_bool().unwrap(), one["error"]["code"].clone())
        })
        .collect();
    let none = Value::Null;
    assert_eq!(
        told,
        [
            (0, true, none.clone()),
            (2, false, json!("invalid_json")),
            (3, true, none.clone()),
            (4, false, json!("invalid_envelope")),
            (5, false, json!("invalid_json")),
            (6, true, none),
        ]
    );
    let page = ada.get("/aee/logs").await;
    let kept = page.ok();
    assert_eq!(kept.as_array().unwrap().len(), 3);
    assert!(
        page.text.contains(odd) && page.text.contains(whole) && page.text.contains(&line(1)),
        "{}",
        page.text
    );
    assert_eq!(kept[0]["received_at"], "2026-11-21T08:00:00.000000Z");
    assert_eq!(ada.get("/aee/logs?corr=thread-1").await.ok(), json!([kept[1]]));
    assert_eq!(ada.get("/aee/logs?corr=thread-2").await.ok(), json!([]));
    let all = post(&ada, &format!("{}\r\n{}\r\n", line(2), line(3))).await.is(201);
    assert_eq!((&all["kept"], &all["results"][1]["index"]), (&json!(2), &json!(1)));
    // Nothing was delivered: no envelope, no event, no mailbox.
    for table in ["aee_envelopes", "aee_mailboxes", "aee_items", "aee_pairs"] {
        assert_eq!(rows(&world, table).await, 0, "{table}");
    }
    assert_eq!(rows(&world, "events").await, before);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_are_no_lines_are_refused_whole() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    for empty in ["", "\n \n\r\n"] {
        post(&ada, empty).await.refused(422, "invalid_request");
    }
    let many: Vec<String> = (0..1_001).map(line).collect();
    post(&ada, &many.join("\n")).await.refused(413, "too_large");
    assert_eq!(numbers(&ada, "").await, [0; 0], "not even the first thousand");
    post(&ada, &many[..1_000].join("\n")).await.is(201);
    post(&ada, &"x".repeat(3 * 1024 * 1024)).await.refused(413, "too_large");
    // A line has the same size limit as an envelope.
    let long = line(1).replace("ops.log\"", &format!("ops.log\",\"x\":\"{}\"", "x".repeat(256 * 1024)));
    assert_eq!(post(&ada, &long).await.is(207)["results"][0]["error"]["code"], "too_large");
    for bad in ["?after=-1", "?after=x", "?limit=0", "?limit=1001"] {
        ada.get(&format!("/aee/logs{bad}")).await.refused(422, "invalid_parameter");
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_are_read_page_by_page_by_their_own_principal() {
    let world = World::start().await;
    let (ada, eve) = (world.agent("agent.ada").await, world.agent("agent.eve").await);
    let thread = |n: usize| line(n).replace("ops.log\"", "ops.log\",\"corr\":\"thread-1\"");
    for n in 0..3 {
        post(&ada, &[line(3 * n), thread(3 * n + 1), line(3 * n + 2)].join("\n")).await.is(201);
        post(&eve, &thread(100 + n)).await.is(201);
    }
    let all = numbers(&ada, "").await;
    assert_eq!(all.len(), 9);
    assert!(all.is_sorted());
    assert_eq!(numbers(&ada, "?limit=4").await, all[..4]);
    assert_eq!(numbers(&ada, &format!("?limit=4&after={}", all[3])).await, all[4..8]);
    assert_eq!(numbers(&ada, &format!("?after={}", all[8])).await, [0; 0]);
    let threads = numbers(&ada, "?corr=thread-1").await;
    assert_eq!(threads, [all[1], all[4], all[7]]);
    assert_eq!(numbers(&ada, &format!("?corr=thread-1&limit=1&after={}", all[1])).await, [all[4]]);
    let theirs = eve.get("/aee/logs").await;
    assert_eq!(theirs.ok().as_array().unwrap().len(), 3);
    assert!(!theirs.text.contains("line-00000"), "{}", theirs.text);
    // Large lines end a page early, but none is skipped.
    let large =
        |n: usize| line(n).replace("ops.log\"", &format!("ops.log\",\"x\":\"{}\"", "x".repeat(200_000)));
    let bob = world.agent("agent.bob").await;
    for n in 0..5 {
        post(&bob, &(5 * n..5 * n + 5).map(large).collect::<Vec<_>>().join("\n")).await.is(201);
    }
    let (mut read, mut pages) = (Vec::new(), 0);
    loop {
        let after = read.last().copied().unwrap_or(0);
        let page = numbers(&bob, &format!("?limit=1000&after={after}")).await;
        if page.is_empty() {
            break;
        }
        read.extend(page);
        pages += 1;
    }
    assert_eq!((read.len(), pages), (25, 2));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_keeps_nothing_twice() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let once = ada.once("k1");
    let body = [line(1), "{".to_owned(), line(2)].join("\n");
    let first = post(&once, &body).await.is(207);
    assert_eq!(post(&once, &body).await.is(207), first);
    let at_once = (0..4).map(|_| post(&once, &body));
    for reply in futures_util::future::join_all(at_once).await {
        assert_eq!(reply.is(207), first);
    }
    assert_eq!(numbers(&ada, "").await.len(), 2);
    post(&once, &line(3)).await.refused(409, "idempotency_mismatch");
    post(&ada, &body).await.is(207);
    assert_eq!(numbers(&ada, "").await.len(), 4, "without a key it is another one");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_are_taken_away_when_their_time_is_over() {
    let settings = vec![("ENTENTE_AEE_RETENTION_DAYS", "2")];
    let world = World::with(Setup { settings, live: false }).await;
    let ada = world.agent("agent.ada").await;
    post(&ada, &line(1)).await.is(201);
    world.clock.advance(3_600);
    post(&ada, &line(2)).await.is(201);
    world.pass(2 * 24 * 3_600 - 3_600).await;
    assert_eq!(numbers(&ada, "").await.len(), 2, "two days are two days");
    world.pass(1).await;
    assert!(ada.get("/aee/logs").await.text.contains("line-00002"));
    assert_eq!(numbers(&ada, "").await.len(), 1);
    world.pass(3_600).await;
    assert_eq!(numbers(&ada, "").await, [0; 0]);
    world.end().await;
}
