//! Affinity: which server owns an intent, and the connections over which commands are handed to it. The owner is the
//! server with the greatest hash of itself and the intent (rendezvous hashing), so that a server that comes or goes
//! moves only its own share. Servers may disagree for a moment: that costs time, not correctness, because whoever writes
//! looks for the message first (`crates/openintent/src/messages/writer/forwarding.rs`).

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use entente_domain::canonical::sha256;
use entente_domain::ids::{IntentId, NodeId};
use entente_domain::openintent::messages::Message;
use entente_kernel::nodes::Peer;
use entente_openintent::messages::writer::Command;
use entente_openintent::messages::writer::forwarding::{Forwarder, HandedCommand};
use entente_runtime::metrics::{ForwardLabels, Metrics};
use entente_runtime::tasks::Tasks;
use futures_util::future::{BoxFuture, join_all};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::frames::{Answer, Half, Request, Secret};

/// Time that the owner has to answer; then the message is written here.
const PATIENCE: Duration = Duration::from_millis(50);

/// Time for which an owner that did not answer is passed over, at first and at most.
const REST: Duration = Duration::from_millis(500);
const LONG_REST: Duration = Duration::from_secs(10);

/// Commands that may wait for one owner; more are written here.
const WAITING: usize = 1_024;

/// Commands per frame.
const TOGETHER: usize = 128;

/// Time limit of connecting, and the pause after a failure.
const DIAL: Duration = Duration::from_secs(1);

/// The share of a server in an intent.
fn weight(node: NodeId, intent: IntentId) -> u64 {
    let both = [node.uuid().into_bytes(), intent.uuid().into_bytes()].concat();
    sha256(both).first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

/// Command on its way to the owner.
struct Sending {
    command: HandedCommand,
    answer: oneshot::Sender<Option<Message>>,
}

/// The kept connection to another server.
struct Link {
    url: String,
    queue: mpsc::Sender<Sending>,
    /// Ends its task.
    over: CancellationToken,
    /// Until when the owner is passed over, and for how long the next time.
    rest: Mutex<(Option<Instant>, Duration)>,
}

impl Link {
    fn is_resting(&self) -> bool {
        let rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner);
        rest.0.is_some_and(|until| until > Instant::now())
    }

    /// Passes the owner over for a while, each time for longer.
    fn give_rest(&self) {
        let mut rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner);
        if rest.0.is_none_or(|until| until <= Instant::now()) {
            *rest = (Some(Instant::now() + rest.1), (rest.1 * 2).min(LONG_REST));
        }
    }

    fn has_answered(&self) {
        *self.rest.lock().unwrap_or_else(PoisonError::into_inner) = (None, REST);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.over.cancel();
    }
}

/// The servers that own intents, with the connections to them.
pub struct Affinity {
    node: NodeId,
    secret: Secret,
    links: Mutex<HashMap<NodeId, Arc<Link>>>,
    metrics: Metrics,
    tasks: Tasks,
}

impl Affinity {
    /// Creates the state of a server that takes commands itself.
    pub(crate) fn new(node: NodeId, secret: Secret, metrics: &Metrics, tasks: &Tasks) -> Self {
        Self { node, secret, links: Mutex::default(), metrics: metrics.clone(), tasks: tasks.clone() }
    }

    /// Takes in the other servers: opens connections to new ones, and closes those of servers that are gone.
    pub(super) fn set_peers(&self, peers: &[Peer]) {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        let urls: HashMap<NodeId, &str> =
            peers.iter().filter_map(|peer| Some((peer.node, peer.peer_url.as_deref()?))).collect();
        links.retain(|node, link| urls.get(node).is_some_and(|url| *url == link.url));
        for (node, url) in urls {
            links.entry(node).or_insert_with(|| self.open(url));
        }
    }

    fn open(&self, url: &str) -> Arc<Link> {
        let (queue, waiting) = mpsc::channel(WAITING);
        let over = self.tasks.stopping().child_token();
        let link = Link { url: url.to_owned(), queue, over: over.clone(), rest: Mutex::new((None, REST)) };
        let (address, secret) = (address(url), self.secret.clone());
        self.tasks.spawn("peer link", async move {
            over.run_until_cancelled(carry(address, secret, waiting)).await;
        });
        Arc::new(link)
    }

    /// Returns the connection to the owner of an intent; `None` if this server owns it.
    fn owner(&self, intent: IntentId) -> Option<Arc<Link>> {
        let links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        let (node, link) = links.iter().max_by_key(|(node, _)| weight(**node, intent))?;
        (weight(*node, intent) > weight(self.node, intent)).then(|| Arc::clone(link))
    }

    fn count(&self, outcome: &'static str) {
        self.metrics.forwards.get_or_create(&ForwardLabels { outcome }).inc();
    }

    async fn hand_over(&self, link: &Link, commands: &[Command]) -> Vec<Option<Arc<Message>>> {
        let until = Instant::now() + PATIENCE;
        // In their order; a full queue is no reason to wait.
        let sent: Vec<_> = commands
            .iter()
            .map(|command| {
                let (answer, answered) = oneshot::channel();
                let sending = Sending { command: HandedCommand::of(command)?, answer };
                link.queue.try_send(sending).ok().map(|()| answered)
            })
            .collect();
        let answers = sent.into_iter().map(async |answered| {
            let Some(answered) = answered else {
                self.count("busy");
                return None;
            };
            match timeout_at(until, answered).await {
                Ok(Ok(Some(message))) => {
                    link.has_answered();
                    self.count("written");
                    Some(Arc::new(message))
                }
                // It was refused there, or its outcome is unknown: it is judged here.
                Ok(Ok(None)) => {
                    link.has_answered();
                    self.count("refused");
                    None
                }
                Ok(Err(_away)) => {
                    link.give_rest();
                    self.count("away");
                    None
                }
                Err(_late) => {
                    link.give_rest();
                    self.count("late");
                    None
                }
            }
        });
        join_all(answers).await
    }
}

impl Forwarder for Affinity {
    fn is_elsewhere(&self, intent: IntentId) -> bool {
        self.owner(intent).is_some_and(|link| !link.is_resting())
    }

    fn forward<'a>(
        &'a self,
        intent: IntentId,
        commands: &'a [Command],
    ) -> BoxFuture<'a, Vec<Option<Arc<Message>>>> {
        Box::pin(async move {
            match self.owner(intent) {
                Some(link) => self.hand_over(&link, commands).await,
                None => commands.iter().map(|_| None).collect(),
            }
        })
    }
}

/// Returns the address in a URL of the form `tcp://host:port`.
fn address(url: &str) -> String {
    url.strip_prefix("tcp://").unwrap_or(url).to_owned()
}

type Pending = Arc<Mutex<HashMap<u64, oneshot::Sender<Option<Message>>>>>;

/// Keeps a connection to a server and carries commands over it. Commands that wait while it is away are dropped: their
/// callers have written them themselves.
async fn carry(address: String, secret: Secret, mut waiting: mpsc::Receiver<Sending>) {
    let next = AtomicU64::new(0);
    loop {
        let Some(first) = waiting.recv().await else { return };
        match timeout(DIAL, dial(&address, &secret)).await {
            Ok(Ok((from, to))) => {
                let pending = Pending::default();
                tokio::select! {
                    gone = send(to, &mut waiting, first, &pending, &next) => {
                        if gone.is_ok() {
                            return;
                        }
                    }
                    _gone = receive(from, &pending) => {}
                }
                tracing::debug!(address, "the connection to another server has ended");
            }
            Ok(Err(failure)) => {
                tracing::debug!(address, error = %failure, "another server cannot be reached");
                sleep(DIAL).await;
            }
            Err(_late) => tracing::debug!(address, "another server does not answer"),
        }
        while waiting.try_recv().is_ok() {}
    }
}

async fn dial(
    address: &str,
    secret: &Secret,
) -> std::io::Result<(Half<OwnedReadHalf>, Half<OwnedWriteHalf>)> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    secret.greet(stream).await
}

/// Sends commands until the connection fails; succeeds when nobody sends any more.
async fn send(
    mut to: Half<OwnedWriteHalf>,
    waiting: &mut mpsc::Receiver<Sending>,
    first: Sending,
    pending: &Pending,
    next: &AtomicU64,
) -> std::io::Result<()> {
    let mut batch = vec![first];
    loop {
        let requests: Vec<Request> = batch
            .drain(..)
            .map(|sending| {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let mut pending = pending.lock().unwrap_or_else(PoisonError::into_inner);
                // Nobody waits any more for answers that are late; they may never come.
                if pending.len() >= WAITING {
                    pending.retain(|_, answer| !answer.is_closed());
                }
                pending.insert(number, sending.answer);
                Request { number, command: sending.command }
            })
            .collect();
        to.write(&requests).await?;
        if waiting.recv_many(&mut batch, TOGETHER).await == 0 {
            return Ok(());
        }
    }
}

async fn receive(mut from: Half<OwnedReadHalf>, pending: &Pending) -> std::io::Result<()> {
    loop {
        for Answer { number, message } in from.read::<Vec<Answer>>().await? {
            let waits = pending.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
            if let Some(waits) = waits {
                // The caller may have stopped waiting.
                let _late = waits.send(message);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_goes_moves_only_its_own_intents() {
        let nodes: Vec<NodeId> = (1..=4).map(|n| NodeId::from(uuid::Uuid::from_u128(n))).collect();
        let owner =
            |nodes: &[NodeId], intent| *nodes.iter().max_by_key(|node| weight(**node, intent)).unwrap();
        let mut shares = HashMap::<NodeId, usize>::new();
        for n in 0..4_000 {
            let intent = IntentId::from(uuid::Uuid::from_u128(n << 64 | 7));
            let before = owner(&nodes, intent);
            *shares.entry(before).or_default() += 1;
            let after = owner(&nodes[1..], intent);
            assert!(before == nodes[0] || after == before);
        }
        assert!(shares.len() == 4 && shares.values().all(|share| (800..1_200).contains(share)), "{shares:?}");
    }
}
