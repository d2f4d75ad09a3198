//! Revoking credentials: at the end of their job and of its parent, across failures and crashes, and by escalation
//! to a person as the last resort.

use entente_arcp::credentials;
use entente_domain::arcp::credentials::SCHEDULE;
use entente_domain::arcp::jobs::Job;

use super::stage::{
    accepted, broker, end, job, litellm, live, places_of, setup, stand, states, take_back, world,
};
use super::upstream::{ProvisionerError, Upstream};
use entente_harness::{Cluster, Value, World, json};

/// Creates an accepted job with one credential; returns it with the credential's value.
async fn given(world: &World) -> (Job, String) {
    let job = job(world, "research@1.0.0", &json!({ "model.use": ["gpt-9"] }));
    let value = accepted(world, &job).await.unwrap().remove(0).value;
    (job, value)
}

fn plain(upstream: &Upstream) -> Value {
    litellm(upstream, &json!({}))
}

#[tokio::test]
async fn the_end_of_a_job_ends_its_credentials() {
    for of in [plain, broker] {
        let (world, upstream) = world(of).await;
        let (ended, _) = given(&world).await;
        let (other, value) = given(&world).await;
        assert_eq!(end(&world, &[ended.id]).await, 1);
        assert!(live(&world, &ended).await.is_empty(), "nobody is given it any more");
        assert_eq!(upstream.out().len(), 2, "nobody is asked inside a transaction");
        assert_eq!(take_back(&world).await, 1);
        assert_eq!(upstream.out(), [value], "of this job's, and no other");
        assert_eq!(states(&world).await, ["live", "revoked"]);
        assert_eq!((end(&world, &[ended.id]).await, take_back(&world).await), (0, 0), "once");
        assert_eq!(live(&world, &other).await.len(), 1);
        world.end().await;
    }
}

#[tokio::test]
async fn the_end_of_a_parent_ends_its_childrens() {
    let (world, upstream) = world(plain).await;
    let (parent, _) = given(&world).await;
    let mut child = job(&world, "research@1.0.0", &json!({ "model.use": ["gpt-9"] }));
    child.parent_id = Some(parent.id);
    accepted(&world, &child).await.unwrap();
    let mut grandchild = job(&world, "research@1.0.0", &json!({ "model.use": ["gpt-9"] }));
    grandchild.parent_id = Some(child.id);
    accepted(&world, &grandchild).await.unwrap();
    let (_stranger, value) = given(&world).await;
    assert_eq!(end(&world, &[parent.id]).await, 3);
    take_back(&world).await;
    assert_eq!(upstream.out(), [value]);
    world.end().await;
}

#[tokio::test]
async fn what_the_end_forgot_is_found() {
    for status in ["success", "error", "cancelled", "timed_out"] {
        let (world, upstream) = world(plain).await;
        let (ended, _) = given(&world).await;
        let mut child = job(&world, "research@1.0.0", &json!({ "model.use": ["gpt-9"] }));
        child.parent_id = Some(ended.id);
        accepted(&world, &child).await.unwrap();
        given(&world).await;
        assert_eq!(world.sweep().await, 0);
        stand(&world, &ended, status).await;
        world.sweep().await;
        take_back(&world).await;
        assert_eq!(
            (upstream.out().len(), states(&world).await.join(" ")),
            (1, "live revoked revoked".to_owned())
        );
        world.end().await;
    }
}

#[tokio::test]
async fn a_failing_upstream_is_asked_again_and_then_a_person() {
    let (world, upstream) = world(plain).await;
    let admin = world.admin().await;
    let (job, value) = given(&world).await;
    end(&world, &[job.id]).await;
    let said = format!("cannot delete {value}").leak();
    upstream.revoking(Some(ProvisionerError::Says(500, said)));
    for (made, wait) in SCHEDULE.into_iter().enumerate() {
        assert_eq!(take_back(&world).await, 1, "attempt {made}");
        world.clock.advance(i64::from(wait) * 4 / 5 - 1);
        assert_eq!(take_back(&world).await, 0, "too early after attempt {made}");
        world.clock.advance(i64::from(wait) * 2 / 5 + 2);
    }
    assert_eq!(admin.get("/credentials?state=stuck").await.ok(), json!([]));
    assert_eq!(take_back(&world).await, 1);
    let stuck = admin.get("/credentials?state=stuck").await.ok();
    assert_eq!(
        (
            &stuck[0]["job_id"],
            &stuck[0]["provisioner"],
            &stuck[0]["attempts"],
            &stuck[0]["last_error"],
            stuck.as_array().unwrap().len()
        ),
        (&json!(job.id), &json!("llm"), &json!(13), &json!("it answered 500: cannot delete …"), 1)
    );
    let id = stuck[0]["credential_id"].as_str().unwrap().to_owned();
    let told = admin.get("/audit?event_type=credential.stuck").await.ok();
    assert_eq!(told[0]["payload"]["credential_id"], json!(id));
    assert!(world.ctx().metrics.text().contains("entente_credentials_total{outcome=\"stuck\"} 1"));
    world.clock.advance(1_000_000);
    assert_eq!((take_back(&world).await, upstream.out().len()), (0, 1), "given up, and not forgotten");

    upstream.revoking(None);
    let again = admin.post(&format!("/credentials/{id}/retry"), json!({})).await.ok();
    assert_eq!((&again[0]["state"], &again[0]["attempts"]), (&json!("revoking"), &json!(0)));
    assert_eq!((take_back(&world).await, upstream.out().len()), (1, 0));
    let after = admin.post(&format!("/credentials/{id}/retry"), json!({})).await.ok();
    assert_eq!(after[0]["state"], "revoked", "what is gone stays gone");
    let events = admin.get("/audit?event_type=credential.retried").await.ok();
    assert_eq!(events.as_array().unwrap().len(), 1);
    assert_eq!(places_of(&world, &value).await, Vec::<String>::new());
    admin
        .post("/credentials/cred_01J9ZK4T6Q8R2V5X7Y9B1C3D5F/retry", json!({}))
        .await
        .refused(404, "NOT_FOUND");
    world.end().await;
}

#[tokio::test]
async fn a_page_that_is_not_there_is_no_key_that_is_not_there() {
    let (world, upstream) = world(plain).await;
    let (job, _) = given(&world).await;
    end(&world, &[job.id]).await;
    // A gateway that does not find the proxy.
    upstream.revoking(Some(ProvisionerError::Says(404, "<h1>not found</h1>")));
    take_back(&world).await;
    assert_eq!(states(&world).await, ["revoking"]);
    upstream.revoking(Some(ProvisionerError::Says(404, r#"{"error":{"message":"No keys found"}}"#)));
    world.clock.advance(2);
    take_back(&world).await;
    assert_eq!(states(&world).await, ["revoked"]);
    world.end().await;
}

#[tokio::test]
async fn who_dies_before_it_is_taken_back_is_followed_by_another() {
    let upstream = Upstream::start().await;
    let setup = setup(&json!([plain(&upstream)]));
    let first = World::on(setup.clone(), Cluster::get().fresh_database().await).await;
    let (job, _) = given(&first).await;
    end(&first, &[job.id]).await;
    // The server dies during an attempt: no other server tries before that attempt must have ended.
    assert_eq!(credentials::claim(&first.ctx().arcp, 10).await.unwrap().len(), 1);
    let database = first.database.clone();
    first.server.stop().await;
    assert_eq!(upstream.out().len(), 1);
    let second = World::on(setup, database).await;
    assert_eq!(take_back(&second).await, 0);
    second.clock.advance(30);
    assert_eq!((take_back(&second).await, upstream.out().len()), (1, 0));
    second.end().await;
}

#[tokio::test]
async fn two_servers_share_the_work() {
    let upstream = Upstream::start().await;
    let setup = setup(&json!([plain(&upstream)]));
    let one = World::on(setup.clone(), Cluster::get().fresh_database().await).await;
    let other = World::on(setup, one.database.clone()).await;
    let mut jobs = Vec::new();
    for _ in 0..20 {
        jobs.push(given(&one).await.0.id);
    }
    end(&one, &jobs).await;
    let (here, there) = tokio::join!(take_back(&one), take_back(&other));
    assert_eq!((here + there, upstream.asked_on("/key/delete").len(), upstream.out().len()), (20, 20, 0));
    other.server.stop().await;
    one.end().await;
}

#[tokio::test]
async fn what_a_removed_provisioner_made_is_not_forgotten() {
    let (world, upstream) = world(plain).await;
    let (job, _) = given(&world).await;
    end(&world, &[job.id]).await;
    let database = world.database.clone();
    world.server.stop().await;
    let mut renamed = plain(&upstream);
    renamed["name"] = json!("other");
    let without = World::on(setup(&json!([renamed])), database).await;
    take_back(&without).await;
    let seen = without.admin().await.get("/credentials").await.ok();
    assert_eq!(seen[0]["last_error"], "no provisioner is called `llm` any more; configure it again");
    assert_eq!((seen[0]["state"].as_str(), upstream.out().len()), (Some("revoking"), 1));
    without.server.stop().await;
}

#[tokio::test]
async fn a_value_is_kept_no_longer_than_somebody_may_ask_for_it() {
    let (world, upstream) = world(plain).await;
    let mut keyed = job(&world, "research@1.0.0", &json!({ "model.use": ["gpt-9"] }));
    keyed.idempotency_key = Some("k-1".to_owned());
    let first = accepted(&world, &keyed).await.unwrap();
    let (plain, value) = given(&world).await;
    end(&world, &[keyed.id, plain.id]).await;
    take_back(&world).await;
    assert_eq!((upstream.out().len(), places_of(&world, &value).await.len()), (0, 0));
    let as_accepted = || async {
        let mut conn = world.ctx().pool.acquire().await.unwrap();
        let again = credentials::as_accepted(&mut conn, keyed.id).await.unwrap();
        serde_json::to_value(again).unwrap()
    };
    assert_eq!(as_accepted().await, serde_json::to_value(&first).unwrap());
    world.pass(24 * 3_600 - 1).await;
    assert_eq!(places_of(&world, &first[0].value).await, ["credentials.value"]);
    world.pass(1).await;
    assert_eq!(as_accepted().await, json!([]));
    assert!(places_of(&world, &first[0].value).await.is_empty());
    world.end().await;
}
