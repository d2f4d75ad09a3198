//! What one client may have of receivers, beside others.

use entente_arcp::jobs;
use entente_domain::a2a::pushes::PushConfig;
use entente_domain::ids::NodeId;

use super::{begun, config, push, status, told, with_receiver};
use crate::a2a::{ECHO, brief, done, echo, failed, further, visitor};
use entente_harness::{Receiver, World, json};

#[tokio::test]
async fn a_message_whose_receiver_is_refused_is_not_delivered() {
    let world = World::start().await;
    let (client, hand) = (visitor(&world, "agent.client").await, echo(&world).await);
    let (task, job) = begun(&client, &hand, brief("m-1", "hello")).await;
    hand.events(&job, status("input_required", "Where to?")).await.ok();
    let path = format!("{ECHO}/tasks/{}/pushNotificationConfigs", task["id"].as_str().unwrap());
    let one = |n: usize| json!({ "id": format!("r-{n}"), "url": "https://a.example/" });
    for n in 0..10 {
        client.post(&path, one(n)).await.is(200);
    }
    let mut params = further(&task, "m-2", "Oslo");
    params["configuration"]["taskPushNotificationConfig"] = one(10);
    assert_eq!(failed(&client, "SendMessage", params.clone()).await.0, -32_602);
    let signals = async || -> i64 {
        let text = "SELECT sum(signals_sent)::bigint FROM job_clock";
        sqlx::query_scalar(text).fetch_one(&world.ctx().pool).await.unwrap()
    };
    assert_eq!(signals().await, 0);
    params["configuration"]["taskPushNotificationConfig"] = one(3);
    done(&client, "SendMessage", params).await;
    assert_eq!(signals().await, 1);
    world.end().await;
}

#[tokio::test]
async fn receivers_without_ids_are_one_for_each_principal() {
    let world = World::start().await;
    let (client, hand) = (visitor(&world, "agent.client").await, echo(&world).await);
    let (first, second) = (Receiver::start().await, Receiver::start().await);
    let (task, job) = begun(&client, &hand, with_receiver("m-1", &first)).await;
    let admin = world.admin().await.with("a2a-version", "1.0");
    let path = format!("{ECHO}/tasks/{}/pushNotificationConfigs", task["id"].as_str().unwrap());
    let made = admin.post(&path, config(&second)).await.is(200);
    assert_ne!(made["id"], task["id"]);
    assert_eq!(admin.post(&path, config(&second)).await.is(200)["id"], made["id"], "the same one");
    assert_eq!(client.post(&path, config(&first)).await.is(200)["id"], task["id"]);
    assert_eq!(admin.get(&path).await.is(200)["configs"].as_array().unwrap().len(), 2);
    hand.tell(&job, "result", json!({ "result": "x" })).await.ok();
    push(&world).await;
    assert_eq!(told(&first.take()).last().unwrap(), "COMPLETED");
    assert_eq!(told(&second.take()).last().unwrap(), "COMPLETED");
    world.end().await;
}

#[tokio::test]
async fn receivers_of_others_take_no_place_at_a_task() {
    let world = World::start().await;
    let (client, hand) = (visitor(&world, "agent.client").await, echo(&world).await);
    let (task, _job) = begun(&client, &hand, brief("m-1", "hello")).await;
    let admin = world.admin().await.with("a2a-version", "1.0");
    let path = format!("{ECHO}/tasks/{}/pushNotificationConfigs", task["id"].as_str().unwrap());
    let one = |n: usize| json!({ "id": format!("r-{n}"), "url": "https://a.example/" });
    for n in 0..10 {
        admin.post(&path, one(n)).await.is(200);
    }
    admin.post(&path, one(10)).await.is(400);
    client.post(&path, one(11)).await.is(200);
    world.end().await;
}

#[tokio::test]
async fn a_principal_has_a_limit_and_a_share() {
    let world = World::start().await;
    let (many, few) = (visitor(&world, "agent.many").await, visitor(&world, "agent.few").await);
    let hand = echo(&world).await;
    let receiver = Receiver::start().await;
    let (task, job) = begun(&many, &hand, brief("m-1", "hello")).await;
    let path = format!("{ECHO}/tasks/{}/pushNotificationConfigs", task["id"].as_str().unwrap());
    for n in 0..10 {
        many.post(&path, json!({ "id": format!("r-{n}"), "url": receiver.url() })).await.is(200);
    }
    hand.events(&job, status("working", "one")).await.ok();
    world.clock.advance(1);
    let (later, job) = begun(&few, &hand, with_receiver("m-2", &receiver)).await;
    hand.events(&job, status("working", "one")).await.ok();
    // Of eight leases each principal gets two, in turn, whoever has waited longest.
    let arcp = &world.ctx().arcp;
    let node = NodeId::mint(world.ctx().now(), &*world.ctx().chance);
    let claim = async || {
        let claimed = jobs::claim_pushes(arcp, node, 8, 8).await.unwrap();
        let mut jobs: Vec<String> = claimed.iter().map(|lease| lease.job.to_string()).collect();
        jobs.sort_unstable();
        jobs
    };
    let (task_id, later_id) = (task["id"].as_str().unwrap(), later["id"].as_str().unwrap());
    assert_eq!(claim().await, [task_id, task_id, later_id]);
    assert!(claim().await.is_empty(), "it holds its share");
    // At most 5,000 in all, at tasks that are not over.
    let text = "INSERT INTO task_pushes (job_id, id, key_id, principal_id, agent_id, context, url, created_at, position, told, due_at)
                SELECT gen_random_uuid(), 'x', key_id, principal_id, agent_id, context, url, created_at, position, told, due_at
                FROM (SELECT * FROM task_pushes WHERE id = 'r-0') p, generate_series(1, 4990)";
    sqlx::query(text).execute(&world.ctx().pool).await.unwrap();
    let one = json!({ "taskId": later["id"], "id": "other", "url": receiver.url() });
    done(&few, "CreateTaskPushNotificationConfig", one).await;
    many.delete(&format!("{path}/r-9")).await.is(200);
    many.post(&path, json!({ "id": "r-9", "url": receiver.url() })).await.is(200);
    let mut params = brief("m-3", "hello");
    params["configuration"]["taskPushNotificationConfig"] = config(&receiver);
    assert_eq!(failed(&many, "SendMessage", params).await.0, -32_602);
    assert!(hand.claim(10).await.is_empty(), "it is no job");
    world.end().await;
}

#[test]
fn secrets_are_not_written_to_logs() {
    let text = json!({
        "url": "https://a.example/?key=in-the-url", "token": "of-the-client",
        "authentication": { "scheme": "Bearer", "credentials": "of-the-receiver" },
    });
    let config: PushConfig = serde_json::from_value(text).unwrap();
    let told = format!("{config:?}");
    assert!(told.contains("Bearer"), "{told}");
    for secret in ["in-the-url", "of-the-client", "of-the-receiver"] {
        assert!(!told.contains(secret), "{told}");
    }
}
