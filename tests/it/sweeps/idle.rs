//! The idle server: it asks the database a few times per second, and every task still hears of its work.

use std::collections::BTreeSet;
use std::time::Duration;

use entente::background::lookout::Lookout;
use entente_bridges::due;
use tokio::time::sleep;

use entente_harness::{Cluster, Proxy, Setup, World};

/// Statements per second that an idle server may send.
const MOST: u64 = 10;

/// Seconds that are counted.
const SECONDS: u64 = 12;

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_server_sends_ten_statements_per_second_at_most() {
    let (database, proxy) = (Cluster::get().fresh_database().await, Proxy::start().await);
    let world = World::through(Setup::live(), database, &proxy).await;
    // The first runs of the rare sweeps.
    sleep(Duration::from_secs(3)).await;
    let before = proxy.statements();
    sleep(Duration::from_secs(SECONDS)).await;
    let sent = proxy.statements() - before;
    println!("an idle server sends {sent} statements in {SECONDS} s");
    assert!(sent > SECONDS, "{sent} statements in {SECONDS} s: nobody looks around");
    assert!(sent <= MOST * SECONDS, "{sent} statements in {SECONDS} s");
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_look_around_knows_the_work_of_each_task_that_waits_for_it() {
    let world = World::start().await;
    let asked: BTreeSet<String> =
        due::look(world.ctx()).await.unwrap().into_iter().map(|(word, _)| word).collect();
    let known: BTreeSet<String> = Lookout::default().words().into_iter().map(str::to_owned).collect();
    assert_eq!(asked, known);
    world.end().await;
}
