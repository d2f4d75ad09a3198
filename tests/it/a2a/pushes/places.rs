//! Places of receivers: within the updates of an event, beside rejections, failures, and changes during a request.

use std::time::Duration;

use super::{begun, config, push, status, told, with_receiver};
use crate::a2a::{brief, done, echo, further, visitor};
use entente_harness::jobs::Hand;
use entente_harness::{Act, Client, Receiver, Setup, Value, World, json};

/// Begins a task with a receiver, and ends it with a result; returns the task.
async fn ended(client: &Client, hand: &Hand, receiver: &Receiver) -> Value {
    let task = done(client, "SendMessage", with_receiver("m-1", receiver)).await["task"].clone();
    let job = hand.one().await;
    hand.tell(&job, "result", json!({ "result": "two" })).await.ok();
    task
}

#[tokio::test]
async fn a_slow_receiver_gets_the_end_and_nothing_twice() {
    let settings = vec![("ENTENTE_WEBHOOK_TIMEOUT_SECONDS", "10")];
    let world = World::with(Setup { settings, live: false }).await;
    let (client, hand, receiver) =
        (visitor(&world, "agent.client").await, echo(&world).await, Receiver::start().await);
    // Two of the end's three updates take longer than a lease.
    let slow = || Act::Late(Duration::from_millis(2_600), 200);
    receiver.does([slow(), slow(), Act::Say(200, "")]);
    ended(&client, &hand, &receiver).await;
    tokio::time::timeout(Duration::from_secs(20), push(&world)).await.expect("an end");
    assert_eq!(told(&receiver.take()), ["WORKING", "two", "COMPLETED"]);
    world.end().await;
}

#[tokio::test]
async fn a_rejected_update_is_left_out_alone() {
    let world = World::start().await;
    let (client, hand, receiver) =
        (visitor(&world, "agent.client").await, echo(&world).await, Receiver::start().await);
    let (taken, rejected) = (Act::Say(200, ""), Act::Say(413, ""));
    receiver.does([taken.clone(), rejected.clone(), rejected.clone(), rejected, taken]);
    ended(&client, &hand, &receiver).await;
    for _ in 0..4 {
        push(&world).await;
        world.clock.advance(300);
    }
    assert_eq!(told(&receiver.take()), ["WORKING", "two", "two", "two", "COMPLETED"]);
    let metrics = world.ctx().metrics.text();
    for (outcome, count) in [("delivered", 2), ("retried", 2), ("left_out", 1)] {
        let line = format!("entente_task_pushes_total{{outcome=\"{outcome}\"}} {count}");
        assert!(metrics.contains(&line), "{line}: {metrics}");
    }
    world.end().await;
}

#[tokio::test]
async fn a_refused_update_and_the_end_are_sent_until_they_are_taken() {
    let world = World::start().await;
    let (client, hand, receiver) =
        (visitor(&world, "agent.client").await, echo(&world).await, Receiver::start().await);
    let (refused, rejected) = (Act::Say(401, ""), Act::Say(413, ""));
    let mut acts = vec![refused; 5];
    acts.extend([Act::Say(200, ""), Act::Say(200, "")]);
    acts.extend(vec![rejected; 5]);
    acts.push(Act::Say(200, ""));
    receiver.does(acts);
    ended(&client, &hand, &receiver).await;
    push(&world).await;
    // After 1 s, 2 s, and so on: sooner nothing is sent.
    for pause in [1, 2, 4, 8, 16] {
        assert_eq!(receiver.take().len(), 1);
        world.clock.advance(pause - 1);
        push(&world).await;
        assert_eq!(receiver.count(), 0, "before {pause} s");
        world.clock.advance(1);
        push(&world).await;
    }
    assert_eq!(told(&receiver.take()), ["WORKING", "two", "COMPLETED"]);
    for _ in 0..6 {
        world.clock.advance(300);
        push(&world).await;
    }
    assert_eq!(told(&receiver.take()), ["COMPLETED"; 5], "until it was taken");
    world.end().await;
}

#[tokio::test]
async fn a_change_during_a_request_is_not_undone_by_its_answer() {
    let world = World::start().await;
    let (client, hand) = (visitor(&world, "agent.client").await, echo(&world).await);
    for is_deleted in [false, true] {
        let (gone, next) = (Receiver::start().await, Receiver::start().await);
        gone.does([Act::Late(Duration::from_millis(500), 410)]);
        let id = format!("m-{is_deleted}");
        let task = done(&client, "SendMessage", with_receiver(&id, &gone)).await["task"].clone();
        let job = hand.one().await;
        hand.events(&job, status("working", "one")).await.ok();
        let changing = async {
            gone.until(1).await;
            if is_deleted {
                let one = json!({ "taskId": task["id"], "id": task["id"] });
                done(&client, "DeleteTaskPushNotificationConfig", one).await;
            }
            let mut moved = config(&next);
            moved["taskId"] = task["id"].clone();
            done(&client, "CreateTaskPushNotificationConfig", moved).await;
        };
        tokio::join!(push(&world), changing);
        hand.tell(&job, "result", json!({ "result": "two" })).await.ok();
        push(&world).await;
        let got = told(&next.take());
        assert_eq!(got[got.len() - 2..], ["two", "COMPLETED"], "deleted: {is_deleted}");
    }
    world.end().await;
}

#[tokio::test]
async fn a_receiver_of_a_repeated_message_begins_where_the_task_is() {
    let world = World::start().await;
    let (client, hand, receiver) =
        (visitor(&world, "agent.client").await, echo(&world).await, Receiver::start().await);
    let (task, job) = begun(&client, &hand, brief("m-1", "hello")).await;
    hand.events(&job, status("input_required", "Where to?")).await.ok();
    done(&client, "SendMessage", further(&task, "m-2", "Oslo")).await;
    hand.events(&job, status("working", "on it")).await.ok();
    hand.events(&job, status("input_required", "When?")).await.ok();
    let mut repeated = further(&task, "m-2", "Oslo");
    repeated["configuration"]["taskPushNotificationConfig"] = config(&receiver);
    done(&client, "SendMessage", repeated).await;
    push(&world).await;
    assert_eq!(receiver.count(), 0, "the response has what happened until now");
    hand.tell(&job, "result", json!({ "result": "two" })).await.ok();
    push(&world).await;
    assert_eq!(told(&receiver.take()), ["two", "COMPLETED"]);
    world.end().await;
}

#[tokio::test]
async fn nobody_looks_for_an_idle_receiver() {
    let world = World::start().await;
    let (client, hand, receiver) =
        (visitor(&world, "agent.client").await, echo(&world).await, Receiver::start().await);
    let behind = async || -> i64 {
        let text = "SELECT count(*) FROM task_pushes WHERE due_at IS NOT NULL AND behind";
        sqlx::query_scalar(text).fetch_one(&world.ctx().pool).await.unwrap()
    };
    done(&client, "SendMessage", with_receiver("m-1", &receiver)).await;
    let job = hand.one().await;
    for step in ["one", "two"] {
        push(&world).await;
        assert_eq!(behind().await, 0, "before {step}");
        hand.events(&job, status("working", step)).await.ok();
        assert_eq!(behind().await, 1, "after {step}");
    }
    push(&world).await;
    assert_eq!(told(&receiver.take()), ["WORKING"; 3]);
    done(&client, "SendMessage", brief("m-2", "no receiver")).await;
    world.end().await;
}
