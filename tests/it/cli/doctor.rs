//! `entente doctor`: it reports problems and changes nothing. Also covers unknown settings.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};

use sqlx::{ConnectOptions as _, Connection as _};

use super::{complaint, text};
use entente_harness::process::Place;
use entente_harness::{Cluster, Nats, PgBouncer, json};

/// Runs the program in its own directory.
fn entente(place: &Place, command: &str, settings: &[(&str, &str)]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_entente"));
    program.arg(command).env_clear().current_dir(&place.0);
    program.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    program.envs(settings.iter().copied()).output().unwrap()
}

fn said(output: &Output) -> String {
    text(output) + &complaint(output)
}

fn files(dir: &Path) -> usize {
    std::fs::read_dir(dir).unwrap().count()
}

/// Returns a port that nothing listens on.
fn closed() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn the_doctor_makes_no_data_directory_and_starts_nothing() {
    let place = Place::new("doctor");
    let dir = place.0.join("not-there-yet");
    let output = entente(&place, "doctor", &[("ENTENTE_DATA_DIR", dir.to_str().unwrap())]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(text(&output).contains("there is no data directory yet"), "{}", said(&output));
    assert!(!dir.exists(), "it made one");
    // An empty data directory stays empty.
    std::fs::create_dir(&dir).unwrap();
    let output = entente(&place, "doctor", &[("ENTENTE_DATA_DIR", dir.to_str().unwrap())]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(files(&dir), 0, "it left something there");
    assert_eq!(files(&place.0), 1, "it left something beside");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_makes_nothing_in_the_database() {
    let (place, cluster) = (Place::new("doctor-db"), Cluster::get());
    let empty = cluster.fresh_database().await;
    let mut beside = cluster.options(&empty).connect().await.unwrap();
    sqlx::raw_sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public").execute(&mut beside).await.unwrap();
    let output = entente(&place, "doctor", &[("DATABASE_URL", &cluster.url(&empty))]);
    // The tests' cluster runs without `fsync`, which is the only fault.
    assert_eq!(text(&output).matches("FAULT").count(), 1, "{}", said(&output));
    assert!(text(&output).contains("migrations are missing"), "{}", said(&output));
    let made: i64 =
        sqlx::query_scalar("SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace")
            .fetch_one(&mut beside)
            .await
            .unwrap();
    assert_eq!(made, 0, "it made something in the database");
    beside.close().await.unwrap();
}

#[test]
fn the_connection_that_was_refused_is_named_without_its_password() {
    let (place, port) = (Place::new("doctor-refused"), closed());
    let url = format!("postgres://somebody:opensesame@127.0.0.1:{port}/ledger");
    let output = entente(&place, "doctor", &[("DATABASE_URL", &url)]);
    assert!(!output.status.success(), "{}", said(&output));
    let said = said(&output);
    for part in ["127.0.0.1", &port.to_string(), "`ledger`", "`somebody`"] {
        assert!(said.contains(part), "{part} is not said: {said}");
    }
    assert!(!said.contains("opensesame"), "{said}");
}

#[test]
fn a_setting_that_there_is_not_is_refused_with_the_nearest_name() {
    let place = Place::new("doctor-names");
    let dir = place.0.join("data");
    let dir = ("ENTENTE_DATA_DIR", dir.to_str().unwrap());
    let output = entente(&place, "doctor", &[dir, ("ENTENTE_WEBHOK_ALLOW", "10.0.0.0/8")]);
    assert!(!output.status.success(), "{}", said(&output));
    let expected = "ENTENTE_WEBHOK_ALLOW is not a setting; did you mean ENTENTE_WEBHOOK_ALLOW?";
    assert!(said(&output).contains(expected), "{}", said(&output));
    // The value is not printed, because it may be a misplaced secret.
    assert!(!said(&output).contains("10.0.0.0/8"), "{}", said(&output));
    // A misspelt setting in a `.env` file, and one that resembles no other.
    std::fs::write(place.0.join(".env"), "ENTENTE_SIGNINGKEY=abc\nENTENTE_SOMETHING_ELSE=1\n").unwrap();
    let output = entente(&place, "doctor", &[dir]);
    assert!(!output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("did you mean ENTENTE_SIGNING_KEY?"), "{}", said(&output));
    assert!(said(&output).contains("ENTENTE_SOMETHING_ELSE is not a setting"), "{}", said(&output));
    std::fs::remove_file(place.0.join(".env")).unwrap();
    // Variables that Kubernetes sets for a service of this name, that the clients read, and that a credentials file
    // names.
    let others = [
        dir,
        ("ENTENTE_SERVICE_HOST", "10.3.0.1"),
        ("ENTENTE_SERVICE_PORT_HTTP", "80"),
        ("ENTENTE_PORT", "tcp://10.3.0.1:80"),
        ("ENTENTE_PORT_80_TCP_ADDR", "10.3.0.1"),
        ("ENTENTE_URL", "http://127.0.0.1:1"),
        ("ENTENTE_API_KEY", "k"),
    ];
    let output = entente(&place, "doctor", &others);
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn a_server_does_not_start_on_a_setting_that_is_misspelt() {
    let place = Place::new("serve-names");
    let url = format!("postgres://a:b@127.0.0.1:{}/c", closed());
    let misspelt = [("DATABASE_URL", url.as_str()), ("ENTENTE_AEE_REQUIRE_SIGNATURES", "always")];
    for command in ["serve", "migrate"] {
        let output = entente(&place, command, &misspelt);
        assert!(!output.status.success(), "{}", said(&output));
        let expected =
            "ENTENTE_AEE_REQUIRE_SIGNATURES is not a setting; did you mean ENTENTE_AEE_REQUIRE_SIGNATURE?";
        assert!(said(&output).contains(expected), "{command}: {}", said(&output));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_finds_a_pooler_and_the_way_around_it() {
    let (place, cluster) = (Place::new("doctor-pooler"), Cluster::get());
    let database = cluster.fresh_database().await;
    let pooler = PgBouncer::start("transaction", true).await;
    let (pooled, direct) = (pooler.url(&database), cluster.url(&database));
    let output = entente(&place, "doctor", &[("DATABASE_URL", &pooled)]);
    assert!(!output.status.success() && text(&output).contains("transaction mode"), "{}", said(&output));
    assert!(text(&output).contains("Set ENTENTE_DIRECT_DATABASE_URL"), "{}", said(&output));
    let both = [("DATABASE_URL", pooled.as_str()), ("ENTENTE_DIRECT_DATABASE_URL", direct.as_str())];
    let output = entente(&place, "doctor", &both);
    assert!(text(&output).contains("leads to the same database"), "{}", said(&output));
    assert!(text(&output).contains("the schema is up to date"), "{}", said(&output));
    // Besides the tests' cluster, which runs without `fsync`.
    let faults = 1 + usize::from(!pooler.carries_statements);
    assert_eq!(text(&output).matches("FAULT").count(), faults, "{}", said(&output));
    let output = entente(&place, "migrate", &both);
    assert!(output.status.success() && text(&output).contains("up to date"), "{}", said(&output));
    drop(pooler);
    let pooler = PgBouncer::start("session", false).await;
    let output = entente(&place, "doctor", &[("DATABASE_URL", &pooler.url(&database))]);
    assert!(text(&output).contains("a pooler in session mode"), "{}", said(&output));
    assert_eq!(text(&output).matches("FAULT").count(), 1, "{}", said(&output));
    // Without a pooler there is nothing to lead around.
    let output = entente(&place, "doctor", &[("ENTENTE_DIRECT_DATABASE_URL", &direct)]);
    assert!(!output.status.success() && !said(&output).contains(&database), "{}", said(&output));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_asks_the_brokers() {
    let (place, nats) = (Place::new("doctor-sinks"), Nats::streaming());
    nats.stream("ENTENTE", "events.>", json!({})).await;
    let sink = |name: &str, url: &str, stream: &str| json!({ "name": name, "url": url, "stream": stream, "prefix": "events." });
    let nowhere = format!("nats://entente:opensesame@127.0.0.1:{}", closed());
    let sinks = [
        sink("good", &nats.url(), "ENTENTE"),
        sink("gone", &nowhere, "ENTENTE"),
        sink("other", &nats.url(), "OTHER"),
    ];
    let path = place.0.join("sinks.json");
    std::fs::write(&path, json!({ "sinks": sinks }).to_string()).unwrap();
    let empty = place.0.join("none");
    let settings =
        [("ENTENTE_SINKS_FILE", path.to_str().unwrap()), ("ENTENTE_DATA_DIR", empty.to_str().unwrap())];
    let output = entente(&place, "doctor", &settings);
    let said = said(&output);
    assert!(!output.status.success(), "{said}");
    for part in [
        "the sink good answers",
        "nothing can be published to gone: not connected",
        "nothing can be published to other: stream OTHER: stream not found",
    ] {
        assert!(said.contains(part), "{part} is not said: {said}");
    }
    assert!(!said.contains("opensesame"), "{said}");
}
