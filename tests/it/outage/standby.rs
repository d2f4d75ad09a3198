//! A standby where the primary should be, as a load balancer shows it for a moment when the roles change: the server neither
//! starts on it nor reads from it, and goes on when it is promoted.

use std::fs;
use std::time::{Duration, Instant};

use entente_store::private::Private;
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, Executor as _};
use tokio::time::sleep;

use entente_harness::process::{KEY, Launch, Place};
use entente_harness::program::{Program, postgres_programs};

/// Upper bound for anything that PostgreSQL or the server does.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a standby needs of a private PostgreSQL.
const SETTINGS: [(&str, &str); 2] = [("wal_level", "replica"), ("max_connections", "200")];

/// Starts the PostgreSQL of this place as a standby.
async fn standby(place: &Place, options: &PgConnectOptions) -> Program {
    let data = place.0.join("postgres");
    fs::write(data.join("standby.signal"), "").unwrap();
    let sockets = options.get_socket().unwrap().display();
    let mut arguments = vec![
        format!("-D{}", data.display()),
        "-clisten_addresses=".to_owned(),
        format!("-cunix_socket_directories={sockets}"),
        // It knows no primary, and never asks for the next segment in vain.
        "-cmax_wal_senders=0".to_owned(),
    ];
    arguments.extend(SETTINGS.map(|(name, value)| format!("-c{name}={value}")));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut program = Program::start(&postgres_programs().join("postgres"), &arguments, place);
    let began = Instant::now();
    while options.connect().await.is_err() {
        program.check(place);
        assert!(began.elapsed() < PATIENCE, "{}", place.log());
        sleep(Duration::from_millis(20)).await;
    }
    program
}

async fn promote(options: &PgConnectOptions) {
    let mut connection = options.connect().await.unwrap();
    connection.execute("SELECT pg_promote()").await.unwrap();
    connection.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_neither_starts_on_a_standby_nor_reads_from_one() {
    let (here, of_server) = (Place::new("standby"), Place::new("on-standby"));
    let private = Private::start(&here.0, None, &SETTINGS).await.unwrap();
    let (options, url) = (private.options(), private.url());
    private.stop().await.unwrap();
    let first = standby(&here, &options).await;

    let launch = Launch::shared(&of_server, &url).with("ENTENTE_LOG", "info");
    let waiting = async {
        let began = Instant::now();
        while !of_server.log().contains("is a standby at the moment") {
            assert!(began.elapsed() < PATIENCE, "{}", of_server.log());
            sleep(Duration::from_millis(20)).await;
        }
        promote(&options).await;
    };
    let ((server, _), ()) = tokio::join!(launch.start(), waiting);
    let client = server.client(KEY);
    client.get("/intents").await.ok();

    first.stop();
    let _second = standby(&here, &options).await;
    for _ in 0..2 {
        client.get("/intents").await.refused(503, "unavailable");
    }
    promote(&options).await;
    let began = Instant::now();
    while client.get("/intents").await.status != 200 {
        assert!(began.elapsed() < Duration::from_secs(10), "the server does not go on:\n{}", of_server.log());
        sleep(Duration::from_millis(20)).await;
    }
}
