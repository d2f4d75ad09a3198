//! Guessing must not slow down legitimate users: keys are compared without a slow hash, password checks have their
//! own queue, and attempts from one address wait for each other first.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::task::JoinSet;

use entente_harness::keys::{forgeries, key};
use entente_harness::{Client, World, http, json};

const WORDS: &str = "correct horse battery staple";

/// A user that logs in over an open connection.
struct Person {
    http: reqwest::Client,
    url: String,
}

impl Person {
    async fn new(world: &World) -> Self {
        let admin = world.admin().await;
        admin.post("/principals", json!({ "id": "human.ada", "kind": "human" })).await.is(201);
        admin.put("/people/human.ada/password", json!({ "password": WORDS })).await.ok();
        let person = Self { http: http(), url: format!("http://{}/login", world.address) };
        person.log_in().await;
        person
    }

    /// Logs in and returns the time that this took.
    async fn log_in(&self) -> Duration {
        let began = Instant::now();
        let body = format!("name=human.ada&password={}", WORDS.replace(' ', "+"));
        let request = self.http.post(&self.url).header("sec-fetch-site", "same-origin").body(body);
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 303, "who knows the password gets in");
        began.elapsed()
    }
}

/// Maximum time of a login beside a flood: twice the time without one, for other load on the machine, plus 100 ms.
fn bound(quiet: Duration) -> Duration {
    quiet * 2 + Duration::from_millis(100)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_wrong_secrets_at_once_keep_nobody_waiting() {
    let world = World::start().await;
    let ada = Person::new(&world).await;
    let admin = world.admin().await;
    let good = key(&world, &admin, "agent.ada", json!({})).await;
    // A hundred concurrent requests take time even with the right key, so that is the reference.
    let mut beside = [Duration::MAX; 2];
    for round in 0..3 {
        let wrong = forgeries(&good.secret, 100, round * 100).map(|wrong| world.client(&wrong));
        let right = (0..100).map(|_| world.client(&good.secret));
        for (least, (flood, status)) in
            beside.iter_mut().zip([(right.collect::<Vec<_>>(), 200), (wrong.collect(), 401)])
        {
            let flood = join_all(flood.iter().map(|client| client.get("/intents")));
            let (answers, took) = tokio::join!(flood, async {
                tokio::time::sleep(Duration::from_millis(5)).await;
                ada.log_in().await
            });
            answers.iter().for_each(|answer| drop(answer.is(status)));
            *least = took.min(*least);
        }
    }
    let [right, wrong] = beside;
    assert!(
        wrong < right + Duration::from_millis(100),
        "{wrong:?} beside wrong keys, {right:?} beside right ones"
    );
    good.client.get("/intents").await.ok();
    world.end().await;
}

/// Sends concurrent wrong passwords from an address; returns the time that Ada's login takes meanwhile.
async fn beside_guesses(ada: &Person, host: u8, many: usize) -> Duration {
    let address = IpAddr::V4(Ipv4Addr::new(127, 0, 0, host));
    let guesser = reqwest::Client::builder().no_proxy().local_address(address).build().unwrap();
    let mut flood = JoinSet::new();
    for n in 0..many {
        let request = guesser.post(&ada.url).header("sec-fetch-site", "same-origin");
        let request = request.body(format!("name=human.nobody{n}&password=guess+guess+guess"));
        flood.spawn(async move { request.send().await.unwrap().status().as_u16() });
    }
    // Once one is answered, the others wait in the queue.
    let first = flood.join_next().await.unwrap().unwrap();
    let took = ada.log_in().await;
    let statuses = flood.join_all().await;
    assert!(statuses.iter().chain([&first]).all(|status| [401, 503].contains(status)), "{statuses:?}");
    took
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_passwords_keep_nobody_waiting() {
    let world = World::start().await;
    let ada = Person::new(&world).await;
    let quiet = ada.log_in().await.min(ada.log_in().await).min(ada.log_in().await);
    // An address has 60 attempts a minute. The minimum of three counts, to exclude other load on the machine.
    let mut elsewhere = Duration::MAX;
    for host in [2, 3, 4] {
        elsewhere = elsewhere.min(beside_guesses(&ada, host, 50).await);
    }
    // The address that Ada has logged in from before.
    let mut here = Duration::MAX;
    for _ in 0..3 {
        here = here.min(beside_guesses(&ada, 1, 19).await);
    }
    for took in [elsewhere, here] {
        assert!(took < bound(quiet), "{took:?} beside wrong passwords, {quiet:?} alone");
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_queue_of_old_keys_has_an_end_and_is_nobody_elses() {
    let world = World::start().await;
    let ada = Person::new(&world).await;
    let admin = world.admin().await;
    let old = key(&world, &admin, "agent.old", json!({})).await;
    let slow = {
        use argon2::PasswordHasher as _;
        argon2::Argon2::default().hash_password(old.secret.as_bytes()).unwrap().to_string()
    };
    // As the previous release stored it.
    sqlx::query("UPDATE keys SET secret_sha256 = NULL, secret_hash = $1 WHERE public_id = $2")
        .bind(slow)
        .bind(&old.secret[4..16])
        .execute(&world.ctx().pool)
        .await
        .unwrap();
    let guesses: Vec<Client> = forgeries(&old.secret, 100, 0).map(|wrong| world.client(&wrong)).collect();
    let mut flood: FuturesUnordered<_> = guesses.iter().map(|guess| guess.get("/intents")).collect();
    // Once one is answered, the queue of old keys is full; if logins shared it, none would succeed.
    let first = flood.next().await.unwrap();
    let (mut answers, _) = tokio::join!(flood.collect::<Vec<_>>(), ada.log_in());
    answers.push(first);
    let full = answers.iter().filter(|answer| answer.status == 503).count();
    for answer in answers {
        if answer.status == 503 {
            answer.refused(503, "unavailable");
            assert_eq!(answer.header("retry-after"), "1");
        } else {
            answer.refused(401, "unauthenticated");
        }
    }
    assert!(full > 0, "the queue has no end");
    // The key itself still works and is stored with the fast hash from now on, so its guesses cost nothing either.
    old.client.get("/intents").await.ok();
    let known: bool =
        sqlx::query_scalar("SELECT secret_sha256 = sha256($1::bytea) FROM keys WHERE public_id = $2")
            .bind(old.secret.as_bytes())
            .bind(&old.secret[4..16])
            .fetch_one(&world.ctx().pool)
            .await
            .unwrap();
    assert!(known);
    let again: Vec<Client> = forgeries(&old.secret, 100, 1_000).map(|wrong| world.client(&wrong)).collect();
    for answer in join_all(again.iter().map(|guess| guess.get("/intents"))).await {
        answer.refused(401, "unauthenticated");
    }
    world.end().await;
}
