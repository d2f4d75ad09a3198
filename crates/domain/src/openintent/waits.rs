//! Who waits for whom, and deadlocks: cycles of agents that wait for each other.
//!
//! # The model
//!
//! An agent is one party, however many processes act in its name. It can be held up in two ways, so it has two nodes in
//! the graph: its *call* and its *work*.
//!
//! - A call that blocks (a request whose answer is waited for, a place in the queue for a lease) holds up the whole
//!   agent, and so its work: `work → call`.
//! - A request needs the other's attention. Only a blocking call keeps an agent from answering, because one whose work
//!   waits still reads its messages: `call → call`.
//! - A lease is released, a task done and a job ended by the other's work: `call → work` for a lease, `work → work` for
//!   tasks and jobs.
//! - A person has no node: whoever waits for a decision waits outside of any cycle.
//!
//! All waits of an agent must end before it goes on (AND). A wait that any of several agents may end (a request to a
//! role or to everybody, a job that several can run) is an OR-wait: it does not block ([`Wait::blocks`]), because the
//! one that answers may be outside of the cycle. The same holds for an agent with other work to go on with. So no
//! deadlock is found that could end by itself, unless a wait has a time limit; and plain asynchronous requests are no
//! waits at all.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::canonical::{Digest, sha256};
use crate::clock::Timestamp;
use crate::ids::IntentId;

/// Kind of a wait, by the thing that is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum WaitKind {
    /// The answer to a request, in a call that waits for it (RFC-0021 §3).
    Request,
    /// A lease, in the queue for it (RFC-0003).
    Lease,
    /// The end of a task that another one depends on (RFC-0012).
    Task,
    /// The end of a job that another one delegated (ARCP §10).
    Job,
    /// A person's decision (binding moment).
    Decision,
}

impl WaitKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Request, Self::Lease, Self::Task, Self::Job, Self::Decision];

    /// Returns the name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Lease => "lease",
            Self::Task => "task",
            Self::Job => "job",
            Self::Decision => "decision",
        }
    }
}

/// A wait of one agent for another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// The agent that waits.
    pub from: String,
    /// The awaited agent or person; `None` if any of several may end the wait.
    pub to: Option<String>,
    /// Kind of the wait.
    pub kind: WaitKind,
    /// The request, the lease's scope, the task, the job or the moment.
    pub reference: String,
    /// The intent that it happens on.
    pub intent_id: Option<IntentId>,
    /// Since when.
    pub since: Timestamp,
    /// Whether the agent can do nothing else until then, as far as the server knows.
    pub blocks: bool,
    /// Whether everybody who may read the intent may see it.
    pub public: bool,
}

/// A deadlock: agents that wait for one another, so that none of them goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deadlock {
    /// The agents, sorted.
    pub agents: Vec<String>,
    /// Positions of its waits among those given.
    pub waits: Vec<usize>,
}

impl Deadlock {
    /// Returns the digest that tells it from others: over the agents, kinds and intents of its waits. An agent that
    /// gives up and asks again at once is in the same deadlock.
    #[must_use]
    pub fn fingerprint(&self, waits: &[Wait]) -> Digest {
        let line = |wait: &Wait| {
            let intent = wait.intent_id.map(|intent| intent.to_string()).unwrap_or_default();
            // No name has a control character.
            format!("{}\n{}\n{}\n{intent}\n", wait.from, wait.to.as_deref().unwrap_or(""), wait.kind.as_str())
        };
        let lines: BTreeSet<String> = self.waits.iter().filter_map(|at| waits.get(*at)).map(line).collect();
        sha256(lines.into_iter().collect::<String>())
    }
}

/// Part of an agent that can be held up: a node of the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Call,
    Work,
}

/// Returns the parts of the two agents that a wait connects; `None` for one that is in no cycle.
fn ends(wait: &Wait) -> Option<[(&str, Part); 2]> {
    let to = wait.to.as_deref().filter(|_| wait.blocks)?;
    let (at, on) = match wait.kind {
        WaitKind::Request => (Part::Call, Part::Call),
        WaitKind::Lease => (Part::Call, Part::Work),
        WaitKind::Task | WaitKind::Job => (Part::Work, Part::Work),
        WaitKind::Decision => return None,
    };
    Some([(&wait.from, at), (to, on)])
}

/// Returns the deadlocks among these waits, the one with the most agents first.
#[must_use]
pub fn deadlocks(waits: &[Wait]) -> Vec<Deadlock> {
    let edges: Vec<(usize, [(&str, Part); 2])> =
        waits.iter().enumerate().filter_map(|(at, wait)| Some((at, ends(wait)?))).collect();
    let mut places: BTreeMap<(&str, Part), usize> = BTreeMap::new();
    for (name, _) in edges.iter().flat_map(|(_, ends)| ends) {
        for part in [Part::Call, Part::Work] {
            let next = places.len();
            places.entry((name, part)).or_insert(next);
        }
    }
    let mut graph = Graph::of(places.len());
    for ((name, part), at) in &places {
        if *part == Part::Work {
            graph.add(*at, places[&(*name, Part::Call)]);
        }
    }
    for (_, [from, to]) in &edges {
        graph.add(places[from], places[to]);
    }
    // Positions of the waits inside of each component; a component without any is no cycle.
    let component = graph.components();
    let mut inside: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, [from, to]) in &edges {
        if component[places[from]] == component[places[to]] {
            inside.entry(component[places[from]]).or_default().push(*at);
        }
    }
    let deadlock = |at: Vec<usize>| {
        let names = at.iter().filter_map(|at| waits.get(*at)).map(|wait| wait.from.clone());
        Deadlock { agents: names.collect::<BTreeSet<String>>().into_iter().collect(), waits: at }
    };
    let mut found: Vec<Deadlock> = inside.into_values().map(deadlock).collect();
    found.sort_by(|a, b| (b.agents.len(), &a.agents).cmp(&(a.agents.len(), &b.agents)));
    found
}

/// Tells in one sentence who waits for whom.
#[must_use]
pub fn told(agents: &[String]) -> String {
    match agents {
        [] => "Nobody waits for anybody.".to_owned(),
        [alone] => format!("{alone} waits for itself."),
        [one, other] => format!("{one} and {other} wait for each other."),
        many => format!("{} wait for one another in a circle.", many.join(", ")),
    }
}

/// A graph of numbered nodes.
struct Graph {
    next: Vec<Vec<usize>>,
    back: Vec<Vec<usize>>,
}

impl Graph {
    /// Returns a graph of so many nodes, without edges.
    fn of(nodes: usize) -> Self {
        Self { next: vec![Vec::new(); nodes], back: vec![Vec::new(); nodes] }
    }

    fn add(&mut self, from: usize, to: usize) {
        self.next[from].push(to);
        self.back[to].push(from);
    }

    /// Returns the number of each node's strongly connected component.
    fn components(&self) -> Vec<usize> {
        let mut component = vec![0; self.next.len()];
        for (number, knot) in self.knots().into_iter().enumerate() {
            for at in knot {
                component[at] = number;
            }
        }
        component
    }

    /// Returns the strongly connected components (Kosaraju's algorithm), without recursion, because chains may be long.
    fn knots(&self) -> Vec<Vec<usize>> {
        let mut order = Vec::with_capacity(self.next.len());
        let mut seen = vec![false; self.next.len()];
        for start in 0..self.next.len() {
            walk(&self.next, start, &mut seen, |done| order.push(done));
        }
        let mut seen = vec![false; self.next.len()];
        let mut knots = Vec::new();
        for start in order.into_iter().rev() {
            let mut knot = Vec::new();
            walk(&self.back, start, &mut seen, |done| knot.push(done));
            if !knot.is_empty() {
                knot.sort_unstable();
                knots.push(knot);
            }
        }
        knots
    }
}

/// Visits all unseen nodes reachable from `start`, and reports each in postorder.
fn walk(next: &[Vec<usize>], start: usize, seen: &mut [bool], mut tell: impl FnMut(usize)) {
    let mut path = vec![(start, 0)];
    if std::mem::replace(&mut seen[start], true) {
        return;
    }
    while let Some((at, turn)) = path.last_mut() {
        if let Some(to) = next[*at].get(*turn) {
            *turn += 1;
            if !std::mem::replace(&mut seen[*to], true) {
                path.push((*to, 0));
            }
        } else {
            tell(*at);
            path.pop();
        }
    }
}
