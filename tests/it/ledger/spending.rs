//! The ledger of money: callers reserve and settle over three nested budgets on two servers, which are killed with SIGKILL
//! in turn. Whatever answer is lost, the caller repeats its request at the other server. Afterwards no budget is
//! overspent, and each acknowledged cost is charged and on record once.
//!
//! `ENTENTE_CENTS=85000` makes it 100,000 reservations.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use futures_util::future::join_all;

use super::{insist, pause};
use entente_harness::process::{KEY, Launch, Place, Process};
use entente_harness::spending::{budget, usage};
use entente_harness::{Client, Cluster, Setup, Value, World, json};

/// Default limit of the widest budget in cents.
const CENTS: u64 = 1_000;
/// Number of concurrent callers.
const CALLERS: usize = 32;

/// What all callers did.
#[derive(Default)]
struct Spent {
    /// Acknowledged costs, in mills: tenths of a cent.
    mills: AtomicU64,
    reservations: AtomicU64,
    repeated: AtomicU64,
    over: AtomicBool,
}

/// Reserves a cent at a time and settles each, until nothing is left.
async fn caller(spent: Arc<Spent>, servers: [Client; 2], name: usize) {
    let mut agent = if name.is_multiple_of(2) { "agent.ada" } else { "agent.bob" };
    for n in 0.. {
        let call = json!({ "agent_id": agent, "reserve": { "USD": "0.01" }, "call_id": format!("{name}-{agent}-{n}") });
        let made = insist(&spent.repeated, &servers, name, "/spend/reservations", &call).await;
        match (made.status, agent) {
            // The narrow budget is used up.
            (403, "agent.ada") => agent = "agent.bob",
            (403, _) => return,
            (200 | 201, _) => {
                spent.reservations.fetch_add(1, Ordering::Relaxed);
                let id = made.json()["reservation_id"].as_str().unwrap().to_owned();
                let mills = if n % 3 == 0 { 5 } else { 10 };
                let cost = json!({ "cost": { "USD": format!("0.{mills:03}") } });
                let path = format!("/spend/reservations/{id}/settle");
                insist(&spent.repeated, &servers, name, &path, &cost).await.is(200);
                spent.mills.fetch_add(mills, Ordering::Relaxed);
            }
            (status, _) => panic!("{status}: {}", made.text),
        }
    }
}

/// Kills the servers in turn until the callers are done; returns how often.
async fn kill_in_turn(spent: &Spent, launches: &[Launch; 2], servers: &mut [Process; 2]) -> u32 {
    let mut chance = u64::from(std::process::id()) ^ 0x9E37_79B9_7F4A_7C15;
    for kill in 0.. {
        tokio::time::sleep(pause(&mut chance)).await;
        if spent.over.load(Ordering::Acquire) {
            return kill;
        }
        let turn = usize::try_from(kill % 2).unwrap();
        servers[turn].kill();
        servers[turn] = launches[turn].start().await.0;
    }
    unreachable!("the loop has no end")
}

#[expect(clippy::disallowed_methods, reason = "how much is spent is the test's own setting")]
fn cents() -> u64 {
    std::env::var("ENTENTE_CENTS").ok().and_then(|text| text.parse().ok()).unwrap_or(CENTS)
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_overspent_whichever_server_is_killed() {
    let _permit = super::may_begin().await;
    let began = Instant::now();
    let (world, cents) = (World::with(Setup::live()).await, cents());
    let url = Cluster::get().url(&world.database);
    let places = [Place::new("money"), Place::new("money")];
    let launches = places.each_ref().map(|place| Launch::shared(place, &url));
    let mut servers = [launches[0].start().await.0, launches[1].start().await.0];
    let admin = world.admin().await;
    admin.put("/teams/all", json!({ "members": ["service.any"] })).await.is(200);
    let dollars = |cents: u64| json!(format!("{}.{:02}", cents / 100, cents % 100));
    let budgets = [
        budget(&admin, "system", dollars(cents), json!({})).await,
        budget(&admin, "team:all", dollars(cents + 100), json!({ "window": "month" })).await,
        budget(&admin, "agent:agent.ada", dollars(cents / 4), json!({ "window": "day" })).await,
    ];
    let spent = Arc::new(Spent::default());
    let clients = servers.each_ref().map(|server| server.client(KEY));
    let callers = (0..CALLERS).map(|name| tokio::spawn(caller(Arc::clone(&spent), clients.clone(), name)));
    let load = async {
        let done = join_all(callers.collect::<Vec<_>>()).await;
        spent.over.store(true, Ordering::Release);
        done.into_iter().for_each(Result::unwrap);
    };
    let ((), kills) = tokio::join!(load, kill_in_turn(&spent, &launches, &mut servers));
    // Each start of `entente dev` has ended the operator's key of the run before.
    let admin = world.admin().await;
    let mills = |value: &Value| format!("{:.0}", value.as_f64().unwrap() * 1_000.0).parse::<u64>().unwrap();
    let mut charged = Vec::new();
    for budget in &budgets {
        let [limit, used, reserved, left] = usage(&admin, budget).await;
        assert!(mills(&used) <= mills(&limit), "{used} of {limit} are spent");
        assert_eq!(mills(&reserved), 0, "everything is settled");
        assert_eq!(mills(&left), mills(&limit) - mills(&used));
        charged.push(mills(&used));
    }
    let acknowledged = spent.mills.load(Ordering::Relaxed);
    assert_eq!((charged[0], charged[1]), (acknowledged, acknowledged), "charged and acknowledged");
    // What is left is less than what all callers had reserved when they were refused.
    let rest = CALLERS as u64 * 10;
    assert!(charged[0] + rest >= cents * 10 && charged[2] + rest >= cents / 4 * 10, "used up: {charged:?}");
    let report = admin.get("/spend").await.ok();
    assert_eq!(mills(&report["lines"][0]["amount"]), acknowledged, "every cost is on record once");
    assert!(kills > 0, "no server was killed: the test proves nothing");
    println!(
        "{} reservations, {kills} kills, {} requests repeated, overspent by 0.00, {:?}",
        spent.reservations.load(Ordering::Relaxed),
        spent.repeated.load(Ordering::Relaxed),
        began.elapsed()
    );
    drop(servers);
    world.end().await;
}
