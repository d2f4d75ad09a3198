//! Accounts of a provider, below HTTP: first logins at once on two servers, accounts of several issuers, full teams, and
//! what an operator lets be taken over. tests/web/oidc.test.js logs in at a real provider.

use std::collections::{BTreeMap, BTreeSet};

use entente_domain::identity::provider::{Account, ProviderPolicy};
use entente_domain::identity::provider_logins::ProviderLogin;
use entente_domain::refusal::Code;
use entente_kernel::identity::keys::NewKey;
use entente_kernel::identity::people;
use entente_kernel::{AppError, Outcome};

use super::{logged_in, person};
use entente_harness::{World, json};

const ISSUER: &str = "https://login.example.com";

fn policy(creates: bool, takes_over: bool) -> ProviderPolicy {
    let teams = BTreeMap::from([("eng".to_owned(), BTreeSet::from(["team.eng".to_owned()]))]);
    ProviderPolicy {
        issuer: ISSUER.to_owned(),
        name_claim: "sub".to_owned(),
        principal: "human.{claim}".to_owned(),
        groups_claim: "groups".to_owned(),
        teams,
        admin_group: None,
        creates,
        takes_over,
    }
}

fn account(subject: &str, name: &str) -> Account {
    Account {
        issuer: ISSUER.to_owned(),
        subject: subject.to_owned(),
        principal_id: format!("human.{name}"),
        display_name: None,
        teams: BTreeSet::new(),
        admin: false,
    }
}

fn begun(world: &World) -> ProviderLogin {
    ProviderLogin::begin(&*world.ctx().chance, "/inbox", None, world.ctx().now())
}

async fn log_in(world: &World, policy: &ProviderPolicy, account: &Account) -> Outcome<NewKey> {
    people::log_in_with_account(world.ctx(), policy, account, &begun(world), None).await
}

/// Returns the code of a refusal; panics if there was none.
fn code<T>(done: Outcome<T>) -> Code {
    match done {
        Err(AppError::Refused(refusal)) => refusal.code,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was not refused"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_first_logins_at_once_one_account_becomes_the_person() {
    let (one, other) = World::two().await;
    let policy = policy(true, false);
    let accounts: Vec<Account> = (0..8).map(|n| account(&format!("s{n}"), "ada")).collect();
    let tries = accounts.iter().enumerate().map(|(n, account)| {
        let world = if n % 2 == 0 { &one } else { &other };
        log_in(world, &policy, account)
    });
    let done = futures_util::future::join_all(tries).await;
    let winners: Vec<usize> = (0..8).filter(|n| done[*n].is_ok()).collect();
    assert_eq!(winners.len(), 1);
    for (n, done) in done.into_iter().enumerate().filter(|(n, _)| *n != winners[0]) {
        assert_eq!(code(done), Code::Forbidden, "account {n}");
    }
    // Logins of the one account at once are as many keys, on both servers.
    let account = &accounts[winners[0]];
    let again = [&one, &other, &one, &other].map(|world| log_in(world, &policy, account));
    for done in futures_util::future::join_all(again).await {
        assert_eq!(done.unwrap().key.principal_id, "human.ada");
    }
    other.end().await;
    one.end().await;
}

#[tokio::test]
async fn a_login_ends_once_on_either_server() {
    let (one, other) = World::two().await;
    let (policy, account, login) = (policy(true, false), account("s", "ada"), begun(&one));
    let end = |world| people::log_in_with_account(world, &policy, &account, &login, None);
    assert_eq!(end(one.ctx()).await.unwrap().key.principal_id, "human.ada");
    assert_eq!(code(end(one.ctx()).await), Code::Gone);
    assert_eq!(code(end(other.ctx()).await), Code::Gone);
    other.end().await;
    one.end().await;
}

#[tokio::test]
async fn ids_of_logins_that_are_over_go() {
    let world = World::start().await;
    let (policy, account) = (policy(true, false), account("s", "ada"));
    for _ in 0..3 {
        log_in(&world, &policy, &account).await.unwrap();
    }
    world.clock.advance(600);
    log_in(&world, &policy, &account).await.unwrap();
    let left: i64 = sqlx::query_scalar("SELECT count(*) FROM provider_logins")
        .fetch_one(&world.ctx().pool)
        .await
        .unwrap();
    assert_eq!(left, 1);
    world.end().await;
}

#[tokio::test]
async fn whoever_logs_in_otherwise_is_taken_over_only_where_the_operator_says_so() {
    let world = World::start().await;
    let (strict, open) = (policy(false, false), policy(false, true));
    // A link that was used, and whose login is over, has let somebody in all the same.
    logged_in(&world, "human.ada", false).await;
    world.clock.advance(13 * 3_600);
    let ada = account("s-ada", "ada");
    assert_eq!(code(log_in(&world, &strict, &ada).await), Code::Forbidden);
    let made = log_in(&world, &open, &ada).await.unwrap().key;
    assert_eq!(made.principal_id, "human.ada");
    assert!(made.authority.unwrap().basis.decides());
    // Never another account's person, nor an agent.
    assert_eq!(code(log_in(&world, &open, &account("s-eve", "ada")).await), Code::Forbidden);
    let admin = world.admin().await;
    for kind in ["agent", "service"] {
        admin.post("/principals", json!({ "id": format!("human.{kind}"), "kind": kind })).await.is(201);
        assert_eq!(code(log_in(&world, &open, &account("s-it", kind)).await), Code::Forbidden);
    }
    world.end().await;
}

#[tokio::test]
async fn an_account_of_another_issuer_is_another_way_in() {
    let world = World::start().await;
    person(&world, "human.ada").await;
    let (strict, open) = (policy(false, false), policy(false, true));
    log_in(&world, &strict, &account("1", "ada")).await.unwrap();
    // The same subject of another issuer is somebody else.
    let moved = Account { issuer: "https://elsewhere.example".to_owned(), ..account("1", "ada") };
    assert_eq!(code(log_in(&world, &strict, &moved).await), Code::Forbidden);
    assert_eq!(log_in(&world, &open, &moved).await.unwrap().key.principal_id, "human.ada");
    log_in(&world, &strict, &account("1", "ada")).await.unwrap();
    // Releasing the person ends both, and whoever is no admin releases nobody.
    let agent = world.agent("agent.a").await;
    agent.delete("/people/human.ada/account").await.is(403);
    let admin = world.admin().await;
    admin.delete("/people/human.ada/account").await.is(204);
    admin.delete("/people/human.ada/account").await.is(404);
    admin.delete("/people/human.nobody/account").await.is(404);
    admin.delete("/people/agent.a/account").await.is(422);
    let left: i64 = sqlx::query_scalar("SELECT count(*) FROM provider_accounts")
        .fetch_one(&world.ctx().pool)
        .await
        .unwrap();
    assert_eq!(left, 0);
    world.end().await;
}

#[tokio::test]
async fn a_full_team_keeps_nobody_from_logging_in() {
    let world = World::start().await;
    let admin = person(&world, "human.ada").await;
    let fill = "INSERT INTO principals (id, kind, created_by, created_at)
         SELECT 'human.m' || n, 'human', 'entente', now() FROM generate_series(1, 1000) n";
    sqlx::query(fill).execute(&world.ctx().pool).await.unwrap();
    let members: Vec<String> = (1..=1_000).map(|n| format!("human.m{n}")).collect();
    admin.put("/teams/team.eng", json!({ "members": members })).await.ok();
    let engineer = Account { teams: BTreeSet::from(["team.eng".to_owned()]), ..account("s", "ada") };
    log_in(&world, &policy(false, false), &engineer).await.unwrap();
    let team = admin.get("/teams/team.eng").await.ok();
    assert_eq!(team["members"].as_array().unwrap().len(), 1_000);
    admin.put("/teams/team.eng", json!({ "members": members[1..] })).await.ok();
    log_in(&world, &policy(false, false), &engineer).await.unwrap();
    let team = admin.get("/teams/team.eng").await.ok();
    assert!(team["members"].as_array().unwrap().contains(&json!("human.ada")));
    // What a stop of the team stops, it stops for her at once.
    log_in(&world, &policy(false, false), &account("s", "ada")).await.unwrap();
    let team = admin.get("/teams/team.eng").await.ok();
    assert_eq!(team["members"].as_array().unwrap().len(), 999);
    world.end().await;
}
