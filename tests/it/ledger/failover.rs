//! The crash ledger over a failover: two servers, which hand messages over to each other, behind HAProxy, while the primary of a
//! Patroni cluster with a synchronous standby is killed, cut off from everybody, and cut off from all but its clients.
//! Afterwards everything acknowledged is there once and in order, and no reader has a gap.
//!
//! `make chaos` runs it; `tests/harness/src/peers/patroni.rs` says what is real and what is emulated.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection as _, Executor as _, PgConnection, Row as _};
use tokio::time::{sleep, timeout};

use super::Run;
use super::load::Load;
use entente_harness::patroni::{Cut, Node, Patroni};
use entente_harness::process::{KEY, Launch, Place, Process, free_address};

/// What happens to the primary.
#[derive(Debug, Clone, Copy)]
enum Failure {
    /// Its Patroni and its PostgreSQL are killed, and start again later.
    Killed,
    /// Its cables are unplugged, and plugged in again later.
    Cut(Cut),
}

const FAILURES: [Failure; 3] = [Failure::Killed, Failure::Cut(Cut::All), Failure::Cut(Cut::Members)];

/// Upper bound from the new primary to the first acknowledgement.
const SERVED: Duration = Duration::from_secs(10);

/// How long messages are sent before a failure, and on the new primary before the old one comes back.
const UNDER_LOAD: Duration = Duration::from_secs(3);

/// Pause of a client after each message: the failure counts here, not the rate.
const PAUSE: Duration = Duration::from_millis(50);

/// How long a write to an isolated primary is waited for.
const LATE: Duration = Duration::from_secs(1);

/// What an isolated primary did with writes that reached it around its cables.
#[derive(Debug, Default)]
struct Late {
    acknowledged: u32,
    /// It did not answer: it waited for its standby.
    unanswered: u32,
    refused: u32,
}

/// Writes to an isolated primary until `over`.
async fn write_late(options: PgConnectOptions, over: Arc<AtomicBool>) -> Late {
    let mut late = Late::default();
    while !over.load(Ordering::Acquire) {
        let written = async {
            let mut connection = PgConnection::connect_with(&options).await?;
            connection.execute("INSERT INTO late (n) VALUES (1)").await
        };
        match timeout(LATE, written).await {
            Ok(Ok(_)) => late.acknowledged += 1,
            Ok(Err(_)) => late.refused += 1,
            Err(_) => late.unanswered += 1,
        }
        sleep(Duration::from_millis(100)).await;
    }
    late
}

/// Returns the number of late writes that a member has.
async fn late_writes_on(node: &Node) -> i64 {
    let mut connection = PgConnection::connect_with(&node.options()).await.unwrap();
    connection.fetch_one("SELECT count(*) FROM late").await.unwrap().get(0)
}

/// Waits for the next acknowledgement.
async fn acknowledged(run: &Run) {
    let (began, before) = (Instant::now(), run.acknowledged.load(Ordering::Acquire));
    while run.acknowledged.load(Ordering::Acquire) == before {
        assert!(began.elapsed() < super::PATIENCE, "nothing is acknowledged any more");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Fails the primary under load, and brings it back as a standby.
async fn fail(cluster: &mut Patroni, failure: Failure, run: &Run) {
    cluster.complete().await;
    let old = cluster.primary().await.unwrap();
    acknowledged(run).await;
    sleep(UNDER_LOAD).await;
    let (began, over) = (Instant::now(), Arc::new(AtomicBool::new(false)));
    let late = match failure {
        Failure::Killed => {
            cluster.nodes[old].kill();
            None
        }
        Failure::Cut(cut) => {
            cluster.nodes[old].cut(cut);
            Some(tokio::spawn(write_late(cluster.nodes[old].options(), Arc::clone(&over))))
        }
    };
    let new = cluster.next_primary(old).await;
    let elected = began.elapsed();
    acknowledged(run).await;
    let served = began.elapsed().saturating_sub(elected);
    println!("{failure:?}: a new primary after {elected:.1?}, and the first success {served:.1?} later");
    assert!(served < SERVED, "{failure:?}: the first success came {served:?} after the new primary");
    sleep(UNDER_LOAD).await;
    match failure {
        Failure::Killed => cluster.nodes[old].start_again(),
        Failure::Cut(_) => cluster.nodes[old].mend(),
    }
    cluster.complete().await;
    assert_eq!(cluster.primary().await, Some(new), "the new primary stays");
    over.store(true, Ordering::Release);
    if let Some(late) = late {
        let late = late.await.unwrap();
        println!("{failure:?}: late writes to the old primary: {late:?}");
        assert_eq!(late.acknowledged, 0, "an isolated primary acknowledged");
        assert!(late.unanswered > 0, "nothing was written to it in time: the test proves nothing");
        for node in &cluster.nodes {
            assert_eq!(late_writes_on(node).await, 0, "{} has a late write", node.name);
        }
    }
    println!("{failure:?}: the cluster is complete again after {:.1?}", began.elapsed());
}

/// Starts a server behind HAProxy that takes messages from the others.
async fn start(place: &Place, cluster: &Patroni) -> Process {
    let peers = free_address().to_string();
    let launch = Launch::shared(place, &cluster.url())
        .with("ENTENTE_WEBHOOK_TIMEOUT_SECONDS", "1")
        .with("ENTENTE_PEER_URL", &format!("tcp://{peers}"))
        .with("ENTENTE_PEER_LISTEN", &peers);
    launch.start().await.0
}

async fn messages_handed_over_by(server: &Process) -> u64 {
    let metrics = server.client(KEY).get("//metrics").await.text;
    let told =
        metrics.lines().find_map(|line| line.strip_prefix("entente_forwards_total{outcome=\"written\"} "));
    told.map_or(0, |count| count.trim().parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it takes minutes, and Debian's patroni, etcd-server and haproxy: `make chaos`"]
async fn nothing_acknowledged_is_lost_with_the_primary() {
    let began = Instant::now();
    let mut cluster = Patroni::start().await;
    println!("the cluster is complete after {:.1?}", began.elapsed());
    let primary = cluster.primary().await.unwrap();
    let mut connection = PgConnection::connect_with(&cluster.nodes[primary].options()).await.unwrap();
    connection.execute("CREATE TABLE late (n bigint NOT NULL)").await.unwrap();
    let places = [Place::new("chaos"), Place::new("chaos")];
    let servers = [start(&places[0], &cluster).await, start(&places[1], &cluster).await];
    let run = Run { pause: PAUSE, ..Run::default() };
    let load = Load::start(run, servers.iter().map(|server| server.client(KEY)).collect()).await;
    for failure in FAILURES {
        fail(&mut cluster, failure, &load.run).await;
    }
    load.end().await;
    let mut handed_over = 0;
    for server in &servers {
        handed_over += messages_handed_over_by(server).await;
    }
    let refused: usize = places.iter().map(|place| place.log().matches("is a standby").count()).sum();
    println!("{handed_over} messages were handed over, and {refused} connections to a standby refused");
    assert!(handed_over > 0, "no message was handed over: the test proves less than it says");
}
