//! Server starts: a restart, after a crash, beside another server, and with invalid settings.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Duration;

use entente_domain::canonical::{hex, sha256};
use entente_store::private::{Private, PrivateError};
use sqlx::ConnectOptions as _;

use entente_harness::process::{KEY, Launch, Place, Process};
use entente_harness::{Value, json, talk};

async fn message_count(server: &Process, channel: &str) -> Value {
    server.client(KEY).get(&format!("/channels/{channel}")).await.ok()["message_count"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_starts_again_whatever_ended_it() {
    let place = Place::new("start");
    let launch = Launch::private(&place);
    let (mut server, first) = launch.start().await;
    let (_, channel) = talk(&server.client(KEY), json!({})).await;
    let send = async |server: &Process| {
        let body = json!({ "sender": "agent.ada", "payload": {} });
        server.client(KEY).post(&format!("/channels/{channel}/messages"), body).await.is(201);
    };
    send(&server).await;
    server.terminate();
    assert!(server.ended().await.success(), "{}", place.log());
    assert!(!place.0.join("postgres/postmaster.pid").exists(), "its PostgreSQL stops with it");

    let (mut server, second) = launch.start().await;
    assert_eq!(message_count(&server, &channel).await, 1);
    send(&server).await;
    // Only the server is killed; its PostgreSQL keeps running.
    let postgres = place.postmaster().unwrap();
    server.kill();
    let (mut server, adopted) = launch.start().await;
    assert_eq!(place.postmaster(), Some(postgres), "adopted, not started anew");
    assert_eq!(message_count(&server, &channel).await, 2);
    send(&server).await;
    // Both are killed, and their lock files remain.
    place.kill_postgres();
    server.kill();
    assert!(place.0.join("postgres/postmaster.pid").exists());
    let (mut server, crashed) = launch.start().await;
    assert_eq!(message_count(&server, &channel).await, 3);
    send(&server).await;
    // The same, but another process now has that id: this one.
    place.kill_postgres();
    server.kill();
    let lock = place.0.join("postgres/postmaster.pid");
    let text = fs::read_to_string(&lock).unwrap();
    let (_, rest) = text.split_once('\n').unwrap();
    fs::write(&lock, format!("{}\n{rest}", std::process::id())).unwrap();
    let (mut server, reused) = launch.start().await;
    assert_eq!(message_count(&server, &channel).await, 4);
    println!(
        "ready after: the first start {first:?}, a second one {second:?}, kill -9 of the server {adopted:?}, of everything \
         {crashed:?}, with the id taken {reused:?}"
    );
    server.terminate();
    assert!(server.ended().await.success(), "{}", place.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_killed_alone_is_started_again_by_its_server() {
    let place = Place::new("keep");
    let launch = Launch::private(&place);
    let (mut server, _) = launch.start().await;
    let any = server.client(KEY);
    let (_, channel) = talk(&any, json!({})).await;
    for round in 0..3 {
        let killed = place.postmaster();
        assert!(place.kill_postgres());
        let began = std::time::Instant::now();
        // A dying backend of the killed one may still serve a request; the test needs the new one.
        while place.postmaster().is_none_or(|pid| Some(pid) == killed) {
            assert!(began.elapsed() < Duration::from_secs(20), "it is not started again:\n{}", place.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let once = any.once(&format!("round-{round}"));
        let body = json!({ "sender": "agent.ada", "payload": {} });
        while once.post(&format!("/channels/{channel}/messages"), body.clone()).await.status != 201 {
            assert!(began.elapsed() < Duration::from_secs(20), "it does not come back:\n{}", place.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        println!("PostgreSQL killed; the next message is acknowledged after {:?}", began.elapsed());
    }
    // Connections that were idle since before the last kill are tested before they are used.
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(message_count(&server, &channel).await, 3);
    // If it is stopped while PostgreSQL is dead, the server stops, even when its tasks already wait for the
    // database.
    for pause in [0, 150, 240] {
        place.kill_postgres();
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let began = std::time::Instant::now();
        server.terminate();
        let status = server.ended().await;
        println!(
            "told to stop {pause} ms after PostgreSQL died, the server ends within {:?}",
            began.elapsed()
        );
        assert!(status.success(), "{status}:\n{}", place.log());
        (server, _) = launch.start().await;
        // The server still has work for its keys after it is ready; the message is sent later than that.
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(message_count(&server, &channel).await, 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_killed_while_its_server_makes_its_keys_is_started_again() {
    let place = Place::new("early");
    let launch = Launch::private(&place);
    let (mut server, _) = launch.start().await;
    // Its PostgreSQL keeps running.
    server.kill();
    let options = Private::beside(&place.0).unwrap();
    let (mut holder, mut observer) = (options.connect().await.unwrap(), options.connect().await.unwrap());
    sqlx::raw_sql("BEGIN; LOCK TABLE links").execute(&mut holder).await.unwrap();
    // The server listens before it makes the login of a developer, which waits for the lock.
    let (mut server, _) = launch.start().await;
    let waiting = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'links'::regclass)";
    while !sqlx::query_scalar::<_, bool>(waiting).fetch_one(&mut observer).await.unwrap() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(place.kill_postgres());
    let began = std::time::Instant::now();
    while server.client(KEY).get("/intents").await.status != 200 {
        assert!(began.elapsed() < Duration::from_secs(20), "it does not come back:\n{}", place.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    server.terminate();
    assert!(server.ended().await.success(), "{}", place.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_during_its_first_start_a_server_starts_the_next_time() {
    for millis in [60, 250, 600] {
        let place = Place::new("first");
        let launch = Launch::private(&place);
        let mut server = launch.spawn();
        tokio::time::sleep(Duration::from_millis(millis)).await;
        // The creation of the cluster that it started continues for a while without it.
        server.kill();
        let (mut server, _) = launch.start().await;
        let (_, channel) = talk(&server.client(KEY), json!({})).await;
        assert_eq!(message_count(&server, &channel).await, 0);
        // The unfinished cluster is removed once no process writes to it any more.
        server.terminate();
        server.ended().await;
        let _server = launch.start().await;
        let left: Vec<String> = fs::read_dir(&place.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.contains("new"))
            .collect();
        assert_eq!(left, [""; 0], "killed after {millis} ms");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn told_to_stop_while_it_starts_a_server_leaves_nothing_running() {
    let place = Place::new("early");
    let launch = Launch::private(&place);
    let (mut server, took) = launch.start().await;
    server.terminate();
    assert!(server.ended().await.success());
    for tenth in [0, 1, 2, 3, 4, 6, 8, 10] {
        let mut server = launch.spawn();
        tokio::time::sleep(took.min(Duration::from_millis(700)) * tenth / 10).await;
        server.terminate();
        server.ended().await;
        assert!(
            place.postmaster().is_none(),
            "PostgreSQL is left running, told at {tenth}/10:\n{}",
            place.log()
        );
    }
    let (server, _) = launch.start().await;
    drop(server);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_cannot_be_kept_leaves_nothing_running() {
    let place = Place::new("unkept");
    fs::create_dir_all(place.0.join("agents.key")).unwrap();
    let mut server = Launch::private(&place).spawn();
    assert_eq!(server.ended().await.code(), Some(1));
    assert!(place.postmaster().is_none(), "PostgreSQL is left running:\n{}", place.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_server_on_a_data_directory_is_refused_with_a_word_on_what_to_do() {
    let place = Place::new("twice");
    let (server, _) = Launch::private(&place).start().await;
    let mut second = Launch::private(&place).spawn();
    let status = second.ended().await;
    assert_eq!(status.code(), Some(1));
    let said = place.log();
    assert!(said.contains("in use by another Entente") && said.contains("DATABASE_URL"), "{said}");
    assert_eq!(server.client(KEY).get("//readyz").await.status, 200, "the first one does not notice");
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_cannot_be_used_stop_the_start_by_name() {
    let place = Place::new("config");
    let mut server = Launch::private(&place)
        .with("ENTENTE_RATE_PER_SECOND", "many")
        .with("ENTENTE_DRAIN_SECONDS", "-1")
        .with("ENTENTE_LOG_FORMAT", "loud")
        .spawn();
    assert_eq!(server.ended().await.code(), Some(1));
    let said = place.log();
    for name in ["ENTENTE_RATE_PER_SECOND=many", "ENTENTE_DRAIN_SECONDS=-1", "ENTENTE_LOG_FORMAT=loud"] {
        assert!(said.contains(name), "all faults at once: {said}");
    }
    assert!(!place.0.join("postgres").exists(), "nothing was begun");
    let mut server = Launch::shared(&place, "mysql://root:hunter2@localhost/x").spawn();
    assert_eq!(server.ended().await.code(), Some(1));
    let said = place.log();
    assert!(said.contains("DATABASE_URL") && !said.contains("hunter2"), "{said}");
    // The address is in use.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut launch = Launch::private(&place);
    launch.bind = taken.local_addr().unwrap();
    let mut server = launch.spawn();
    assert_eq!(server.ended().await.code(), Some(1));
    assert!(place.log().contains("ENTENTE_BIND"), "{}", place.log());
    assert!(!place.0.join("postgres/postmaster.pid").exists(), "no PostgreSQL is left running");
}

/// If the path of the data directory is too long for a socket, the socket goes to a world-writable directory.
#[tokio::test]
async fn a_socket_is_not_put_where_somebody_else_has_prepared_for_it() {
    let place = Place::new("taken");
    let dir = place.0.join("x".repeat(90));
    fs::create_dir(&dir).unwrap();
    let digest = sha256(dir.as_os_str().as_encoded_bytes());
    let prepared = Path::new("/tmp").join(format!("entente-{}", hex(&digest[..8])));
    fs::create_dir(&prepared).unwrap();
    fs::set_permissions(&prepared, fs::Permissions::from_mode(0o777)).unwrap();
    let started = Private::start(&dir, None, &[]).await;
    let mode = fs::metadata(&prepared).unwrap().mode() & 0o777;
    fs::remove_dir_all(&prepared).unwrap();
    let Err(refused) = started else { panic!("it is started in a directory of somebody else's making") };
    assert!(matches!(&refused, PrivateError::Taken(taken) if *taken == prepared), "{refused}");
    assert_eq!(mode, 0o777, "nothing of it was changed");
    assert!(!dir.join("postgres").exists(), "and nothing was made");
}
