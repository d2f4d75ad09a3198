//! The load of the crash ledger: clients that send and post until the test ends, readers that follow, and the checks of what
//! they were told.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use entente_domain::ids::MessageId;
use futures_util::future::join_all;
use tokio::task::JoinHandle;

use super::readers::{Heard, follow, poll};
use super::{PATIENCE, Run, events, hooks, post};
use entente_harness::{Client, Sse, Value, json, talk};

/// Number of sending clients.
const CLIENTS: u64 = 8;

/// A ledger entry: one acknowledged message.
struct Entry {
    who: u64,
    n: u64,
    id: String,
}

/// Sends messages until all kills are done. Retries each with the same idempotency key until it is acknowledged.
async fn send(run: Arc<Run>, client: Client, channel: String, who: u64) -> Vec<Entry> {
    let path = format!("/channels/{channel}/messages");
    let mut ledger = Vec::new();
    for n in 0.. {
        if run.is_done() {
            break;
        }
        let body = json!({ "sender": format!("agent.{who}"), "payload": { "who": who, "n": n } });
        let once = client.once(&format!("{who}-{n}"));
        let sent = run.acknowledged(&once, &path, &body, &[201]).await.json();
        ledger.push(Entry { who, n, id: sent["id"].as_str().unwrap().to_owned() });
    }
    ledger
}

/// Everything that sends and reads.
pub struct Load {
    pub run: Arc<Run>,
    began: Instant,
    /// Clients of the servers.
    servers: Vec<Client>,
    intent: String,
    channel: String,
    hooks: Vec<hooks::Hook>,
    readers: Vec<JoinHandle<Heard>>,
    senders: Vec<JoinHandle<Vec<Entry>>>,
    noted: Vec<JoinHandle<Vec<String>>>,
    posted: Vec<JoinHandle<Vec<i64>>>,
    taken: JoinHandle<Vec<(i64, Value)>>,
}

impl Load {
    /// Starts it on these servers: everything reads on each of them, and each client that sends uses one.
    pub async fn start(run: Run, servers: Vec<Client>) -> Self {
        let (run, began) = (Arc::new(run), Instant::now());
        let options = json!({ "options": { "audit": true, "max_messages": 1_000_000 } });
        let (intent, channel) = talk(&servers[0], options).await;
        let hooks = hooks::open(&servers[0], &intent).await;
        let mut readers = Vec::new();
        for server in &servers {
            let paths = [
                format!("/subscribe/intents/{intent}"),
                format!("/channels/{channel}/subscribe"),
                "/subscribe".to_owned(),
            ];
            for path in paths {
                // Opened before the first message, because they must receive all of them.
                let stream = Sse::open(server, &path).await;
                readers.push(tokio::spawn(follow(Arc::clone(&run), server.clone(), path, stream)));
            }
            readers.push(tokio::spawn(poll(Arc::clone(&run), server.clone(), channel.clone())));
        }
        let of =
            |who: u64| (Arc::clone(&run), servers[usize::try_from(who).unwrap() % servers.len()].clone());
        let sender = |who: u64| {
            let (run, server) = of(who);
            tokio::spawn(send(run, server, channel.clone(), who))
        };
        let noter = |who: u64| {
            let (run, server) = of(who);
            tokio::spawn(events::post(run, server, intent.clone(), who))
        };
        let poster = |who: u64| {
            let (run, server) = of(who);
            tokio::spawn(post::send(run, server, who))
        };
        let senders = (0..CLIENTS).map(sender).collect();
        let noted = (0..events::POSTERS).map(noter).collect();
        let posted = (0..post::SENDERS).map(poster).collect();
        let (run_of_reader, server) = of(0);
        let taken = tokio::spawn(post::read(run_of_reader, server));
        Self { run, began, servers, intent, channel, hooks, readers, senders, noted, posted, taken }
    }

    /// Ends it and checks that everything acknowledged is there once and in order, and that every reader got all of it.
    /// Returns what the readers of messages got.
    pub async fn end(self) -> Vec<Heard> {
        self.run.done.store(true, Ordering::Release);
        let any = &self.servers[0];
        let ledger: Vec<Entry> = join_all(self.senders).await.into_iter().flat_map(Result::unwrap).collect();
        let posted: Vec<Vec<i64>> = join_all(self.posted).await.into_iter().map(Result::unwrap).collect();
        self.run.posted.store(true, Ordering::Release);
        let listed = check_channel(any, &self.channel, &ledger).await;
        let _first = self.run.listed.set((listed.len(), Instant::now()));
        let mut all_heard = Vec::new();
        for reader in self.readers {
            let heard = tokio::time::timeout(2 * PATIENCE, reader).await.expect("a reader hangs").unwrap();
            check_reader(&heard, &listed);
            all_heard.push(heard);
        }
        let noted: Vec<Vec<String>> = join_all(self.noted).await.into_iter().map(Result::unwrap).collect();
        let notes = events::check(any, &self.intent, &noted).await;
        check_log(any, &self.intent, listed.len() + notes).await;
        hooks::check(self.hooks, &listed).await;
        post::check(any, &posted, &self.taken.await.unwrap()).await;
        println!(
            "{} messages acknowledged, {} attempts repeated, {:?}",
            ledger.len(),
            self.run.retries.load(Ordering::Relaxed),
            self.began.elapsed()
        );
        all_heard
    }
}

/// Asserts that the channel contains exactly the ledger's messages, each once, numbered without gaps and in each
/// client's order. Returns their ids in order.
async fn check_channel(client: &Client, channel: &str, ledger: &[Entry]) -> Vec<String> {
    let (mut cursor, mut listed): (String, Vec<Value>) = ("cur_0".to_owned(), Vec::new());
    loop {
        let page = client.get(&format!("/channels/{channel}/messages?since={cursor}")).await;
        page.header("entente-next-cursor").clone_into(&mut cursor);
        let page = page.ok();
        if page == json!([]) {
            break;
        }
        listed.extend(page.as_array().unwrap().iter().cloned());
    }
    let number = |m: &Value| m["id"].as_str().unwrap().parse::<MessageId>().unwrap().number();
    assert!(
        listed.iter().map(number).eq(1..=u32::try_from(listed.len()).unwrap()),
        "the numbers have gaps or doubles"
    );
    let mut next: HashMap<u64, u64> = HashMap::new();
    for message in &listed {
        let (who, n) =
            (message["payload"]["who"].as_u64().unwrap(), message["payload"]["n"].as_u64().unwrap());
        let expected = next.entry(who).or_default();
        assert_eq!(n, *expected, "client {who}: doubled, lost or out of order");
        *expected += 1;
    }
    let of: HashMap<(u64, u64), &str> = listed
        .iter()
        .map(|m| {
            (
                (m["payload"]["who"].as_u64().unwrap(), m["payload"]["n"].as_u64().unwrap()),
                m["id"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        listed.len(),
        ledger.len(),
        "every message was acknowledged in the end, and no other is there"
    );
    for entry in ledger {
        assert_eq!(of.get(&(entry.who, entry.n)), Some(&entry.id.as_str()), "acknowledged and not there");
    }
    listed.iter().map(|m| m["id"].as_str().unwrap().to_owned()).collect()
}

fn check_reader(heard: &Heard, listed: &[String]) {
    println!("{}: {} messages, broken off {} times", heard.who, heard.ids.len(), heard.breaks);
    if let Some(index) = heard.ids.iter().zip(listed).position(|(heard_id, listed_id)| heard_id != listed_id)
    {
        let around = &heard.ids[index.saturating_sub(3)..heard.ids.len().min(index + 4)];
        let places: Vec<_> = around.iter().map(|id| listed.iter().position(|known| known == id)).collect();
        panic!("{}: at {index} of {} it heard what is at {places:?}", heard.who, listed.len());
    }
    assert_eq!(heard.ids.len(), listed.len(), "{}: not each message once", heard.who);
}

/// Asserts that the hash chain verifies and contains every posted event and every message of the audited channel.
async fn check_log(client: &Client, intent: &str, entries: usize) {
    let verified = client.get(&format!("/intents/{intent}/events/verify")).await.ok();
    assert_eq!((&verified["chain_valid"], &verified["breaks"]), (&json!(true), &json!([])));
    // Plus the creation of the intent and of the channel.
    assert_eq!(verified["event_count"], entries + 2);
}
