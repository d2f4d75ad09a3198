//! The ledger of expiries: copies of agents write on two servers, which SIGSTOP pauses at random, for longer than PostgreSQL
//! lets a transaction idle too. On some lines the copies take over from each other by sessions, on others by a lease of a
//! second; each counts what those before it have written: after it was told that it is the next one, that grows no more.
//!
//! `ENTENTE_EPOCHS=100000` makes it that many expiries.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::time::{sleep, timeout};

use super::pause;
use entente_harness::governance::governed;
use entente_harness::process::{Launch, Place, Process, key_of};
use entente_harness::{Client, Cluster, Reply, Setup, Value, World, json};

/// Default number of expiries.
const EXPIRIES: i64 = 400;
/// Agents whose copies take over by sessions, and those whose copies take over by a lease.
const LINES: [usize; 2] = [12, 8];
/// Copies of each agent.
const COPIES: usize = 3;
/// Time after which a copy asks the other server: a paused one answers nothing.
const PATIENCE: Duration = Duration::from_millis(900);
/// Each pause of this number is longer than PostgreSQL lets a transaction idle (4 s).
const LONG: u32 = 12;
/// Successions for which each copy looks back: all before were looked at when these happened.
const BACK: usize = 6;

/// One agent, whose copies take over from each other.
struct Line {
    agent: String,
    /// Start of the keys of what it writes.
    name: String,
    by_lease: bool,
    /// Epochs or fencing tokens that a copy was told, in their order.
    told: Mutex<Vec<i64>>,
    /// Ranges of keys, with the number of writes just after a copy was told its number.
    before: Mutex<Vec<(String, String, i64)>>,
}

/// What all copies did.
#[derive(Default)]
struct Ledger {
    expiries: [AtomicI64; 2],
    written: AtomicU64,
    refused: AtomicU64,
    unanswered: AtomicU64,
    over: AtomicBool,
}

/// A copy: its line, its clients of both servers, and the paths that it writes to.
struct Copy<'a> {
    ledger: &'a Ledger,
    world: &'a World,
    line: &'a Line,
    clients: [Client; 2],
    intent: String,
    messages: String,
    turn: usize,
    most: i64,
}

/// What is written has a key: the line, the epoch or token, and a number.
const INDICES: &str = "
    CREATE INDEX ledger_messages ON messages ((payload::jsonb->>'key') COLLATE \"C\");
    CREATE INDEX ledger_events ON events ((CASE event_type WHEN 'task.created' THEN payload::jsonb->>'name'
        ELSE (payload::jsonb->>'scope') || '-' || lpad(payload::jsonb->>'fencing_token', 12, '0') END) COLLATE \"C\")
        WHERE event_type IN ('task.created', 'lease_acquired')";

/// Number of writes in a range of keys: messages, tasks, and leases with their renewals.
const WRITES: &str = "
    SELECT (SELECT count(*) FROM messages WHERE (payload::jsonb->>'key') COLLATE \"C\" >= $1 AND (payload::jsonb->>'key') COLLATE \"C\" < $2)
         + (SELECT count(*) FROM events WHERE event_type IN ('task.created', 'lease_acquired')
            AND (CASE event_type WHEN 'task.created' THEN payload::jsonb->>'name'
                 ELSE (payload::jsonb->>'scope') || '-' || lpad(payload::jsonb->>'fencing_token', 12, '0') END) COLLATE \"C\" >= $1
            AND (CASE event_type WHEN 'task.created' THEN payload::jsonb->>'name'
                 ELSE (payload::jsonb->>'scope') || '-' || lpad(payload::jsonb->>'fencing_token', 12, '0') END) COLLATE \"C\" < $2)";

async fn writes(world: &World, from: &str, to: &str) -> i64 {
    sqlx::query_scalar(WRITES).bind(from).bind(to).fetch_one(&world.ctx().pool).await.unwrap()
}

impl Line {
    fn new(by_lease: bool, n: usize) -> Self {
        let name = format!("{}{n:02}", if by_lease { "l" } else { "e" });
        let (told, before) = (Mutex::default(), Mutex::default());
        Self { agent: format!("agent.{name}"), name, by_lease, told, before }
    }

    /// Start of the keys of what is written in a session, or under a lease.
    fn key(&self, number: i64) -> String {
        format!("{}-{number:012}", self.name)
    }

    /// Notes what those before this number have written; the copy was told the number just now.
    async fn note(&self, world: &World, number: i64) {
        let from = {
            let mut told = self.told.lock().unwrap();
            let place = told.partition_point(|one| *one < number);
            told.insert(place, number);
            place.checked_sub(BACK).map_or(0, |place| told[place])
        };
        let (from, to) = (self.key(from), self.key(number));
        let count = writes(world, &from, &to).await;
        self.before.lock().unwrap().push((from, to, count));
    }
}

impl Copy<'_> {
    /// Whether there were enough expiries.
    fn is_over(&self) -> bool {
        self.ledger.expiries.iter().map(|count| count.load(Ordering::Relaxed)).sum::<i64>() >= self.most
    }

    /// Sends to one server; `None` if it does not answer in time, or not now.
    async fn send(&self, client: &Client, method: &str, path: &str, body: &Value) -> Option<Reply> {
        let reply = timeout(PATIENCE, client.try_send(method, path, Some(body.to_string()))).await;
        let reply = reply.ok().flatten().filter(|reply| reply.status != 503);
        if reply.is_none() {
            self.ledger.unanswered.fetch_add(1, Ordering::Relaxed);
        }
        reply
    }

    /// Writes; returns whether that was refused, or `None` without an answer.
    async fn write(&self, client: &Client, method: &str, path: &str, body: &Value) -> Option<Reply> {
        let reply = self.send(client, method, path, body).await?;
        let code = if self.line.by_lease { "lease_ended" } else { "stale_epoch" };
        if reply.status == 409 {
            assert_eq!(reply.json()["code"], code, "{}", reply.text);
            self.ledger.refused.fetch_add(1, Ordering::Relaxed);
        } else {
            assert!(reply.status < 300, "{path}: {}", reply.text);
            self.ledger.written.fetch_add(1, Ordering::Relaxed);
        }
        Some(reply)
    }

    fn client(&mut self) -> Client {
        self.turn += 1;
        self.clients[self.turn % 2].clone()
    }

    /// Takes over again and again.
    async fn run(mut self) {
        while !self.is_over() {
            let taken = if self.line.by_lease { self.by_lease().await } else { self.by_session().await };
            if taken.is_some() {
                self.ledger.expiries[usize::from(self.line.by_lease)].fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Opens a session and writes in it until that is refused.
    async fn by_session(&mut self) -> Option<()> {
        let path = format!("/agents/{}/sessions", self.line.agent);
        let client = self.client();
        let epoch = self.send(&client, "POST", &path, &json!({})).await?.is(201)["epoch"].as_i64().unwrap();
        self.line.note(self.world, epoch).await;
        let key = self.line.key(epoch);
        let (tasks, leases) =
            (format!("/intents/{}/tasks", self.intent), format!("/intents/{}/leases", self.intent));
        let mut lease = None;
        for n in self.turn.. {
            let client = self.client().with("entente-epoch", &epoch.to_string());
            let seconds = json!({ "duration_seconds": 1 });
            let reply = match (n % 4, &lease) {
                (0, None) => {
                    let ask = json!({ "scope": key, "duration_seconds": 1 });
                    let reply = self.write_or_held(&client, &leases, &ask).await;
                    lease = reply
                        .as_ref()
                        .filter(|reply| reply.status == 200)
                        .map(|reply| reply.json()["id"].clone());
                    reply
                }
                (0 | 2, Some(id)) => {
                    let path = format!("{leases}/{}", id.as_str().unwrap());
                    let reply = self.send(&client, "PATCH", &path, &seconds).await;
                    // A lease that ended by its time is not renewed, whoever asks.
                    if reply.as_ref().is_some_and(|reply| reply.json()["code"] == "lease_ended") {
                        lease = None;
                        continue;
                    }
                    self.counted(reply)
                }
                (1, _) => self.write(&client, "POST", &tasks, &json!({ "name": format!("{key}-{n}") })).await,
                _ => {
                    let message =
                        json!({ "sender": self.line.agent, "payload": { "key": format!("{key}-{n}") } });
                    self.write(&client, "POST", &self.messages, &message).await
                }
            };
            if reply.is_some_and(|reply| reply.status == 409) || self.is_over() {
                break;
            }
        }
        Some(())
    }

    /// As [`Self::write`]; a repetition after a lost answer finds its own lease.
    async fn write_or_held(&self, client: &Client, path: &str, body: &Value) -> Option<Reply> {
        let reply = self.send(client, "POST", path, body).await;
        if reply.as_ref().is_some_and(|reply| reply.json()["code"] == "lease_held") {
            return None;
        }
        self.counted(reply)
    }

    fn counted(&self, reply: Option<Reply>) -> Option<Reply> {
        let reply = reply?;
        if reply.status == 409 {
            assert_eq!(reply.json()["code"], "stale_epoch", "{}", reply.text);
            self.ledger.refused.fetch_add(1, Ordering::Relaxed);
        } else {
            assert!(reply.status < 300, "{}", reply.text);
            self.ledger.written.fetch_add(1, Ordering::Relaxed);
        }
        Some(reply)
    }

    /// Acquires the line's lease and writes under it until that is refused.
    async fn by_lease(&mut self) -> Option<()> {
        let leases = format!("/intents/{}/leases", self.intent);
        let client = self.client();
        let ask = json!({ "scope": self.line.name, "duration_seconds": 1 });
        let reply = self.send(&client, "POST", &leases, &ask).await?;
        if reply.json()["code"] == "lease_held" {
            sleep(Duration::from_millis(150 + 40 * (self.turn as u64 % 5))).await;
            return None;
        }
        let lease = reply.is(200);
        let token = lease["fencing_token"].as_i64().unwrap();
        self.line.note(self.world, token).await;
        let (id, key) = (lease["id"].as_str().unwrap(), self.line.key(token));
        for n in self.turn.. {
            let client = self.client().with("entente-lease", &format!("{id}; token={token}"));
            let message = json!({ "sender": self.line.agent, "payload": { "key": format!("{key}-{n}") } });
            let reply = match n % 7 {
                3 => {
                    self.write(&client, "PATCH", &format!("{leases}/{id}"), &json!({ "duration_seconds": 1 }))
                        .await
                }
                _ => self.write(&client, "POST", &self.messages, &message).await,
            };
            if reply.is_some_and(|reply| reply.status == 409) || self.is_over() {
                break;
            }
            sleep(Duration::from_millis(120 + 60 * (n as u64 % 4))).await;
        }
        Some(())
    }
}

/// An intent with a channel: those of a session's copy are its own, so that no copy waits for a lock of another.
async fn place(client: &Client) -> (String, String) {
    let intent = governed(client, json!({})).await;
    let ask = json!({ "name": "main", "options": { "max_messages": 10_000 } });
    let channel = client.post(&format!("/intents/{intent}/channels"), ask).await.is(201);
    let messages = format!("/channels/{}/messages", channel["id"].as_str().unwrap());
    (intent, messages)
}

/// Starts the copies of a line, which run until there were enough expiries.
async fn copies(ledger: &Ledger, world: &World, line: &Line, servers: &[Process; 2], most: i64) {
    let clients = servers.each_ref().map(|server| server.client(&key_of(&line.agent)));
    let shared = place(&clients[0].patient()).await;
    let mut all = Vec::new();
    for turn in 0..COPIES {
        let place = if line.by_lease { shared.clone() } else { place(&clients[0].patient()).await };
        let (clients, (intent, messages)) = (clients.clone(), place);
        all.push(Copy { ledger, world, line, clients, intent, messages, turn, most }.run());
    }
    join_all(all).await;
}

/// Pauses the servers in turn until the copies are done; returns how often.
async fn pause_in_turn(ledger: &Ledger, servers: &[Process; 2]) -> u32 {
    let mut chance = u64::from(std::process::id()) ^ 0x2545_F491_4F6C_DD1D;
    println!("the seed of this run's pauses is {chance}");
    for count in 0.. {
        sleep(pause(&mut chance)).await;
        if ledger.over.load(Ordering::Acquire) {
            return count;
        }
        let server = &servers[count as usize % 2];
        server.freeze();
        sleep(if count % LONG == LONG - 1 { Duration::from_secs(5) } else { pause(&mut chance) }).await;
        server.thaw();
    }
    unreachable!("the loop has no end")
}

#[expect(clippy::disallowed_methods, reason = "how many expiries there are is the test's own setting")]
fn expiries() -> i64 {
    std::env::var("ENTENTE_EPOCHS").ok().and_then(|text| text.parse().ok()).unwrap_or(EXPIRIES)
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_after_a_later_session_or_lease_whichever_server_is_paused() {
    let _permit = super::may_begin().await;
    let (began, most) = (Instant::now(), expiries());
    let world = World::with(Setup::live()).await;
    sqlx::raw_sql(INDICES).execute(&world.ctx().pool).await.unwrap();
    let [sessions, leases] = LINES;
    let lines: Vec<Line> =
        (0..sessions).map(|n| Line::new(false, n)).chain((0..leases).map(|n| Line::new(true, n))).collect();
    let seeds = lines.iter().map(|line| format!("--seed=agent:{}={}", line.agent, key_of(&line.agent)));
    let seeds: Vec<String> = seeds.collect();
    let url = Cluster::get().url(&world.database);
    let places = [Place::new("epochs"), Place::new("epochs")];
    let launches = places.each_ref().map(|place| {
        let mut launch = Launch::shared(place, &url);
        launch.arguments.clone_from(&seeds);
        launch
    });
    let servers = [launches[0].start().await.0, launches[1].start().await.0];
    let ledger = Ledger::default();
    let load = async {
        join_all(lines.iter().map(|line| copies(&ledger, &world, line, &servers, most))).await;
        ledger.over.store(true, Ordering::Release);
    };
    let ((), pauses) = tokio::join!(load, pause_in_turn(&ledger, &servers));
    // What was on its way to a paused server has arrived or failed.
    sleep(Duration::from_secs(5)).await;
    for line in &lines {
        let before = line.before.lock().unwrap().clone();
        for (from, to, count) in before {
            assert_eq!(
                writes(&world, &from, &to).await,
                count,
                "writes from {from} to {to}, now and before the next"
            );
        }
    }
    let stored = u64::try_from(writes(&world, "", "~").await).unwrap();
    let count = |number: &AtomicU64| number.load(Ordering::Relaxed);
    assert!(stored >= count(&ledger.written), "{stored} stored, {} acknowledged", count(&ledger.written));
    assert!(
        pauses > 3 && count(&ledger.refused) > 20,
        "{pauses} pauses, {} refusals",
        count(&ledger.refused)
    );
    println!(
        "{} sessions and {} leases over, {stored} writes, {} refused, {} unanswered, {pauses} pauses, 0 stale, {:?}",
        ledger.expiries[0].load(Ordering::Relaxed),
        ledger.expiries[1].load(Ordering::Relaxed),
        count(&ledger.refused),
        count(&ledger.unanswered),
        began.elapsed()
    );
    drop(servers);
    world.end().await;
}
