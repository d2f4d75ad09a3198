//! A long random sequence of everything that can happen to leases, compared after each step with a simple model
//! that has no SQL and no sweeps and treats paths as lists of words.

use super::{goal, listed, one, told};
use entente_harness::{Client, Value, World, json};

/// Number of steps.
const STEPS: usize = 600;

const SCOPES: [&str; 7] = ["a", "a/b", "a/b/c", "b", "/b/", "state/c", "*"];
const PATHS: [&str; 5] = ["a", "a/b", "a/x", "b", "c/d"];

/// A lease in the model.
struct Known {
    lease: Value,
    agent: usize,
    covers: Vec<&'static str>,
    ends_at: i64,
    ended: bool,
}

/// The model, and the clients that it is compared with.
struct Walk {
    world: World,
    clients: Vec<Client>,
    intent: String,
    known: Vec<Known>,
    now: i64,
    version: i64,
    chance: u64,
}

/// Splits a scope or path into words.
fn words(text: &'static str) -> Vec<&'static str> {
    text.trim_start_matches("state/").split('/').filter(|word| !word.is_empty() && *word != "*").collect()
}

fn meet(one: &[&str], other: &[&str]) -> bool {
    let shorter = one.len().min(other.len());
    one[..shorter] == other[..shorter]
}

impl Walk {
    fn pick(&mut self, of: usize) -> usize {
        // Knuth's MMIX generator; its high bits are random enough.
        self.chance =
            self.chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.chance >> 33).unwrap() % of
    }

    fn in_force(&self) -> impl Iterator<Item = &Known> {
        self.known.iter().filter(|known| !known.ended && known.ends_at > self.now)
    }

    async fn acquire(&mut self, agent: usize) {
        let (scope, seconds) = (SCOPES[self.pick(SCOPES.len())], 1 + self.pick(60));
        let covers = words(scope);
        let path = format!("/intents/{}/leases", self.intent);
        let reply =
            self.clients[agent].post(&path, json!({ "scope": scope, "duration_seconds": seconds })).await;
        let in_the_way: Vec<&Value> = self
            .in_force()
            .filter(|known| known.covers == covers || (known.agent != agent && meet(&known.covers, &covers)))
            .map(|known| &known.lease["id"])
            .collect();
        if !in_the_way.is_empty() {
            let refused = reply.refused(409, "lease_held");
            assert!(in_the_way.contains(&&refused["existing_lease"]["id"]), "{refused}");
            return;
        }
        let lease = reply.is(200);
        let last = self.known.iter().map(|known| known.lease["fencing_token"].as_i64()).max();
        assert!(last.is_none_or(|last| last < lease["fencing_token"].as_i64()), "{lease}");
        let ends_at = self.now + i64::try_from(seconds).unwrap();
        self.known.push(Known { lease, agent, covers, ends_at, ended: false });
    }

    /// Renews or ends one of the most recent leases.
    async fn touch(&mut self, agent: usize, renew: bool) {
        if self.known.is_empty() {
            return;
        }
        let at = self.known.len() - 1 - self.pick(self.known.len().min(6));
        let now = self.now;
        let client = &self.clients[agent];
        let known = &mut self.known[at];
        let held = !known.ended && known.ends_at > now;
        // Agent 0 created the intent.
        let mine = known.agent == agent || (agent == 0 && !renew);
        let reply = if renew {
            client.patch(&one(&known.lease), json!({ "duration_seconds": 30 })).await
        } else {
            client.delete(&one(&known.lease)).await
        };
        if !mine {
            reply.refused(404, "not_found");
        } else if !renew {
            reply.is(200);
            known.ended |= held;
        } else if held {
            reply.is(200);
            known.ends_at = now + 30;
        } else {
            reply.refused(409, "lease_ended");
        }
    }

    async fn patch(&mut self, agent: usize) {
        let path = PATHS[self.pick(PATHS.len())];
        let body = json!({ "patches": [{ "op": "remove", "path": path }] });
        let client = self.clients[agent].seen(&json!(self.version));
        let reply = client.post(&format!("/intents/{}/state", self.intent), body).await;
        if self.in_force().any(|known| known.agent != agent && meet(&known.covers, &words(path))) {
            reply.refused(409, "lease_held");
        } else {
            reply.is(200);
            self.version += 1;
        }
    }

    async fn pass(&mut self) {
        let seconds = i64::try_from(self.pick(25)).unwrap();
        self.world.clock.advance(seconds);
        self.now += seconds;
        if self.pick(3) == 0 {
            self.world.sweep().await;
        }
    }

    async fn step(&mut self) {
        let agent = self.pick(self.clients.len());
        match self.pick(10) {
            0..=3 => self.acquire(agent).await,
            4 => self.touch(agent, true).await,
            5 | 6 => self.touch(agent, false).await,
            7 | 8 => self.patch(agent).await,
            _ => self.pass().await,
        }
        let active = listed(&self.clients[0], &self.intent, "active").await;
        let ids: Vec<&Value> = active.iter().map(|lease| &lease["id"]).collect();
        assert_eq!(ids, self.in_force().map(|known| &known.lease["id"]).collect::<Vec<_>>());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_walk_agrees_with_a_simple_model() {
    let world = World::start().await;
    let mut clients = Vec::new();
    for name in ["agent.ada", "agent.bob", "agent.eve"] {
        clients.push(world.agent(name).await);
    }
    let intent = goal(&clients[0]).await;
    let mut walk = Walk { world, clients, intent, known: Vec::new(), now: 0, version: 1, chance: 2_026 };
    for _ in 0..STEPS {
        walk.step().await;
    }
    assert!(walk.known.len() > 50, "only {} leases were granted", walk.known.len());
    // Finally each lease has ended once, and the log records that once.
    walk.world.pass(1_000).await;
    let mut ended = Vec::new();
    for status in ["released", "expired", "revoked"] {
        let list = listed(&walk.clients[0], &walk.intent, status).await;
        assert!(!list.is_empty(), "none was {status}");
        ended.extend(list.into_iter().map(|lease| lease["id"].as_str().unwrap().to_owned()));
    }
    let log = told(&walk.clients[0], &walk.intent, "lease_released&limit=1000").await;
    let mut logged: Vec<String> =
        log.iter().map(|event| event["lease_id"].as_str().unwrap().to_owned()).collect();
    ended.sort_unstable();
    logged.sort_unstable();
    assert_eq!(logged, ended);
    assert_eq!(ended.len(), walk.known.len());
    walk.world.end().await;
}
