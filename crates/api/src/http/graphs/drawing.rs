//! A graph of intents on the wire: its intents, the lines between them, and what they come to.

use entente_domain::ids::IntentId;
use entente_domain::intents::IntentStatus;
use entente_kernel::graphs::{Edge, Graph, Node};
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::portfolios::AggregateBody;

/// An intent of a graph.
#[derive(Debug, Serialize, ToSchema)]
struct GraphNode<'a> {
    /// Its id.
    id: IntentId,
    /// The goal in a line.
    title: &'a str,
    /// Where it is in its life.
    status: IntentStatus,
    /// The intent it is a part of.
    parent_id: Option<IntentId>,
    /// The same, under the SDK's name.
    parent_intent_id: Option<IntentId>,
    /// The intents it waits for.
    depends_on: &'a [IntentId],
    /// Its version.
    version: i64,
}

/// What a line of a graph says.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum EdgeKind {
    /// The second is a part of the first.
    Parent,
    /// The second waits for the first.
    Dependency,
}

/// A line of a graph, in the direction in which work goes on.
#[derive(Debug, Serialize, ToSchema)]
struct GraphEdge {
    /// The whole, or what is waited for.
    from: IntentId,
    /// The part, or what waits.
    to: IntentId,
    /// What it says.
    #[serde(rename = "type")]
    kind: EdgeKind,
}

/// A graph of intents.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct GraphBody<'a> {
    /// The intent that was asked of.
    root_id: IntentId,
    /// The intents, that one first.
    nodes: Vec<GraphNode<'a>>,
    /// The lines between them.
    edges: Vec<GraphEdge>,
    /// What they come to.
    aggregate_status: AggregateBody,
}

impl<'a> GraphBody<'a> {
    pub fn new(root_id: IntentId, graph: &'a Graph) -> Self {
        let Graph { nodes, edges, sums } = graph;
        let node = |node: &'a Node| GraphNode {
            id: node.id,
            title: &node.title,
            status: node.status,
            parent_id: node.parent_id,
            parent_intent_id: node.parent_id,
            depends_on: &node.depends_on,
            version: node.version,
        };
        let edge = |edge: &Edge| match *edge {
            Edge::Part(from, to) => GraphEdge { from, to, kind: EdgeKind::Parent },
            Edge::Wait(from, to) => GraphEdge { from, to, kind: EdgeKind::Dependency },
        };
        Self {
            root_id,
            nodes: nodes.iter().map(node).collect(),
            edges: edges.iter().map(edge).collect(),
            aggregate_status: AggregateBody::new(sums),
        }
    }
}
