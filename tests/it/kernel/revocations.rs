//! Revocation: a revoked key is refused at once, also for requests in progress, on other servers and on
//! open streams.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use entente_domain::canonical::sha256;
use entente_domain::clock::{Timestamp, parse};
use entente_domain::identity::keys::{KeyAsk, create};
use entente_domain::identity::principals::PrincipalKind;
use entente_domain::ids::KeyId;
use entente_kernel::identity::grants::Memory;
use entente_kernel::{Grant, Grants};
use entente_runtime::metrics::Metrics;

use crate::kernel::keys::shut;
use entente_harness::keys::key;
use entente_harness::{Setup, Sse, World, json, talk};

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_key_ends_at_once_with_its_streams() {
    let world = World::with(Setup { settings: vec![("ENTENTE_PING_SECONDS", "1")], live: false }).await;
    let admin = world.admin().await;
    let ada = key(&world, &admin, "agent.ada", json!({})).await;
    let eve = key(&world, &admin, "agent.eve", json!({})).await;
    let (intent, _) = talk(&ada.client, json!({})).await;
    let mut stream = Sse::open(&ada.client, &format!("/intents/{intent}/subscribe")).await;
    eve.client.delete(&ada.path()).await.refused(404, "not_found");
    eve.client.post(&format!("{}/rotate", ada.path()), json!({})).await.refused(404, "not_found");
    admin.delete("/keys/key_01J9ZK4T6Q8R2V5X7Y9B1C3D5F").await.refused(404, "not_found");
    admin.delete("/keys/nonsense").await.refused(404, "not_found");
    ada.client.get("/intents").await.ok();
    let revoked = ada.client.delete(&ada.path()).await.is(200);
    assert_eq!(revoked["revoked_at"], "2026-11-21T08:00:00.000000Z");
    shut(&ada.client.get("/intents").await);
    stream.breaks().await;
    world.clock.advance(5);
    let mut again = admin.delete(&ada.path()).await.is(200);
    again["last_used_at"] = revoked["last_used_at"].clone();
    assert_eq!(again, revoked, "it is revoked once");
    admin.post(&format!("{}/rotate", ada.path()), json!({})).await.refused(422, "unprocessable");
    let events = admin.get("/audit?event_type=key.revoked").await.ok();
    assert_eq!(events.as_array().unwrap().len(), 1);
    assert_eq!(events[0]["actor"], "agent.ada");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_revoked_while_it_is_verified_is_not_remembered() {
    let world = World::start().await;
    let admin = world.admin().await;
    for round in 0..3 {
        // The keys before it keep the slow hash busy, so that the revocation falls between lookup and verification.
        let mut crowd = Vec::new();
        for n in 0..12 {
            crowd.push(key(&world, &admin, &format!("agent.{n}"), json!({})).await.client);
        }
        let late = key(&world, &admin, &format!("agent.late{round}"), json!({})).await;
        let ask = |client: entente_harness::Client| tokio::spawn(async move { client.get("/intents").await });
        let crowd: Vec<_> = crowd.into_iter().map(ask).collect();
        let first = ask(late.client.clone());
        tokio::time::sleep(Duration::from_millis(40)).await;
        admin.delete(&late.path()).await.ok();
        for other in crowd {
            other.await.unwrap().ok();
        }
        // It was answered before or after the revocation.
        assert!(matches!(first.await.unwrap().status, 200 | 401));
        shut(&late.client.get("/intents").await);
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_server_hears_of_a_revocation() {
    let world = World::start().await;
    let admin = world.admin().await;
    let made = key(&world, &admin, "agent.ada", json!({})).await;
    let other = World::on(Setup::default(), world.database.clone()).await;
    let there = other.client(&made.secret);
    there.get("/intents").await.ok();
    admin.delete(&made.path()).await.ok();
    // As the other server's background task does every few hundred milliseconds.
    entente_kernel::identity::keys::refresh(other.ctx()).await.unwrap();
    shut(&there.get("/intents").await);
    other.server.stop().await;
    world.end().await;
}

/// Returns a grant for a key with this public id, which reflects the key's changes up to this one.
fn grant(name: &str, change: i64, now: Timestamp) -> Arc<Grant> {
    let id = KeyId::from(uuid::Uuid::nil());
    let key = create(KeyAsk::default(), name.to_owned(), "agent.ada", "agent.ada", id, now).unwrap();
    Arc::new(Grant::new(key, PrincipalKind::Agent, change))
}

/// Returns the cached grant of a key.
fn known(grants: &Grants, name: &str) -> Option<Arc<Grant>> {
    match grants.recall(&sha256(name))? {
        Memory::Verified(grant) => Some(grant),
        Memory::Refused => None,
    }
}

#[test]
fn refused_keys_push_no_verified_one_out() {
    let now = parse("2026-11-21T08:00:00Z").unwrap();
    let grants = Grants::new(&Metrics::new());
    let verified = grants.remember(sha256("verified"), grant("verified", 1, now));
    drop(verified);
    for n in 0..20_001 {
        grants.refuse(sha256(format!("{n}")));
    }
    assert!(known(&grants, "verified").is_some());
    assert!(matches!(grants.recall(&sha256("20000")), Some(Memory::Refused)));
    assert!(grants.recall(&sha256("0")).is_none(), "the least recent one was dropped");
}

#[test]
fn who_still_holds_a_forgotten_key_finds_it_void() {
    let now = parse("2026-11-21T08:00:00Z").unwrap();
    let grants = Grants::new(&Metrics::new());
    let held = grants.remember(sha256("held"), grant("held", 1, now));
    let others = || {
        // More keys than the cache holds: the least recently used ones are dropped.
        for n in 0..20_001 {
            grants.remember(sha256(format!("{n}")), grant(&format!("{n}"), 1, now));
        }
    };
    others();
    assert!(held.in_force(now));
    assert!(Arc::ptr_eq(&held, &known(&grants, "held").unwrap()), "it has one rate, whoever presents it");
    assert!(known(&grants, "20000").is_some() && known(&grants, "0").is_none());
    others();
    grants.forget(&HashMap::from([("held".to_owned(), 1)]));
    assert!(held.in_force(now), "that change it knew of");
    grants.forget(&HashMap::from([("held".to_owned(), 2)]));
    assert!(!held.in_force(now), "an open stream would go on with a revoked key");
}

#[test]
fn a_key_that_is_verified_twice_at_once_is_known_once() {
    let now = parse("2026-11-21T08:00:00Z").unwrap();
    let grants = Grants::new(&Metrics::new());
    let verified = |change| grants.remember(sha256("a key"), grant("a key", change, now));
    let (first, second) = (verified(1), verified(1));
    assert!(Arc::ptr_eq(&first, &second), "a revocation would reach one of the two");
    let newer = verified(2);
    assert!(newer.in_force(now) && !first.in_force(now), "the key was changed in between");
    assert!(Arc::ptr_eq(&newer, &verified(1)), "what was read first came last");
}
